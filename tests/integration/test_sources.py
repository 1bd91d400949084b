"""The hierarchy of sources as settings open it: real databases, a real HTTP server, one searcher over all."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import psycopg
import pytest
from pydantic import TypeAdapter

from gateway.source_settings import SourceTable
from gateway.sources import open_sources
from gateway.wiring import Library
from retrieval.faults import DatabaseMissing
from retrieval.pool import open_pool
from retrieval.ports import Query
from retrieval.postgres import PostgresRetriever
from retrieval.searcher import Search, Searcher
from retrieval.sources import Source
from retrieval.store import PassageStore
from tests.support.embedders import HashingEmbedder
from tests.support.library import shelve
from tests.support.postgres import emptied, fresh_database
from tests.support.search_api import BRAVE, KEY, SearchApi, search_api

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def archive_url(server_url: str) -> Iterator[str]:
    with fresh_database(server_url) as url:
        yield url


@pytest.fixture
def api() -> Iterator[SearchApi]:
    with search_api(BRAVE) as api:
        api.found = [("Web", "Tea on the web.", "https://web.example/tea")]
        yield api


def tables(*written: dict[str, Any]) -> tuple[SourceTable, ...]:
    return TypeAdapter(tuple[SourceTable, ...]).validate_python(written)


async def found(searcher: Searcher, place: int) -> list[str]:
    """What each source finds, as `id source external`."""
    set_found = await searcher.run(Search("next_source", (Query("tea"),), 5, place), "tea")
    return [f"{p.id} {p.metadata.get('source')} {p.metadata.get('external')}" for p in set_found.kept]


async def test_every_kind_is_opened_in_its_order_and_marked(
    database_url: str, archive_url: str, api: SearchApi
) -> None:
    emptied(archive_url)
    emptied(database_url)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "CREATE OR REPLACE VIEW notes AS SELECT 7 AS id, 'Note' AS title, 'Tea in a view.' AS text, "
            "NULL::text AS url, '{}'::jsonb AS metadata"
        )
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(open_pool(database_url, size=2))
        books = Library(PassageStore(pool), HashingEmbedder(), pool, database_url)
        await shelve(pool, books.embedder, {"own": "Tea of the house."})
        await shelve(pool, books.embedder, {"handbook": "Tea in the handbook."}, collection="handbook")
        async with open_pool(archive_url, size=1) as archive:
            await shelve(archive, books.embedder, {"own": "Tea in the archive."})
        sources = await open_sources(
            tables(
                {"kind": "collection", "name": "handbook", "collection": "handbook"},
                {"kind": "postgres", "name": "archive", "url": archive_url, "parallel": True},
                {"kind": "view", "view": "notes"},
                {"kind": "view", "name": "far", "view": "notes", "url": database_url},
                {"kind": "brave", "key": KEY, "url": api.url},
                {"kind": "brave", "name": "trusted", "key": KEY, "url": api.url, "external": False},
            ),
            PostgresRetriever(pool, books.embedder),
            books,
            stack,
        )
        searcher = Searcher(sources, None)
        assert [await found(searcher, place) for place in range(len(sources))] == [
            ["own:0 None None"],
            ["handbook:0 handbook False"],
            ["archive:own:0 archive False"],
            ["view:7 view False"],
            ["far:7 far False"],
            [f"{web} brave True" for web in [(await sources[5].retrieve(Query("tea")))[0].id]],
            [f"{web} trusted False" for web in [(await sources[6].retrieve(Query("tea")))[0].id]],
        ]
        assert [source.parallel for source in sources] == [False, False, True, False, False, False, False]


async def test_external_text_never_comes_before_an_internal_passage(database_url: str, api: SearchApi) -> None:
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(open_pool(emptied(database_url), size=2))
        books = Library(PassageStore(pool), HashingEmbedder(), pool, database_url)
        await shelve(pool, books.embedder, {"own": "Tea of the house."})
        web_table = tables({"kind": "brave", "key": KEY, "url": api.url})
        house, web = await open_sources(web_table, PostgresRetriever(pool, books.embedder), books, stack)
        external = await web.retrieve(Query("tea"))
        joined = Search("again", (Query("tea"),), 5, 0, keep=external).joined(await house.retrieve(Query("tea")))
    assert [bool(p.metadata.get("external")) for p in joined.kept] == [False, True]


async def test_sources_that_are_away_are_passed_over(
    database_url: str, api: SearchApi, caplog: pytest.LogCaptureFixture
) -> None:
    api.status = 429
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(open_pool(emptied(database_url), size=2))
        books = Library(PassageStore(pool), HashingEmbedder(), pool, database_url)
        sources = await open_sources(
            tables(
                {"kind": "collection", "collection": "none"},
                {"kind": "postgres", "url": "postgresql://u:secret@127.0.0.1:1/none", "limit_s": 0.2},
                {"kind": "view", "view": "none"},
                {"kind": "brave", "key": KEY, "url": api.url},
            ),
            PostgresRetriever(pool, books.embedder),
            books,
            stack,
        )
        for source in sources[1:]:
            assert await source.retrieve(Query("tea")) == ()
            assert f"source '{source.name}' was passed over" in caplog.text
    assert KEY not in caplog.text
    assert "secret" not in "".join(
        record.getMessage() for record in caplog.records if record.name.startswith("retrieval")
    )


class Nothing:
    async def retrieve(self, query: Query) -> tuple[()]:
        return ()


async def test_without_a_database_only_services_can_be_sources(api: SearchApi) -> None:
    async with AsyncExitStack() as stack:
        sources = await open_sources(tables({"kind": "brave", "key": KEY, "url": api.url}), Nothing(), None, stack)
        assert isinstance(sources[1], Source)
        assert len(await sources[1].retrieve(Query("tea"))) == 1
        with pytest.raises(DatabaseMissing, match="'collection'"):
            await open_sources(tables({"kind": "collection", "collection": "a"}), Nothing(), None, stack)
