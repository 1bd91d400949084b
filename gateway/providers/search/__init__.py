"""Search services over HTTP, as sources."""
