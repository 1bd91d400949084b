"""One question's life: retrieve, grade while drafting, gate, release or search again or refuse, verify. Read this first."""

from contextlib import suppress
from dataclasses import dataclass, replace

import anyio
from anyio.abc import TaskGroup

from grading.correct import Corrector, Strategy
from grading.faults import RewriterUnavailable
from grading.grade import Grade, Verdict
from grading.standalone import weighty
from retrieval.evidence import Cleaned
from retrieval.faults import GatewayFault
from retrieval.ports import Query
from retrieval.searcher import Search, Searcher
from streaming import recall
from streaming.ask import Ask
from streaming.attempt import Contest, Decided, Deferred, Emit, Race, Racers, nothing, said
from streaming.budget import Limits, Verify
from streaming.drafting import TOKEN_LIMIT_BYTES, cut, unnamed
from streaming.events import Done, Failed, Path, Reason, Retry, Started, Status, Verification
from streaming.facts import AttemptBegan, AttemptEnded, Ended, Fact, Judged, Verified
from streaming.failing import Refused, failure_of, gap_of, refused
from streaming.finding import FIRST, Finding
from streaming.foresight import Foresight
from streaming.gate import Answered, Broken, Discarded, Ending, Spent, Ungrounded, Unjudged
from streaming.halt import Halt
from streaming.ledger import Ledger
from streaming.observing import Both, Learning
from streaming.parts import Parts as Parts
from streaming.ports import Decision, Observer, StopReason, Text
from streaming.proof import annotated
from streaming.refusal import disagreement, refusal


@dataclass(frozen=True, slots=True)
class Recalled:
    """An answer was sent from the cache of verified answers."""


Outcome = Answered | Recalled | Refused | Broken


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
        self._ask, self._parts, self._limits = replace(ask, history=weighty(ask.history)), parts, limits
        self._emit, self._halt, self._outside = emit, halt, observer
        self._observer = Both(observer, Learning(parts.speculator))
        self._ledger = Ledger()
        self._tasks: TaskGroup
        self._began = anyio.current_time()
        self._deadline = self._began + limits.deadline_s
        self._question = ask.question
        self._attempt = 0
        self._attempt_open = False
        self._searched: list[str] = []
        self._found = Cleaned(())
        self._race: Race | None = None
        self._foresight: Foresight | None = None
        self._retrieved_s = 0.0

    async def run(self) -> Path:
        ask, path = self._ask, Path.ABANDONED
        try:
            async with anyio.create_task_group() as self._tasks:
                await self._emit((Started(ask.answer_id, ask.trace_id, ask.question, ask.collection),))
                path, reason = await self._tell(await self._outcome())
                self._observer.note(Ended(path, self._attempt, reason))
        finally:
            if path is Path.ABANDONED:
                self._end_attempt("client_gone")
                self._observer.note(Ended(path, self._attempt))
        return path

    async def _outcome(self) -> Outcome:
        with anyio.CancelScope(deadline=self._deadline) as scope:
            self._halt.bind(scope)
            try:
                await self._stand_alone()
                return await self._recalled() or await self._attempts()
            except GatewayFault as fault:
                return Broken(fault)
            except Exception as error:
                return Broken(unnamed(error))
        if self._halt.fault is not None:
            return Broken(self._halt.fault)
        self._end_attempt("timeout")
        return Refused(Reason.BUDGET_EXHAUSTED)

    async def _attempts(self) -> Outcome:
        ask, parts, limits, tasks = self._ask, self._parts, self._limits, self._tasks
        route = parts.router(self._question)
        first = Query(self._question, ask.collection, limits.k, route.mode, ask.filters, ask.tenant)
        corrector = Corrector(first, parts.sources, parts.policy, parts.rewriter, parts.fields, parts.similarity)
        searcher = Searcher(parts.sources, parts.reranker)
        finding = Finding(searcher, first, self._question, limits.external_searches, tasks)
        search = Search(FIRST, (first,), limits.k)
        need: str | None = route.need

        def contested(wider: Cleaned, observer: Observer, emit: Emit, came: anyio.Event) -> Race | None:
            """The next attempt's race, before its turn."""
            return self._race_over(2, wider, observer, emit, deferred=Deferred(came, self._found.kept))

        def foresee(decision: Decision) -> None:
            """Begins the next attempt beside the first one, where that will hardly do."""
            if decision.looks_ahead and self._attempt == 1 and limits.allows_retry_after(1):
                self._foresight = Foresight(corrector.widened(), contested, self._outside, parts.speculator)
                self._foresight.start(tasks, searcher, self._question)

        try:
            while True:
                self._attempt += 1
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
            if self._foresight is not None:
                await self._foresight.aclose()

    async def _stand_alone(self) -> None:
        """From here on the question is one that needs no history; as it was asked where nothing can make it so."""
        history = tuple((turn.role, turn.content) for turn in self._ask.history)
        if history and self._parts.rewriter is not None:
            with suppress(RewriterUnavailable):
                self._question = await self._parts.rewriter.standalone(self._ask.question, history) or self._question

    async def _recalled(self) -> Recalled | None:
        """Sends the kept answer to a question of the same meaning, if there is one."""
        kept = await recall.find(self._parts.cache, self._ask, self._question)
        if kept is None:
            return None
        await self._emit(recall.events_of(kept))
        return Recalled()

    async def _find(self, search: Search, finding: Finding, need: str | None) -> None:
        self._attempt_open = True
        correction, mode = None if need else search.strategy, str(search.queries[0].mode)
        self._observer.note(AttemptBegan(self._attempt, correction, search.text, mode, need, search.similarity))
        self._searched.append(search.text)
        await self._emit((Status(self._attempt, "retrieving"),))
        ahead = self._foresight
        found = await (ahead.take() if ahead is not None and ahead.covers(search) else finding.find(search))
        self._found = found.evidence
        self._retrieved_s += found.took_s
        self._observer.note(found.fact(self._attempt))

    async def _contest(self, search: Search, foresee: Decided) -> Ending:
        """How the race over the passages ended."""
        if not self._found.kept:  # nothing to grade and nothing to draft from
            return Discarded(Grade(Verdict.INSUFFICIENT, grader="empty"))
        ahead = self._foresight
        if ahead is not None and ahead.covers(search) and ahead.race is not None:
            self._race = ahead.race
            return await ahead.ending(self._emit)
        race = self._race_over(self._attempt, self._found, self, self._emit, foresee)
        if race is None:
            return Spent()
        self._race = race
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
        contest = Contest(attempt, self._question, found.kept, ask.history, self._deadline, found.conflicts)
        racers = Racers(parts.grader, parts.generator, parts.speculator, observer, parts.verifier)
        return Race(contest, racers, limits, self._ledger, tasks, emit, decided, deferred)

    def note(self, fact: Fact) -> None:
        """Passes on what a race of this answer tells (streaming.ports.Observer). A good verdict ends what was begun for a bad one."""
        self._observer.note(fact)
        ahead = self._foresight
        if (
            ahead is not None
            and isinstance(fact, Judged)
            and fact.attempt == 1
            and fact.grade
            and fact.grade.is_sufficient
        ):
            ahead.drop()

    def _foreseen(self, corrector: Corrector) -> Search | None:
        """The wider search, when its set is known to do; known not to, it is not searched for again."""
        ahead = self._foresight
        if ahead is None or ahead.grade is None or self._attempt > 1:
            return None
        if ahead.will_do or not ahead.grade.is_sufficient:
            corrector.pass_over(Strategy.BROADEN)
        return ahead.search if ahead.will_do else None

    async def _correction(
        self, ending: Discarded | Ungrounded, search: Search, corrector: Corrector, finding: Finding
    ) -> Search | None:
        """The next search, announced; None when the budget or the policy has no further one."""
        is_told = isinstance(ending, Ungrounded) and ending.is_sent  # what was sent cannot be taken back
        if is_told or not self._limits.allows_retry_after(self._attempt):
            return None
        failure = failure_of(ending, self._question, self._found, search)
        found = self._foreseen(corrector) or await corrector.next_search(failure, finding.affords)
        if self._foresight is not None and (found is None or not self._foresight.covers(found)):
            self._foresight.drop()
        if found is None:
            return None
        self._end_attempt("discarded")
        grade = failure.grade
        retry = Retry(self._attempt, grade.verdict, grade.missing, found.strategy, found.text)
        await self._emit((retry, Status(self._attempt + 1, "correcting", found.strategy)))
        return found

    async def _tell(self, outcome: Outcome) -> tuple[Path, str | None]:
        match outcome:
            case Answered(_, stop) if stop.reason is not StopReason.REFUSAL:
                self._end_attempt("released")
                if (fault := await self._conclude(outcome)) is not None:
                    return await self._tell(Broken(fault))
                path, finish, reason = Path.CLEAN if self._attempt == 1 else Path.RECOVERED, stop.reason.value, None
            case Recalled():
                path, finish, reason = Path.CLEAN, StopReason.END.value, None
            case Answered():
                path, finish, reason = await self._refuse(Refused(Reason.DECLINED))
            case Refused():
                path, finish, reason = await self._refuse(outcome)
            case Broken(fault):
                self._end_attempt("failed")
                await self._emit((Failed(fault.type, str(fault), fault.retryable),))
                path, finish, reason = Path.FAILED, "error", fault.type
        await self._emit((Done(path, finish, self._attempt, self._ledger.usage(), self._timings()),))
        return path, reason

    async def _conclude(self, answered: Answered) -> GatewayFault | None:
        """What follows the last token: where the sources disagree, and which sentences they support. The fault it was halted with."""
        with anyio.CancelScope() as scope:
            self._halt.bind(scope)
            if answered.grade.conflicts:
                await self._emit(
                    said(tuple(cut(Text(f"\n\n{disagreement(answered.grade.conflicts)}"), TOKEN_LIMIT_BYTES)))
                )
            await self._verify(is_keepable=answered.stop.reason is StopReason.END and not answered.grade.conflicts)
        return self._halt.fault if scope.cancelled_caught else None

    async def _verify(self, *, is_keepable: bool) -> None:
        """Says which sentences of the released answer its passages support; keeps a whole answer that all of them do."""
        race, verifier = self._race, self._parts.verifier
        if race is None or verifier is None or self._limits.verify is Verify.OFF:
            return
        if self._limits.verify is Verify.ANNOTATE:
            await self._emit((Status(self._attempt, "verifying"),))
            limit_s = min(self._limits.grade_timeout_s, self._deadline - anyio.current_time())
            verification = await annotated(verifier, self._question, race.released, race.sources, limit_s)
        else:
            verification = Verification(True, race.claims)
        unsupported = sum(not claim.supported for claim in verification.claims)
        self._observer.note(Verified(self._attempt, verification.grounded, len(verification.claims), unsupported))
        await self._emit((verification,))
        if verification.grounded and is_keepable:
            await recall.keep(self._parts.cache, self._ask, self._question, race)

    async def _refuse(self, refused: Refused) -> tuple[Path, str, str]:
        self._end_attempt("refused")
        gap = gap_of(refused, self._ask, self._question, self._searched, self._attempt)
        await self._emit((await refusal(refused.reason, gap, self._parts.gaps, self._found.kept),))
        finish = "budget" if refused.reason is Reason.BUDGET_EXHAUSTED else "refusal"
        return Path.REFUSED, finish, refused.reason

    def _end_attempt(self, outcome: str) -> None:
        if self._attempt_open:
            self._attempt_open = False
            self._observer.note(AttemptEnded(self._attempt, outcome))

    def _timings(self) -> dict[str, float]:
        total_s = anyio.current_time() - self._began
        return {"retrieval": round(self._retrieved_s * 1000, 1), "total": round(total_s * 1000, 1)}
