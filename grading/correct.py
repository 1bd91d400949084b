"""How the next attempt searches differently: do not merely retry, correct the reason it failed.

Source of the branches: corrective RAG, arXiv:2401.15884, section 4; of decomposition: arXiv:2210.03350.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

from grading.faults import RewriterUnavailable
from grading.grade import Grade, Verdict
from grading.ports import Rewriter
from retrieval.faults import GatewayFault
from retrieval.passage import Passage, Scalar
from retrieval.ports import Query, SearchMode
from retrieval.searcher import Search
from retrieval.sources import Source

BROADEN_FACTOR = 4  # k 5 -> 20 candidates, reranked back to 5
DRIFT_LEAST = 0.5  # cosine of a query in other words, or of a part, to the question; below it is another question


class Strategy(StrEnum):
    """The ways to search differently."""

    GAP_QUERY = "gap_query"
    REWRITE = "rewrite"
    DECOMPOSE = "decompose"
    HYBRID = "hybrid"
    FILTERS = "filters"
    BROADEN = "broaden"
    NEXT_SOURCE = "next_source"


_FUSED = frozenset({SearchMode.HYBRID, SearchMode.HOPS})  # what these find, a hybrid search would find again
REPEATABLE = frozenset({Strategy.NEXT_SOURCE, Strategy.GAP_QUERY})  # while there is a further source, another gap


class Cause(StrEnum):
    """Why a set does not support an answer, as far as its grade tells."""

    EMPTY = "empty"  # nothing was found
    OFF_TOPIC = "off_topic"  # nothing that was found matters
    GAP = "gap"  # something is missing, and it is named
    UNSTATED = "unstated"  # something is missing, and it is not named
    CONFLICT = "conflict"  # passages contradict each other
    UNGROUNDED = "ungrounded"  # an answer was tried and said more than its passages


Policy = Mapping[tuple[Verdict, Cause], tuple[Strategy, ...]]
"""What to try, in order, for each verdict and cause; what is inapplicable or was tried is passed over."""

_S = Strategy
DEFAULT_POLICY: Policy = {
    (Verdict.PARTIAL, Cause.GAP): (_S.GAP_QUERY, _S.DECOMPOSE, _S.NEXT_SOURCE, _S.BROADEN),
    (Verdict.PARTIAL, Cause.UNSTATED): (_S.DECOMPOSE, _S.BROADEN, _S.NEXT_SOURCE),
    (Verdict.PARTIAL, Cause.CONFLICT): (_S.BROADEN, _S.NEXT_SOURCE),
    (Verdict.PARTIAL, Cause.UNGROUNDED): (_S.GAP_QUERY, _S.BROADEN, _S.NEXT_SOURCE),
    (Verdict.INSUFFICIENT, Cause.EMPTY): (_S.BROADEN, _S.NEXT_SOURCE, _S.REWRITE),
    (Verdict.INSUFFICIENT, Cause.OFF_TOPIC): (_S.BROADEN, _S.FILTERS, _S.REWRITE, _S.DECOMPOSE, _S.NEXT_SOURCE),
    (Verdict.INSUFFICIENT, Cause.CONFLICT): (_S.BROADEN, _S.NEXT_SOURCE),
}


class Fields(Protocol):
    """Knows which metadata fields a collection has."""

    async def fields(self, collection: str, tenant: str) -> Mapping[str, tuple[Scalar, ...]]:
        """Each field's name with its most frequent values; {} when there are none. Raises as Retriever.retrieve."""
        ...


Similarity = Callable[[str, str], Awaitable[float]]
"""How near two texts are in meaning: a cosine, 1 for the same."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that did not do: what was asked, what was found, and how it was graded."""

    question: str
    grade: Grade
    passages: tuple[Passage, ...]
    search: Search
    is_ungrounded: bool = False

    @property
    def cause(self) -> Cause:
        if not self.passages:
            return Cause.EMPTY
        if self.is_ungrounded:
            return Cause.UNGROUNDED
        if self.grade.conflicts:
            return Cause.CONFLICT
        if self.grade.verdict is Verdict.PARTIAL:
            return Cause.GAP if self.grade.missing else Cause.UNSTATED
        return Cause.OFF_TOPIC

    @property
    def relevant(self) -> tuple[Passage, ...]:
        """The passages worth keeping: those graded relevant."""
        return tuple(self.passages[n - 1] for n in self.grade.relevant if n <= len(self.passages))


class Corrector:
    """Plans the next search of one answer; remembers what it has planned, so that nothing is tried twice."""

    def __init__(
        self,
        first: Query,
        sources: Sequence[Source],
        policy: Policy = DEFAULT_POLICY,
        rewriter: Rewriter | None = None,
        fields: Fields | None = None,
        similarity: Similarity | None = None,
    ) -> None:
        self._first = first
        self._sources = tuple(sources)
        self._policy = policy
        self._rewriter = rewriter
        self._fields = fields
        self._similarity = similarity
        self._tried: set[Strategy] = set()
        self._gap_queries: set[str] = set()
        self._source = 0

    async def next_search(
        self, failure: Failure, affordable: Callable[[Search], bool] = lambda _search: True
    ) -> Search | None:
        """The first search of the policy's row that applies, is new and `affordable`; None when the row is exhausted.

        A rewrite that is empty, equal or drifts from the question is passed over, so are parts of which one drifts, and a strategy whose
        helper fails.
        """
        for strategy in self._policy.get((failure.grade.verdict, failure.cause), ()):
            if strategy in self._tried and strategy not in REPEATABLE:
                continue
            self._tried.add(strategy)
            try:
                search = await self._plan(strategy, failure, affordable)
            except RewriterUnavailable:
                continue
            if search is not None and affordable(search):
                return search
        return None

    async def _plan(self, strategy: Strategy, failure: Failure, affordable: Callable[[Search], bool]) -> Search | None:
        match strategy:
            case Strategy.GAP_QUERY:
                return self._gap_query(failure)
            case Strategy.REWRITE:
                return await self._rewrite(failure)
            case Strategy.DECOMPOSE:
                return await self._decompose(failure)
            case Strategy.HYBRID:
                is_new = self._first.mode not in _FUSED or self._source > 0
                return self._again(strategy, mode=SearchMode.HYBRID) if is_new else None
            case Strategy.FILTERS:
                return await self._filters(failure)
            case Strategy.BROADEN:
                return self._broaden(failure)
            case Strategy.NEXT_SOURCE:
                return self._next_source(failure, affordable)

    def widened(self) -> Search:
        """The search that BROADEN is after a set of which nothing is worth keeping."""
        mode = self._first.mode if self._first.mode in _FUSED else SearchMode.HYBRID
        query = replace(self._first, k=self._first.k * BROADEN_FACTOR, mode=mode)
        return self._search(Strategy.BROADEN, query, rerank=True)

    def pass_over(self, strategy: Strategy) -> None:
        """It was tried elsewhere; it is not planned any more."""
        self._tried.add(strategy)

    def _gap_query(self, failure: Failure) -> Search | None:
        if not failure.grade.missing:
            return None
        query = replace(self._first, text=f"{failure.question} {failure.grade.missing}")
        if query.text in self._gap_queries:
            return None
        self._gap_queries.add(query.text)
        return self._search(Strategy.GAP_QUERY, query, keep=failure.relevant or failure.passages)

    async def _rewrite(self, failure: Failure) -> Search | None:
        if self._rewriter is None:
            return None
        text = (await self._rewriter.rewrite(failure.question, failure.grade.missing)).strip()
        if not text or folded(text) == folded(failure.question):
            return None
        similarity = await self._similar(text, failure.question)
        if similarity is not None and similarity < DRIFT_LEAST:
            return None
        search = self._search(Strategy.REWRITE, replace(self._first, text=text), keep=failure.relevant)
        return replace(search, similarity=similarity)

    async def _decompose(self, failure: Failure) -> Search | None:
        if self._rewriter is None:
            return None
        parts = tuple(p.strip() for p in await self._rewriter.decompose(failure.question) if p.strip())
        if len(parts) < 2:
            return None
        similar = [each for part in parts if (each := await self._similar(part, failure.question)) is not None]
        if any(each < DRIFT_LEAST for each in similar):
            return None
        queries = tuple(replace(self._first, text=part) for part in parts)
        k = max(self._first.k, len(parts) * 2)
        search = Search(Strategy.DECOMPOSE, queries, k, self._source, keep=failure.relevant)
        return replace(search, similarity=min(similar, default=None))

    async def _filters(self, failure: Failure) -> Search | None:
        if self._rewriter is None or self._fields is None or self._first.filters:
            return None
        fields = await self._fields.fields(self._first.collection, self._first.tenant)
        asked = await self._rewriter.filters(failure.question, fields) if fields else {}
        known = {name: value for name, value in asked.items() if value in fields.get(name, ())}
        return self._again(Strategy.FILTERS, filters=known) if known else None

    def _broaden(self, failure: Failure) -> Search:
        """Wider, fused and reranked, in place of what was found; a partial set keeps what was relevant."""
        keep = failure.relevant if failure.grade.verdict is Verdict.PARTIAL else ()
        return replace(self.widened(), keep=keep)

    def _next_source(self, failure: Failure, affordable: Callable[[Search], bool]) -> Search | None:
        for place in range(self._source + 1, len(self._sources)):
            search = Search(Strategy.NEXT_SOURCE, (self._first,), self._first.k, place, keep=failure.relevant)
            if affordable(search):
                self._source = place
                return search
        return None

    def _again(self, strategy: Strategy, **changes: Any) -> Search:
        return self._search(strategy, replace(self._first, **changes))

    def _search(
        self, strategy: Strategy, query: Query, *, rerank: bool = False, keep: tuple[Passage, ...] = ()
    ) -> Search:
        return Search(strategy, (query,), self._first.k, self._source, rerank, keep)

    async def _similar(self, text: str, question: str) -> float | None:
        """How near the query is to the question; 0 where that cannot be told, None where nobody measures it."""
        if self._similarity is None:
            return None
        try:
            return await self._similarity(text, question)
        except GatewayFault:
            return 0.0


def folded(text: str) -> str:
    """The words alone, for telling whether two queries are the same."""
    return " ".join(re.findall(r"\w+", text.casefold()))
