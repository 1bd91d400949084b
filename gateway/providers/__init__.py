"""Adapters that implement the ports with a vendor, a local model or a script."""
