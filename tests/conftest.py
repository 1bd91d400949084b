"""Fixtures that every test may ask for."""

from tests.support.postgres import database_url, server_url

__all__ = ["database_url", "server_url"]
