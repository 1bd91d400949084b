"""A real PostgreSQL for tests: one server per session, one fresh database per test module.

tests/conftest.py makes two fixtures known everywhere: `server_url`, and `database_url`, the address of a migrated, empty database that the
tests of a module share. `emptied(url)` empties it, `fresh_database(server_url)` makes another one.
"""

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from retrieval.embedded import EmbeddedPostgres
from retrieval.schema import migrate
from retrieval.serving import becoming


@contextmanager
def running_server() -> Iterator[str]:
    """The address of a server: GATEWAY_TEST_DATABASE_URL where it is set, else an embedded one, stopped at the end."""
    if given := os.environ.get("GATEWAY_TEST_DATABASE_URL"):
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="gw-pg-") as home:
        Path(home).chmod(0o711)  # run by root, the server's unprivileged account must get in
        server = EmbeddedPostgres(Path(home))
        url = anyio.run(server.__aenter__)
        try:
            yield url
        finally:
            anyio.run(server.__aexit__, None, None, None)


@contextmanager
def fresh_database(server: str, *, migrated: bool = True) -> Iterator[str]:
    """The address of a new database on `server`, dropped at the end with whoever is still connected."""
    name = f"test_{secrets.token_hex(6)}"
    _administer(server, f"CREATE DATABASE {name}")
    url = make_conninfo(server, dbname=name)
    try:
        if migrated:
            anyio.run(migrate, url)
        yield url
    finally:
        _administer(server, f"DROP DATABASE {name} WITH (FORCE)")


def emptied(url: str) -> str:
    """`url` for who serves (retrieval/serving.py), its database emptied: for the start of a test that must see nothing of another."""
    _administer(
        url,
        "TRUNCATE collection, document, passage, coverage_gap, calibration, decision, api_key RESTART IDENTITY CASCADE",
    )
    return becoming(url)


def _administer(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    with running_server() as url:
        yield url


@pytest.fixture(scope="module")
def database_url(server_url: str) -> Iterator[str]:
    with fresh_database(server_url) as url:
        yield url
