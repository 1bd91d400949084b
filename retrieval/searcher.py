"""One search: which queries go to which source, and how what they find becomes a set."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import anyio

from retrieval.evidence import Cleaned, cleaned, evidence
from retrieval.passage import Passage, merge
from retrieval.ports import Query, Reranker
from retrieval.sources import Source
from retrieval.traceless import traceless


@dataclass(frozen=True, slots=True)
class Search:
    """What to look for. `strategy` names how it differs from the first search.

    Several `queries` (parts of a question) are searched side by side and their results interleaved, so that every part
    is covered. `rerank` asks for the `k` best of a wider set; `keep` are passages of the last set, put first. `similarity` is how near
    a query in other words is to the question (None: not measured).
    """

    strategy: str
    queries: tuple[Query, ...]
    k: int
    source: int = 0
    rerank: bool = False
    keep: tuple[Passage, ...] = ()
    similarity: float | None = None

    @property
    def text(self) -> str:
        """What was searched, for people."""
        return "; ".join(query.text for query in self.queries)

    def joined(self, found: tuple[Passage, ...]) -> Cleaned:
        """The set to grade: what is kept, then what was found, cleaned, with room for `k` new ones; internal first."""
        return evidence(self.keep, found, self.k)


SPARES = 3  # more than is wanted, to take the place of repeats: in the labelled sets of mtrag_cloud one passage of eleven is one


class Searcher:
    """Runs searches over the hierarchy of sources. Of its own documents it asks for some more passages than a search wants."""

    def __init__(self, sources: Sequence[Source], reranker: Reranker | None) -> None:
        self.sources = tuple(sources)
        self._reranker = reranker
        self._passed_over: dict[str, None] = {}

    @property
    def passed_over(self) -> tuple[str, ...]:
        """The sources that could not be searched so far, each once."""
        return tuple(self._passed_over)

    async def run(self, search: Search, question: str) -> Cleaned:
        """The set that `search` finds: kept passages first, then the found ones, no repeats or outdated versions, internal before
        external, with room for `k` new ones.

        `question` is what a reranker reads. Raises as Retriever.retrieve, the first fault of several queries. On
        cancellation every running query is cancelled.
        """
        return search.joined(await self.find(search, question))

    async def find(self, search: Search, question: str) -> tuple[Passage, ...]:
        """What `search` finds, best first, before anything is kept or cleaned. Otherwise as `run`."""
        found = interleaved(await self._all(search))
        if search.rerank and self._reranker is not None:
            return await self._reranker.rerank(question, cleaned(found).kept, search.k)
        return found

    async def _all(self, search: Search) -> list[tuple[Passage, ...]]:
        source = self.sources[search.source]
        spares = 0 if search.rerank or source.external else SPARES
        queries = [replace(query, k=query.k + spares) for query in search.queries]
        if len(queries) == 1:
            return [await source.retrieve(queries[0], self._pass_over)]
        found: list[tuple[Passage, ...]] = [()] * len(queries)
        faults: list[Exception] = []

        async def one(place: int, query: Query) -> None:
            try:
                found[place] = await source.retrieve(query, self._pass_over)
            except Exception as fault:
                faults.append(fault)
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for place, query in enumerate(queries):
                tasks.start_soon(traceless, one, place, query)
        if faults:
            raise faults[0]
        return found

    def _pass_over(self, name: str) -> None:
        self._passed_over[name] = None


def interleaved(sets: Sequence[tuple[Passage, ...]]) -> tuple[Passage, ...]:
    """The first of each set, then the second of each, and so on, without repeats."""
    ranks = zip_longest(*sets)
    mixed = tuple(p for rank in ranks for p in rank if p is not None)
    return merge(mixed, (), limit=len(mixed))
