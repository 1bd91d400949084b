"""Migrations on a real database."""

import subprocess
import sys
from collections.abc import Iterator

import anyio
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from retrieval.faults import RetrievalMisconfigured, RetrievalUnavailable
from retrieval.schema import migrate, migrations
from tests.support.postgres import fresh_database

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def bare_url(server_url: str) -> Iterator[str]:
    with fresh_database(server_url, migrated=False) as url:
        yield url


def tables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        return {name for (name,) in found}


async def test_migrations_apply_in_order_and_once(bare_url: str) -> None:
    names = await migrate(bare_url)
    assert names == tuple(sorted(migrations()))
    assert tables(bare_url) >= {"collection", "document", "passage", "coverage_gap"}
    assert await migrate(bare_url) == ()


async def test_of_many_at_once_one_migrates(bare_url: str) -> None:
    applied: list[tuple[str, ...]] = []

    async def one() -> None:
        applied.append(await migrate(bare_url))

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(one)
    assert sorted(applied) == [()] * 7 + [tuple(migrations())]


def test_of_two_processes_one_migrates(bare_url: str) -> None:
    program = "import sys, anyio; from retrieval.schema import migrate; print(*anyio.run(migrate, sys.argv[1]))"
    command = [sys.executable, "-c", program, bare_url]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=50)[0].split() for process in started]
    assert [process.returncode for process in started] == [0, 0]
    assert sorted(outputs) == [[], list(migrations())]


async def test_a_migration_that_fails_leaves_nothing_behind(bare_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {**migrations(), "9999_broken": "CREATE TABLE half (id int); SELECT 1 / 0"}
    monkeypatch.setattr("retrieval.schema.migrations", lambda: broken)
    with pytest.raises(psycopg.errors.DivisionByZero):
        await migrate(bare_url)
    assert tables(bare_url) == set()


async def test_a_database_of_a_newer_version_is_refused(bare_url: str) -> None:
    await migrate(bare_url)
    with psycopg.connect(bare_url, autocommit=True) as connection:
        connection.execute("INSERT INTO schema_migration (name) VALUES ('9999_future')")
    with pytest.raises(RetrievalMisconfigured, match="newer version"):
        await migrate(bare_url)


async def test_a_user_without_rights_is_told_so(bare_url: str) -> None:
    with psycopg.connect(bare_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS guest")
        connection.execute("CREATE ROLE guest LOGIN")
    try:
        with pytest.raises(RetrievalMisconfigured, match="may not create"):
            await migrate(make_conninfo(bare_url, user="guest"))
    finally:
        with psycopg.connect(bare_url, autocommit=True) as connection:
            connection.execute("DROP ROLE guest")


async def test_a_lock_that_is_never_released_is_given_up(bare_url: str) -> None:
    with psycopg.connect(bare_url) as holder:
        holder.execute("SELECT pg_advisory_lock(7236115009)")
        with pytest.raises(RetrievalUnavailable, match=r"within 0\.5 s"):
            await migrate(bare_url, limit_s=0.5)


@pytest.mark.parametrize("url", ["postgresql://gateway@127.0.0.1:9/x", "postgresql:///x?host=/nowhere"])
async def test_a_server_that_is_not_there_is_unavailable(url: str) -> None:
    with pytest.raises(RetrievalUnavailable):
        await migrate(url, limit_s=5)
