"""Prospects: the attempts that may follow the first one, prepared beside it and beside each other, of which one at most is taken."""

from anyio.abc import TaskGroup

from grading.correct import Corrector, Failure, Strategy
from retrieval.searcher import Search, Searcher
from streaming.finding import Finding
from streaming.foresight import Contested, Foresight, first_to_do
from streaming.ports import Observer, Speculator


class Prospects:
    """Begins them in `tasks`, and says which search comes next. Whoever asked for that takes its prospect; one owner."""

    def __init__(
        self,
        searcher: Searcher,
        question: str,
        contested: Contested,
        observer: Observer,
        speculator: Speculator,
        finding: Finding,
        tasks: TaskGroup,
    ) -> None:
        self._searcher, self._question, self._contested = searcher, question, contested
        self._observer, self._speculator = observer, speculator
        self._finding, self._tasks = finding, tasks
        self._begun: list[Foresight] = []

    def look_ahead(self, corrector: Corrector) -> None:
        """Begins the attempt over the wider set, which needs no verdict; not where its search would be paid for."""
        search = corrector.widened()
        if self._finding.is_free(search):
            self._begin(search)

    def covering(self, search: Search) -> Foresight | None:
        """The attempt that was begun over `search` and is still of use."""
        return next((each for each in self._begun if each.covers(search)), None)

    def drop(self, but: Search | None = None) -> None:
        """Cuts all that cannot matter any more: everything, `but` what was begun over this search."""
        for each in self._begun:
            if but is None or not each.covers(but):
                each.drop()

    async def aclose(self) -> None:
        """Returns when none of them runs."""
        for each in self._begun:
            await each.aclose()

    async def next_search(self, failure: Failure, corrector: Corrector) -> Search | None:
        """The search of the second attempt, as Corrector.next_search; the wider one where its set is known to do.

        Where the verdict names a gap and the wider set has none yet, both are searched, graded and drafted on: it is the one whose set is
        known to do first, the gap's where the wider one's does not. A wider set that is known not to do is the second attempt all the same
        where its search comes next: what is prepared changes when something is known, not what is tried.
        """
        wider = self._begun[0] if self._begun else None
        if wider is None:
            return await corrector.next_search(failure, self._finding.affords)
        if (known := _known_to_do(wider, corrector)) is not None:
            return known
        found = await corrector.next_search(failure, self._finding.affords)
        if found is None or wider.covers(found):
            return found
        if not wider.settled.is_set() and found.strategy == Strategy.GAP_QUERY and self._finding.is_free(found):
            await first_to_do(wider, self._begin(found))
        if (known := _known_to_do(wider, corrector)) is not None:
            return known
        if wider.grade is not None and not wider.grade.is_sufficient:
            corrector.pass_over(Strategy.BROADEN)  # it is not searched for again
        return found

    def _begin(self, search: Search) -> Foresight:
        place = len(self._begun)
        begun = Foresight(search, self._contested, self._observer, self._speculator, place)
        begun.start(self._tasks, self._searcher, self._question)
        self._begun.append(begun)
        return begun


def _known_to_do(wider: Foresight, corrector: Corrector) -> Search | None:
    """The wider search, when its set is known to do; then it is not planned any more."""
    if not wider.will_do:
        return None
    corrector.pass_over(Strategy.BROADEN)
    return wider.search
