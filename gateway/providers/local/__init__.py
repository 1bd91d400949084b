"""Models that run in this process, from files in wheels: no key, no model hub, no other service."""
