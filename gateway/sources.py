"""The hierarchy of sources, opened by setting: the house's own documents first, then each table's in its order."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from gateway.source_settings import CollectionTable, HttpTable, PostgresTable, ServiceTable, SourceTable, ViewTable
from gateway.upstreams.breaker import Breakers, Role
from gateway.upstreams.guarded import GuardedRetriever
from retrieval.faults import DatabaseMissing
from retrieval.ports import Retriever
from retrieval.sources import HOUSE, Source

if TYPE_CHECKING:
    import httpx2

    from gateway.providers.search.service import Service
    from gateway.wiring import Library

CONNECTIONS = 20  # to all search services together: as many searches as run at once


async def open_sources(
    tables: Sequence[SourceTable],
    house: Retriever,
    books: "Library | None",
    stack: AsyncExitStack,
    breakers: Breakers | None = None,
) -> tuple[Source, ...]:
    """The sources, each that is somewhere else behind its breaker; what they need is closed with `stack`.

    No server is asked yet: one that is away is passed over when it is searched. Raises DatabaseMissing for a source that needs the
    gateway's own database where there is none, RetrievalMisconfigured for an address that is none.
    """
    opened = _Opened(house, books, stack, breakers or Breakers())
    further = [
        Source(table.name, await opened.retriever(table), table.external, table.parallel, collection_of(table))
        for table in tables
    ]
    return (Source(HOUSE, house), *further)


def collection_of(table: SourceTable) -> str | None:
    """The collection of the house's own that a source is; None for any other source."""
    return table.collection if isinstance(table, CollectionTable) else None


class _Opened:
    def __init__(self, house: Retriever, books: "Library | None", stack: AsyncExitStack, breakers: Breakers) -> None:
        self._house, self._books, self._stack, self._breakers = house, books, stack, breakers
        self._client: httpx2.AsyncClient | None = None

    async def retriever(self, table: SourceTable) -> Retriever:
        match table:
            case CollectionTable():
                from retrieval.elsewhere import Elsewhere

                self._own_books(table)
                return Elsewhere(self._house, collection=table.collection)
            case PostgresTable():
                return self._guarded(table.name, await self._postgres(table), table.limit_s)
            case ViewTable():
                found = await self._view(table)
                return found if table.url is None else self._guarded(table.name, found, table.limit_s)
            case ServiceTable() | HttpTable():
                from gateway.providers.search.retriever import HttpRetriever

                service = HttpRetriever(table.name, service_of(table), await self._http(), limit_s=table.limit_s)
                return self._guarded(table.name, service, table.limit_s)

    def _guarded(self, name: str, retriever: Retriever, limit_s: float) -> Retriever:
        return GuardedRetriever(retriever, self._breakers.of(Role.SOURCE, name), limit_s)

    async def _postgres(self, table: PostgresTable) -> Retriever:
        from gateway.observing.traced_pool import TracedPool
        from retrieval.elsewhere import Elsewhere
        from retrieval.pool import open_pool
        from retrieval.postgres import PostgresRetriever

        books = self._own_books(table)
        pool = await self._stack.enter_async_context(open_pool(table.url.get_secret_value(), size=table.pool_size))
        there = PostgresRetriever(TracedPool(pool), books.embedder, limit_s=table.limit_s)
        return Elsewhere(there, collection=table.collection, prefix=table.name)

    async def _view(self, table: ViewTable) -> Retriever:
        from gateway.observing.traced_pool import TracedPool
        from retrieval.pool import open_pool
        from retrieval.view import View, ViewRetriever

        if table.url is None:
            pool = self._own_books(table).pool
        else:
            url = table.url.get_secret_value()
            pool = await self._stack.enter_async_context(open_pool(url, size=table.pool_size, vectors=False))
        shown = View(table.view, table.language, table.words_column, table.tenant_column)
        return ViewRetriever(TracedPool(pool), shown, table.name, limit_s=table.limit_s)

    async def _http(self) -> "httpx2.AsyncClient":
        """One client for all services."""
        if self._client is None:
            import httpx2

            limits = httpx2.Limits(max_connections=CONNECTIONS)
            self._client = await self._stack.enter_async_context(httpx2.AsyncClient(limits=limits, timeout=None))
        return self._client

    def _own_books(self, table: SourceTable) -> "Library":
        if self._books is None:
            raise DatabaseMissing(f"the source {table.name!r} needs the gateway's database, and none is used")
        return self._books


def service_of(table: ServiceTable | HttpTable) -> "Service":
    """The adapter of a search service."""
    from gateway.providers.search import brave, serper, tavily
    from gateway.providers.search.brave import Brave
    from gateway.providers.search.generic import Generic, Paths, path
    from gateway.providers.search.serper import Serper
    from gateway.providers.search.tavily import Tavily

    if isinstance(table, ServiceTable):
        key = table.key.get_secret_value()
        match table.kind:
            case "brave":
                return Brave(key, table.url or brave.URL)
            case "tavily":
                return Tavily(key, table.url or tavily.URL)
            case "serper":
                return Serper(key, table.url or serper.URL)
    headers = {} if table.key is None else {table.key_header: table.key_prefix + table.key.get_secret_value()}
    paths = Paths(path(table.results), path(table.title), path(table.text), path(table.link))
    return Generic(table.url, table.method, table.query, table.count, headers, table.parameters, paths)
