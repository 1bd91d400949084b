"""Coverage gaps in a real database."""

from collections.abc import Iterator

import psycopg
import pytest

from gateway.gaps import PostgresGaps
from retrieval.pool import open_pool
from streaming.ports import Gap
from tests.support.postgres import emptied, fresh_database

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_gap_is_stored_as_it_was(database_url: str) -> None:
    gap = Gap("Why?", "the reason", "insufficient_evidence", ("Why?", "Why? the reason"), 2, "docs", "acme", "a1")
    async with open_pool(emptied(database_url), size=1) as pool:
        gap_id = await PostgresGaps(pool).record(gap)
    with psycopg.connect(database_url) as connection:
        columns = "id, question, missing, reason, searched, attempts, collection, tenant, answer_id, at IS NOT NULL"
        stored = connection.execute(f"SELECT {columns} FROM coverage_gap".encode()).fetchall()
    searched = ["Why?", "Why? the reason"]
    assert stored == [(gap_id, "Why?", "the reason", "insufficient_evidence", searched, 2, "docs", "acme", "a1", True)]


async def test_every_gap_has_its_own_id_and_odd_text_is_cleaned(database_url: str) -> None:
    gap = Gap("W\x00hy \ud83d?", None, "declined", ("\x00", "\udc00"), 1, "d\x00", "t\ud800", "a1")
    async with open_pool(emptied(database_url), size=1) as pool:
        ids = [await PostgresGaps(pool).record(gap) for _ in range(2)]
    assert None not in ids
    assert len(set(ids)) == 2


@pytest.fixture
def tableless_url(server_url: str) -> Iterator[str]:
    with fresh_database(server_url) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE coverage_gap")
        yield url


async def test_a_gap_without_its_table_is_a_warning_and_no_fault(
    tableless_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    gap = Gap("Why?", None, "declined", (), 1, "default", "default", "a7")
    async with open_pool(tableless_url, size=1) as pool:
        assert await PostgresGaps(pool).record(gap) is None
    assert "a coverage gap of answer a7 was not stored" in caplog.text
