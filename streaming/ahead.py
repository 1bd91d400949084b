"""Looking ahead: searches that run while the first set is graded, so that a failing question has their result in hand."""

from collections.abc import Awaitable
from dataclasses import dataclass, field

import anyio
from anyio import CancelScope
from anyio.abc import TaskGroup

from retrieval.evidence import Cleaned
from retrieval.passage import Passage
from retrieval.ports import Query
from retrieval.searcher import Search, Searcher
from retrieval.traceless import traceless


@dataclass(slots=True)
class _Running:
    scope: CancelScope = field(default_factory=CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)
    found: tuple[Passage, ...] = ()
    fault: Exception | None = None


class Ahead:
    """Searches the sources marked `parallel`, once, beside everything else. One owner; the searches run in `tasks`."""

    def __init__(self, searcher: Searcher, first: Query, question: str, tasks: TaskGroup) -> None:
        self._searcher = searcher
        self._first = first
        self._question = question
        self._tasks = tasks
        self._running: dict[int, _Running] = {}

    def start(self, external_allowed: int) -> int:
        """Starts them; returns how many external searches that spends, at most `external_allowed`."""
        spent = 0
        for place, source in enumerate(self._searcher.sources):
            if place == 0 or not source.parallel or (source.external and spent >= external_allowed):
                continue
            spent += source.external
            running = self._running[place] = _Running()
            search = Search("ahead", (self._first,), self._first.k, place)
            self._tasks.start_soon(traceless, self._run, search, running, name=f"ahead {source.name}")
        return spent

    def covers(self, search: Search) -> bool:
        """Whether what `search` asks for was looked for ahead, so that it costs nothing more."""
        return search.source in self._running and search.queries == (self._first,) and not search.rerank

    def take(self, search: Search) -> Awaitable[Cleaned] | None:
        """What was found ahead for `search`, to be awaited; None when it does not cover it."""
        return self._join(search, self._running[search.source]) if self.covers(search) else None

    def close(self) -> None:
        """Nothing looked for ahead can matter any more."""
        for running in self._running.values():
            running.scope.cancel()

    async def _join(self, search: Search, running: _Running) -> Cleaned:
        await running.over.wait()
        if running.fault is not None:
            raise running.fault
        return search.joined(running.found)

    async def _run(self, search: Search, running: _Running) -> None:
        with running.scope:
            try:
                running.found = await self._searcher.find(search, self._question)
            except Exception as fault:
                running.fault = fault
            finally:
                running.over.set()
