"""Finding: the searches of one answer, within its budget of external ones, with what is looked for ahead."""

from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup

from retrieval.evidence import Cleaned, Why
from retrieval.ports import Query
from retrieval.searcher import Search, Searcher
from streaming.ahead import Ahead
from streaming.facts import Retrieved

FIRST = "first"  # the strategy of attempt 1


@dataclass(frozen=True, slots=True)
class Found:
    """A set of passages, cleaned, and the seconds it took to find; `passed_over` are the sources that could not be searched until then."""

    evidence: Cleaned
    took_s: float
    passed_over: tuple[str, ...] = ()

    def fact(self, attempt: int) -> Retrieved:
        """As it is told."""
        kept = self.evidence.kept
        repeats, outdated, outranked = (self.evidence.count(why) for why in (Why.REPEAT, Why.OUTDATED, Why.OUTRANKED))
        conflicts = len(self.evidence.conflicts)
        return Retrieved(attempt, len(kept), self.took_s, repeats, outdated, outranked, conflicts, kept)


class Finding:
    """Runs searches one after the other; with the first one begins what is looked for ahead. One owner."""

    def __init__(self, searcher: Searcher, first: Query, question: str, external: int, tasks: TaskGroup) -> None:
        """`external` is how many searches outside the house the answer may make; `question` is what a reranker reads."""
        self._searcher = searcher
        self._question = question
        self._external_left = external
        self._ahead = Ahead(searcher, first, question, tasks)

    async def find(self, search: Search) -> Found:
        """What `search` finds. Raises as Retriever.retrieve; on cancellation as Searcher.run."""
        if search.strategy == FIRST:
            self._external_left -= self._ahead.start(self._external_left)
        else:
            self._external_left -= self._external_cost(search)
        began = anyio.current_time()
        evidence = await (self._ahead.take(search) or self._searcher.run(search, self._question))
        return Found(evidence, anyio.current_time() - began, self._searcher.passed_over)

    def affords(self, search: Search) -> bool:
        """Whether the budget of external searches allows `search`."""
        return self._external_cost(search) <= self._external_left

    def is_free(self, search: Search) -> bool:
        """Whether `search` takes nothing from the budget of external searches."""
        return self._external_cost(search) == 0

    def close(self) -> None:
        """Nothing looked for ahead can matter any more."""
        self._ahead.close()

    def _external_cost(self, search: Search) -> int:
        """How many searches outside the house `search` spends."""
        is_external = self._searcher.sources[search.source].external and not self._ahead.covers(search)
        return len(search.queries) if is_external else 0
