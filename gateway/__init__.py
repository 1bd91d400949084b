"""The edge: HTTP, settings, vendors, telemetry, command line."""
