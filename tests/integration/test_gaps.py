"""Coverage gaps in a real database."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import anyio
import psycopg
import pytest

from gateway.gap_groups import golden
from gateway.gaps import PostgresGaps
from retrieval.pool import Pool, open_pool
from retrieval.ports import Vector
from retrieval.schema import migrate, migrations
from streaming.ports import Gap
from tests.support.embedders import HashingEmbedder
from tests.support.postgres import emptied, fresh_database

pytestmark = pytest.mark.anyio

GAP = Gap("Why?", "the reason", "insufficient_evidence", ("Why?", "Why? the reason"), 2, "docs", "acme", "a1")
OURS = replace(GAP, collection="default", tenant="default")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    async with open_pool(emptied(database_url), size=4) as pool:
        yield pool


@pytest.fixture
def gaps(pool: Pool) -> PostgresGaps:
    return PostgresGaps(pool, HashingEmbedder())


async def asked(gaps: PostgresGaps, *questions: str, gap: Gap = OURS) -> list[str | None]:
    """Records the questions one after the other; their ids."""
    return [
        await gaps.record(replace(gap, question=question, answer_id=f"a{n}")) for n, question in enumerate(questions)
    ]


async def test_a_gap_is_stored_as_it_was(gaps: PostgresGaps, database_url: str) -> None:
    gap_id = await gaps.record(GAP)
    with psycopg.connect(database_url) as connection:
        columns = "id, question, missing, reason, searched, attempts, collection, tenant, answer_id, at IS NOT NULL"
        stored = connection.execute(f"SELECT {columns} FROM coverage_gap".encode()).fetchall()
    searched = ["Why?", "Why? the reason"]
    assert stored == [(gap_id, "Why?", "the reason", "insufficient_evidence", searched, 2, "docs", "acme", "a1", True)]


async def test_every_gap_has_its_own_id_and_odd_text_is_cleaned(gaps: PostgresGaps) -> None:
    gap = Gap("W\x00hy \ud83d?", None, "declined", ("\x00", "\udc00"), 1, "d\x00", "t\ud800", "a1")
    ids = [await gaps.record(gap) for _ in range(2)]
    assert None not in ids
    assert len(set(ids)) == 2
    assert len(await gaps.newest(tenant="t\ud800")) == 1


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


async def test_repeats_of_a_question_are_one_group_newest_first(gaps: PostgresGaps) -> None:
    ids = await asked(
        gaps,
        "Which roses need shade in the garden at noon?",
        "Who pays for the milk?",
        "which ROSES need shade in the garden at noon",
        "Which roses need shade in the garden at noon today?",
    )
    first, second = await gaps.newest()
    assert (first.id, first.question, first.count) == (ids[0], "Which roses need shade in the garden at noon?", 3)
    assert (second.id, second.question, second.count) == (ids[1], "Who pays for the milk?", 1)
    assert first.questions[0] == "Which roses need shade in the garden at noon today?"
    assert len(first.questions) == 3
    assert first.first_at < second.last_at < first.last_at


async def test_a_group_tells_of_its_latest_gap(gaps: PostgresGaps) -> None:
    await gaps.record(OURS)
    await gaps.record(replace(OURS, reason="ungrounded", missing=None, searched=("elsewhere",), attempts=1))
    (group,) = await gaps.newest()
    assert (group.reason, group.missing, group.searched, group.attempts) == ("ungrounded", None, ["elsewhere"], 1)


async def test_tenants_and_collections_share_no_group(gaps: PostgresGaps) -> None:
    for gap in (OURS, replace(OURS, collection="docs"), replace(OURS, tenant="acme"), OURS):
        await gaps.record(gap)
    assert [(g.collection, g.count) for g in await gaps.newest()] == [("default", 2), ("docs", 1)]
    assert [(g.collection, g.count) for g in await gaps.newest(collections=["docs"])] == [("docs", 1)]
    assert [g.count for g in await gaps.newest(tenant="acme")] == [1]
    assert await gaps.newest(tenant="nobody") == ()


async def test_no_more_groups_than_asked_for(gaps: PostgresGaps) -> None:
    await asked(gaps, "alpha", "beta", "gamma")
    assert [g.question for g in await gaps.newest(limit=2)] == ["gamma", "beta"]


async def test_the_same_question_asked_by_many_at_once_is_one_group(gaps: PostgresGaps) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(12):
            tasks.start_soon(gaps.record, OURS)
    assert [g.count for g in await gaps.newest()] == [12]


class Failing(HashingEmbedder):
    async def embed_query(self, text: str) -> Vector:
        raise RuntimeError("no model")


class Endless(HashingEmbedder):
    async def embed_query(self, text: str) -> Vector:
        await anyio.sleep_forever()
        raise AssertionError


@pytest.mark.parametrize("embedder", [None, Failing(), Endless(), HashingEmbedder(dimensions=3)])
async def test_without_a_vector_the_words_alone_make_a_group(pool: Pool, embedder: HashingEmbedder | None) -> None:
    gaps = PostgresGaps(pool, embedder)
    await asked(PostgresGaps(pool, HashingEmbedder()), "Which roses need shade at noon?")
    await asked(gaps, "which roses need shade at noon?", "Which roses need shade at noon today?")
    assert sorted(g.count for g in await gaps.newest()) == [1, 2]


async def test_a_question_without_words_is_a_group_of_its_own(gaps: PostgresGaps) -> None:
    await asked(gaps, "?!", "...", "?!")
    assert sorted(g.count for g in await gaps.newest()) == [1, 2]


async def test_a_gap_shows_its_whole_group(gaps: PostgresGaps) -> None:
    ids = await asked(gaps, "Why?", "Who pays for the milk?", "why?")
    shown = await gaps.show(str(ids[2]))
    assert shown is not None
    group, stored = shown
    assert (group.id, group.count) == (ids[0], 2)
    assert [(gap.id, gap.question) for gap in stored] == [(ids[2], "why?"), (ids[0], "Why?")]
    assert await gaps.show("gap_none") is None
    assert await gaps.show(str(ids[0]), tenant="acme") is None


async def test_a_group_is_an_item_of_a_golden_set(gaps: PostgresGaps) -> None:
    (gap_id,) = await asked(gaps, "Why?")
    (group,) = await gaps.newest()
    assert golden(group) == {
        "id": gap_id,
        "question": "Why?",
        "answerable": None,
        "answers": [],
        "evidence": [],
        "kind": "insufficient_evidence",
        "source": "gap",
    }


async def test_gaps_from_before_groups_are_grouped_by_their_words(server_url: str) -> None:
    with fresh_database(server_url, migrated=False) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE schema_migration (name text PRIMARY KEY, applied_at timestamptz DEFAULT now())"
            )
            for name, statements in list(migrations().items())[:4]:
                connection.execute(statements.encode())
                connection.execute("INSERT INTO schema_migration (name) VALUES (%s)", (name,))
            columns = "(id, tenant, collection, question, reason, searched, attempts, answer_id, at)"
            for gap_id, question in [("b", "Why?"), ("a", "why?"), ("c", "Who?")]:
                connection.execute(
                    f"INSERT INTO coverage_gap {columns} VALUES (%s, 'default', 'default', %s, 'declined', '{{}}', 1, 'x', "
                    "timestamptz '2026-01-01' + (SELECT count(*) FROM coverage_gap) * interval '1 hour')".encode(),
                    (gap_id, question),
                )
        await migrate(url)
        async with open_pool(url, size=1) as pool:
            assert [(g.id, g.count) for g in await PostgresGaps(pool).newest()] == [("c", 1), ("b", 2)]
