"""One question's life: retrieve, grade while drafting, gate, release or search again or refuse, verify. Read this first."""

from contextlib import suppress
from dataclasses import replace

import anyio
from anyio.abc import TaskGroup

from grading.correct import Corrector
from grading.faults import RewriterUnavailable
from grading.grade import Grade, Verdict
from grading.standalone import weighty
from retrieval.evidence import Cleaned
from retrieval.faults import GatewayFault
from retrieval.ports import Query
from retrieval.searcher import Search, Searcher
from streaming import recall
from streaming.ask import Ask
from streaming.attempt import Contest, Decided, Deferred, Emit, Race, Racers, nothing
from streaming.budget import Limits
from streaming.course import Course
from streaming.drafting import unnamed
from streaming.events import Path, Reason, Retry, Started, Status
from streaming.facts import Ended, Fact, Judged
from streaming.failing import Refused, failure_of, refused
from streaming.finding import FIRST, Finding
from streaming.foresight import Foresight
from streaming.gate import Answered, Broken, Discarded, Ending, Spent, Ungrounded, Unjudged
from streaming.halt import Halt
from streaming.ledger import Ledger
from streaming.observing import Both, Learning
from streaming.parts import Parts as Parts
from streaming.ports import Decision, Observer
from streaming.prospects import Prospects
from streaming.telling import Outcome, Recalled, Telling


async def answer(
    ask: Ask, parts: Parts, limits: Limits, emit: Emit, observer: Observer, halt: Halt | None = None
) -> Path:
    """Answers `ask` through `emit`: `Started` first, exactly one `Done` last, whatever happens.

    Returns the path taken. Faults (also one given to `halt`) become `Failed`, spent budgets a `Refusal`; nothing but
    cancellation is raised. `Done` waits for no upstream request to close, the return does (bounded). On cancellation
    every task and upstream request of this answer is cancelled and closed, bounded, before the cancellation goes on.
    """
    return await _Answer(ask, parts, limits, emit, observer, halt or Halt()).run()


class _Answer:
    def __init__(self, ask: Ask, parts: Parts, limits: Limits, emit: Emit, observer: Observer, halt: Halt) -> None:
        self._ask = replace(ask, history=weighty(ask.history)) if ask.history else ask
        self._parts, self._limits = parts, limits
        self._emit, self._halt, self._outside = emit, halt, observer
        self._observer = Both(observer, Learning(parts.speculator))
        self._ledger = Ledger()
        self._tasks: TaskGroup
        self._course = Course(ask.question, self._observer)
        self._deadline = self._course.began + limits.deadline_s
        self._prospects: Prospects | None = None

    async def run(self) -> Path:
        ask, path = self._ask, Path.ABANDONED
        try:
            async with anyio.create_task_group() as self._tasks:
                await self._emit((Started(ask.answer_id, ask.trace_id, ask.question, ask.collection),))
                outcome = await self._outcome()
                telling = Telling(ask, self._parts, self._limits, self._emit, self._halt, self._ledger)
                path, reason = await telling.tell(outcome, self._course)
                self._observer.note(Ended(path, self._course.attempt, reason))
        finally:
            if path is Path.ABANDONED:
                self._course.end("client_gone")
                self._observer.note(Ended(path, self._course.attempt))
            self._halt.unbind()
            # All know this answer: let go of, all that it held goes now, instead of waiting for a collection that holds up every stream.
            self._prospects = self._course.race = None
        return path

    async def _outcome(self) -> Outcome:
        with anyio.CancelScope(deadline=self._deadline) as scope:
            self._halt.bind(scope, self._cut)
            try:
                await self._stand_alone()
                return await self._recalled() or await self._attempts()
            except GatewayFault as fault:
                return Broken(fault)
            except Exception as error:
                return Broken(unnamed(error))
        if self._halt.fault is not None:
            return Broken(self._halt.fault)
        self._course.end("timeout")
        return Refused(Reason.BUDGET_EXHAUSTED)

    async def _attempts(self) -> Outcome:
        ask, parts, limits, tasks = self._ask, self._parts, self._limits, self._tasks
        route = parts.router(self._course.question)
        first = Query(self._course.question, ask.collection, limits.k, route.mode, ask.filters, ask.tenant)
        corrector = Corrector(first, parts.sources, parts.policy, parts.rewriter, parts.fields, parts.similarity)
        searcher = Searcher(parts.sources, parts.reranker)
        finding = Finding(searcher, first, self._course.question, limits.external_searches, tasks)
        search = Search(FIRST, (first,), limits.k)
        need: str | None = route.need

        def contested(wider: Cleaned, observer: Observer, emit: Emit, came: anyio.Event) -> Race | None:
            """The next attempt's race, before its turn."""
            return self._race_over(2, wider, observer, emit, deferred=Deferred(came, self._course.found.kept))

        prospects = self._prospects = Prospects(
            searcher, self._course.question, contested, self._outside, parts.speculator, finding, tasks
        )

        def foresee(decision: Decision) -> None:
            """Begins the next attempt beside the first one, where that will hardly do."""
            if decision.looks_ahead and self._course.attempt == 1 and limits.allows_retry_after(1):
                prospects.look_ahead(corrector)

        try:
            while True:
                await self._find(search, finding, need)
                ending = await self._contest(search, foresee)
                match ending:
                    case Answered() | Broken():
                        return ending
                    case Unjudged():
                        return Refused(Reason.GRADER_UNAVAILABLE)
                    case Spent():
                        return Refused(Reason.BUDGET_EXHAUSTED)
                    case Discarded() | Ungrounded():
                        again = await self._correction(ending, search, corrector, finding)
                        if again is None:
                            return refused(ending)
                        search, need = again, None
        finally:
            finding.close()
            await prospects.aclose()

    def _cut(self) -> None:
        """Nobody is there to answer: no draft is read on."""
        if self._course.race is not None:
            self._course.race.cut("client_gone")
        if self._prospects is not None:
            self._prospects.drop()

    async def _stand_alone(self) -> None:
        """From here on the question is one that needs no history; as it was asked where nothing can make it so."""
        history = tuple((turn.role, turn.content) for turn in self._ask.history)
        if history and self._parts.rewriter is not None:
            with suppress(RewriterUnavailable):
                self._course.question = (
                    await self._parts.rewriter.standalone(self._ask.question, history) or self._course.question
                )

    async def _recalled(self) -> Recalled | None:
        """Sends the kept answer to a question of the same meaning, if there is one."""
        kept = await recall.find(self._parts.cache, self._ask, self._course.question)
        if kept is None:
            return None
        await self._emit(recall.events_of(kept))
        return Recalled()

    async def _find(self, search: Search, finding: Finding, need: str | None) -> None:
        self._course.begin(search, need, self._parts.sources[search.source].name if search.source else None)
        await self._emit((Status(self._course.attempt, "retrieving"),))
        ahead = self._foreseen(search)
        self._course.retrieved(await (finding.find(search) if ahead is None else ahead.take()))

    async def _contest(self, search: Search, foresee: Decided) -> Ending:
        """How the race over the passages ended."""
        if not self._course.found.kept:  # nothing to grade and nothing to draft from
            return Discarded(Grade(Verdict.INSUFFICIENT, grader="empty"))
        ahead = self._foreseen(search)
        if ahead is not None and ahead.race is not None:
            self._course.race = ahead.race
            return await ahead.ending(self._emit)
        race = self._race_over(self._course.attempt, self._course.found, self, self._emit, foresee)
        if race is None:
            return Spent()
        self._course.race = race
        return await race.run()

    def _race_over(
        self,
        attempt: int,
        found: Cleaned,
        observer: Observer,
        emit: Emit,
        decided: Decided = nothing,
        deferred: Deferred | None = None,
    ) -> Race | None:
        """The race over a set; None where it is empty, or no tokens are left for a draft."""
        ask, parts, limits, tasks = self._ask, self._parts, self._limits, self._tasks
        if not found.kept or not limits.draft_tokens(self._ledger, found.kept, deferred.besides if deferred else None):
            return None
        contest = Contest(attempt, self._course.question, found.kept, ask.history, self._deadline, found.conflicts)
        racers = Racers(parts.grader, parts.generator, parts.speculator, observer, parts.verifier, parts.fallback)
        return Race(contest, racers, limits, self._ledger, tasks, emit, decided, deferred)

    def note(self, fact: Fact) -> None:
        """Passes on what a race of this answer tells (streaming.ports.Observer). A good verdict ends what was begun for a bad one."""
        self._observer.note(fact)
        is_good = isinstance(fact, Judged) and fact.grade is not None and fact.grade.is_sufficient
        if is_good and self._course.attempt == 1 and self._prospects is not None:
            self._prospects.drop()

    def _foreseen(self, search: Search) -> Foresight | None:
        """The attempt over `search`, where it was begun already."""
        return self._prospects.covering(search) if self._prospects is not None else None

    async def _correction(
        self, ending: Discarded | Ungrounded, search: Search, corrector: Corrector, finding: Finding
    ) -> Search | None:
        """The next search, announced; None when the budget or the policy has no further one."""
        is_told = isinstance(ending, Ungrounded) and ending.is_sent  # what was sent cannot be taken back
        if is_told or not self._limits.allows_retry_after(self._course.attempt):
            return None
        failure = failure_of(ending, self._course.question, self._course.found, search)
        prospects = self._prospects
        if prospects is not None and self._course.attempt == 1:
            found = await prospects.next_search(failure, corrector)
        else:
            found = await corrector.next_search(failure, finding.affords)
        if prospects is not None:
            prospects.drop(but=found)
        if found is None:
            return None
        self._course.end("discarded")
        grade = failure.grade
        withheld = isinstance(ending, Ungrounded)  # what is missing is then the sentence that was not sent
        self._course.told = self._course.question if withheld else None
        missing, query = (None, self._course.question) if withheld else (grade.missing, found.text)
        retry = Retry(self._course.attempt, grade.verdict, missing, found.strategy, query)
        await self._emit((retry, Status(self._course.attempt + 1, "correcting", found.strategy)))
        return found
