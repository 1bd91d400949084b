"""One question's life: retrieve, grade while drafting, gate, release or search again or refuse. Read this first."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from grading.correct import Correction, correct
from grading.grade import Grade, Verdict
from grading.ports import Grader
from retrieval.faults import GatewayFault
from retrieval.passage import Passage, Scalar
from retrieval.ports import Query, Reranker, Retriever
from streaming.attempt import Contest, Emit, Race, Racers
from streaming.budget import Limits
from streaming.drafting import unnamed
from streaming.events import Done, Failed, Path, Reason, Refusal, Retry, Started, Status
from streaming.facts import AttemptBegan, AttemptEnded, Ended, Retrieved
from streaming.gate import Answered, Broken, Discarded, Ending, Unjudged
from streaming.halt import Halt
from streaming.ledger import Ledger
from streaming.ports import Gap, GapLog, Generator, Observer, Speculator, StopReason, Turn
from streaming.refusal import message_for

GAP_LIMIT_S = 1.0  # a refusal waits no longer than this for its record
CLOSEST = 3  # nearest passages that a refusal offers


@dataclass(frozen=True, slots=True)
class Ask:
    """One question as the edge hands it over: cleaned, bounded, stand-alone."""

    answer_id: str
    trace_id: str
    question: str
    collection: str = "default"
    history: tuple[Turn, ...] = ()
    filters: Mapping[str, Scalar] = field(default_factory=dict)
    tenant: str = "default"


@dataclass(frozen=True, slots=True)
class Parts:
    """The collaborators of an answer."""

    retriever: Retriever
    reranker: Reranker | None
    grader: Grader
    generator: Generator
    speculator: Speculator
    gaps: GapLog


@dataclass(frozen=True, slots=True)
class Refused:
    """No answer, and why; `grade` explains it where there was one."""

    reason: Reason
    grade: Grade | None = None


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
        self._ask, self._parts, self._limits = ask, parts, limits
        self._emit, self._observer, self._halt = emit, observer, halt
        self._racers = Racers(parts.grader, parts.generator, parts.speculator, observer)
        self._ledger = Ledger()
        self._began = anyio.current_time()
        self._deadline = self._began + limits.deadline_s
        self._attempt = 0
        self._attempt_open = False
        self._searched: list[str] = []
        self._passages: tuple[Passage, ...] = ()
        self._retrieved_s = 0.0

    async def run(self) -> Path:
        ask, path = self._ask, Path.ABANDONED
        try:
            async with anyio.create_task_group() as tasks:
                await self._emit((Started(ask.answer_id, ask.trace_id, ask.question, ask.collection),))
                outcome = await self._outcome(tasks)
                path, reason = await self._tell(outcome)
                self._observer.note(Ended(path, self._attempt, reason))
        finally:
            if path is Path.ABANDONED:
                self._end_attempt("client_gone")
                self._observer.note(Ended(path, self._attempt))
        return path

    async def _outcome(self, tasks: TaskGroup) -> Answered | Refused | Broken:
        with anyio.CancelScope(deadline=self._deadline) as scope:
            self._halt.bind(scope)
            try:
                return await self._attempts(tasks)
            except GatewayFault as fault:
                return Broken(fault)
            except Exception as error:
                return Broken(unnamed(error))
        if self._halt.fault is not None:
            return Broken(self._halt.fault)
        self._end_attempt("timeout")
        return Refused(Reason.BUDGET_EXHAUSTED)

    async def _attempts(self, tasks: TaskGroup) -> Answered | Refused | Broken:
        query = Query(
            self._ask.question, self._ask.collection, self._limits.k, filters=self._ask.filters, tenant=self._ask.tenant
        )
        search = Correction("first", query, self._limits.k)
        while True:
            self._attempt += 1
            self._passages = await self._search(search)
            match await self._race(tasks):
                case Discarded(grade) if self._limits.allows_retry_after(self._attempt):
                    self._end_attempt("discarded")
                    search = correct(self._ask.question, grade, self._passages, query, self._limits.k)
                    await self._announce(grade, search)
                case Discarded(grade):
                    self._end_attempt("refused")
                    return Refused(Reason.INSUFFICIENT_EVIDENCE, grade)
                case Unjudged():
                    self._end_attempt("refused")
                    return Refused(Reason.GRADER_UNAVAILABLE)
                case Answered() as answered:
                    self._end_attempt("released")
                    return answered
                case Broken() as broken:
                    return broken

    async def _search(self, search: Correction) -> tuple[Passage, ...]:
        correction = search.name if self._attempt > 1 else None
        self._attempt_open = True
        self._observer.note(AttemptBegan(self._attempt, correction, search.query.text))
        self._searched.append(search.query.text)
        await self._emit((Status(self._attempt, "retrieving"),))
        began = anyio.current_time()
        found = await self._parts.retriever.retrieve(search.query)
        if search.rerank and self._parts.reranker is not None:
            found = await self._parts.reranker.rerank(self._ask.question, found, search.k)
        passages = search.joined(found)
        took_s = anyio.current_time() - began
        self._retrieved_s += took_s
        self._observer.note(Retrieved(self._attempt, len(passages), took_s))
        return passages

    async def _race(self, tasks: TaskGroup) -> Ending:
        if not self._passages:  # nothing to grade and nothing to draft from
            return Discarded(Grade(Verdict.INSUFFICIENT, grader="empty"))
        await self._emit((Status(self._attempt, "grading"),))
        contest = Contest(self._attempt, self._ask.question, self._passages, self._ask.history, self._deadline)
        return await Race(contest, self._racers, self._limits, self._ledger, tasks, self._emit).run()

    async def _announce(self, grade: Grade, search: Correction) -> None:
        retry = Retry(self._attempt, grade.verdict, grade.missing, search.name, search.query.text)
        await self._emit((retry, Status(self._attempt + 1, "correcting", search.name)))

    async def _tell(self, outcome: Answered | Refused | Broken) -> tuple[Path, str | None]:
        match outcome:
            case Answered(_, stop) if stop.reason is not StopReason.REFUSAL:
                path, finish, reason = Path.CLEAN if self._attempt == 1 else Path.RECOVERED, stop.reason.value, None
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

    async def _refuse(self, refused: Refused) -> tuple[Path, str, str]:
        missing = refused.grade.missing if refused.grade else None
        searched = tuple(dict.fromkeys(self._searched))
        gap = Gap(
            question=self._ask.question,
            missing=missing,
            reason=refused.reason,
            searched=searched,
            attempts=self._attempt,
            collection=self._ask.collection,
            tenant=self._ask.tenant,
            answer_id=self._ask.answer_id,
        )
        gap_id = None
        with anyio.move_on_after(GAP_LIMIT_S):
            gap_id = await self._parts.gaps.record(gap)
        message = message_for(refused.reason, missing)
        closest = self._passages[:CLOSEST]
        await self._emit((Refusal(refused.reason, message, missing, searched, gap_id, closest),))
        finish = "budget" if refused.reason is Reason.BUDGET_EXHAUSTED else "refusal"
        return Path.REFUSED, finish, refused.reason

    def _end_attempt(self, outcome: str) -> None:
        if self._attempt_open:
            self._attempt_open = False
            self._observer.note(AttemptEnded(self._attempt, outcome))

    def _timings(self) -> dict[str, float]:
        total_s = anyio.current_time() - self._began
        return {"retrieval": round(self._retrieved_s * 1000, 1), "total": round(total_s * 1000, 1)}
