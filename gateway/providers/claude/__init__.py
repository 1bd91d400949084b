"""Claude, through the `anthropic` SDK: the generator and the grader of a gateway that has a key."""
