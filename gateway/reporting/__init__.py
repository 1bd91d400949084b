"""The report: how long each path takes and how often, from whatever counted it."""
