"""A traced pool: the database's part of each traced search as a span of its own."""

from typing import TypeVar

from gateway.traced import SEARCH
from retrieval.pool import LIMIT_S, Pool, Work

T = TypeVar("T")


class TracedPool(Pool):
    """The same pool. Work that a traced search runs is a CLIENT span under it; other work (readiness, ingest, gaps) has none.

    The pool outlives requests, so which search is running is read from a context variable that the search itself holds.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @property
    def in_use(self) -> int:
        return self._pool.in_use

    async def run(self, work: Work[T], limit_s: float = LIMIT_S) -> T:
        open_statement = SEARCH.get()
        if open_statement is None:
            return await self._pool.run(work, limit_s)
        with open_statement():
            return await self._pool.run(work, limit_s)
