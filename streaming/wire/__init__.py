"""Events -> frames, one pure module per wire format."""
