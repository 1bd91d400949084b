"""What the database counts for BM25, and how it spells names."""

from collections.abc import AsyncIterator

import psycopg
import pytest

from retrieval.names import name_of
from retrieval.pool import Pool, open_pool
from retrieval.store import PassageStore
from tests.support.embedders import HashingEmbedder
from tests.support.library import shelve
from tests.support.postgres import emptied

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    async with open_pool(emptied(database_url), size=2) as pool:
        yield pool


def counted(url: str) -> list[tuple[str, int]]:
    """Terms in use and their counts, of all collections, as kept."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT lexeme, passages FROM term WHERE passages <> 0 ORDER BY collection_id, lexeme"
        )
        return [(str(lexeme), int(passages)) for lexeme, passages in rows.fetchall()]


def recounted(url: str) -> list[tuple[str, int]]:
    """The same, counted from the passages."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT lexeme, count(*) FROM passage, unnest(tsvector_to_array(tsv)) AS lexeme "
            "GROUP BY collection_id, lexeme ORDER BY collection_id, lexeme"
        )
        return [(str(lexeme), int(passages)) for lexeme, passages in rows.fetchall()]


def sizes(url: str) -> list[tuple[int, int]]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT passages, lexemes FROM collection_size ORDER BY collection_id").fetchall()
        return [(int(passages), int(lexemes)) for passages, lexemes in rows]


async def test_counts_follow_every_way_of_writing(pool: Pool, database_url: str) -> None:
    embedder, store = HashingEmbedder(), PassageStore(pool)
    collection = await shelve(pool, embedder, {"a": "green tea and tea", "b": "black tea"})
    await shelve(pool, embedder, {"c": "tea elsewhere"}, collection="other")
    assert ("tea", 2) in counted(database_url)
    assert counted(database_url) == recounted(database_url)
    await shelve(pool, embedder, {"a": "coffee now"})
    assert counted(database_url) == recounted(database_url)
    await store.remove("b")
    assert counted(database_url) == recounted(database_url)
    await store.forget(collection, "/library", ["a"])
    assert counted(database_url) == recounted(database_url)
    assert sizes(database_url) == [(0, 0), (1, 3)]


async def test_a_collection_can_be_removed_with_its_counts(pool: Pool, database_url: str) -> None:
    await shelve(pool, HashingEmbedder(), {"a": "green tea"})
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("DELETE FROM collection")
    assert counted(database_url) == []
    assert sizes(database_url) == []


@pytest.mark.parametrize(
    "title",
    [
        "Mercury (planet)",
        "A › B › It Ain't So",
        "Åland – Övre",
        "AC/DC  live",
        "_x_ (a) (b)",
        "()",
        "",
        "日本 (国)",
        "a\tb\n",
    ],
)
async def test_sql_and_python_spell_names_alike(database_url: str, title: str) -> None:
    with psycopg.connect(database_url) as connection:
        row = connection.execute("SELECT name_of(%s)", (title,)).fetchone()
    assert row == (name_of(title),)
