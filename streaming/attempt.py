"""One attempt over one set of passages: the race between the grade and the draft, decided by the gate."""

import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import anyio
from anyio import CancelScope
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from grading.faults import GraderUnavailable
from grading.grade import Grade, consistent, settled
from grading.ports import Grader, Verifier
from retrieval.disagreement import Disagreement
from retrieval.faults import GatewayFault
from retrieval.passage import Passage
from retrieval.traceless import traceless
from streaming.budget import Conflicts, Limits, Verify, input_tokens_of
from streaming.drafting import TOKEN_LIMIT_BYTES, Drafting, unnamed
from streaming.events import Citation, Claim, Event, Sources, Status, Token
from streaming.facts import Judged, Released, SpeculationDecided
from streaming.faults import GeneratorFault
from streaming.gate import (
    Answered,
    Broken,
    DraftFailed,
    Ending,
    Gate,
    Graded,
    GradeFailed,
    Signal,
    Spent,
    Step,
    Ungrounded,
    text_bytes,
    weight,
)
from streaming.ledger import CHARACTERS_PER_TOKEN, Ledger
from streaming.mailbox import Mailbox
from streaming.ports import Cited, Decision, Generator, Observer, Piece, Prompt, Speculator, Text, Turn
from streaming.proof import Checked, Proof
from streaming.room import Room

log = logging.getLogger(__name__)

SENDING_TURNS = 3  # of the event loop: in one a draft makes its request, at the end of the third that is sent
CLOSING_TURNS = 2  # of the event loop: in one a draft that was told to close lets go of its connection, in the next the socket is closed

Emit = Callable[[tuple[Event, ...]], Awaitable[None]]
"""Hands events to the one task that writes to the client; returns when they are queued for it."""


@dataclass(frozen=True, slots=True)
class Contest:
    """What an attempt is about: its number from 1, the stand-alone question, the set found for it and where that disagrees."""

    attempt: int
    question: str
    passages: tuple[Passage, ...]
    history: tuple[Turn, ...] = ()
    deadline: float = math.inf
    conflicts: tuple[Disagreement, ...] = ()


@dataclass(frozen=True, slots=True)
class Deferred:
    """When the turn of a race comes that runs beside another one, over `first`.

    Before it `came` the race opens no gate, so that its draft holds no more than was reserved and none begins after its verdict; and it
    leaves enough of the budget for a draft over `first`.
    """

    came: anyio.Event
    first: tuple[Passage, ...]

    @property
    def besides(self) -> tuple[Passage, ...] | None:
        """What a draft that begins now has to leave tokens for; None where it has its turn."""
        return None if self.came.is_set() else self.first


@dataclass(frozen=True, slots=True)
class Racers:
    """Who takes part, and who is told. `verifier` checks each sentence before it is sent, where the limits say so.

    `fallback` drafts once the generator has failed in a way that may pass.
    """

    grader: Grader
    generator: Generator
    speculator: Speculator
    observer: Observer
    verifier: Verifier | None = None
    fallback: Generator | None = None


Decided = Callable[[Decision], None]
"""Is called with the speculator's decision before anything begins."""


def nothing(_decision: Decision) -> None:
    """What is done on most decisions."""


class Race:
    """Runs one contest. The owner task alone steps the gate and emits; grader, draft and checks only put signals."""

    def __init__(
        self,
        contest: Contest,
        racers: Racers,
        limits: Limits,
        ledger: Ledger,
        tasks: TaskGroup,
        emit: Emit,
        decided: Decided = nothing,
        deferred: Deferred | None = None,
    ) -> None:
        self._contest = contest
        self._deferred = deferred
        self._racers = racers
        self._limits = limits
        self._ledger = ledger
        self._tasks = tasks
        self._emit = emit
        self._decided = decided
        self._signals: Mailbox[Signal | Checked] = Mailbox()
        self._hold_bytes = limits.hold_bytes
        self._judging: CancelScope | None = CancelScope()
        """Until there is a verdict, or none to come: it keeps the scopes above it."""
        self._drafting: Drafting | None = None
        self._not_before_s = 0.0
        self.falls_back = False
        """The model that stands in drafts, because the first one failed."""
        self._proof: Proof | None = None
        self._answered: Answered | None = None
        self._grade: Grade | None = None
        self._untold: Judged | None = None
        self.sources: tuple[tuple[int, Passage], ...] = ()
        """The numbered passages that a released answer may cite."""
        self.released: list[Piece] = []
        """What was emitted of the answer, in order."""

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The sentences that were checked before they were sent."""
        return tuple(self._proof.claims) if self._proof is not None else ()

    async def run(self) -> Ending:
        """How the contest ended. Nothing of a draft is emitted before its set is graded sufficient.

        A losing draft is told to close at once and closes in `tasks`, unwaited for. On cancellation both racers are
        cancelled.
        """
        contest, note = self._contest, self._racers.observer.note
        decision = self._racers.speculator.decide(contest.question, contest.passages)
        note(
            SpeculationDecided(
                contest.attempt,
                decision.delay_s,
                decision.why,
                decision.p_sufficient,
                decision.hold_tokens,
                decision.weighed,
            )
        )
        self._decided(decision)
        if decision.hold_tokens is not None:
            self._hold_bytes = min(self._hold_bytes, decision.hold_tokens * CHARACTERS_PER_TOKEN)
        gate = Gate(
            len(contest.passages),
            drafting=decision.delay_s is not None,
            strict_subset=self._limits.strict_subset,
            redrafts=self._limits.redrafts,
        )
        is_over = False
        try:
            if decision.delay_s is not None:
                self._draft(gate.draft, tuple(range(1, len(contest.passages) + 1)), decision.delay_s)
            # The draft's request leaves first: what else begins here takes 1 ms of this one loop, and the draft is the longer way.
            await turns(SENDING_TURNS)
            self._tasks.start_soon(traceless, self._judge, name=f"grade {contest.attempt}")
            await self._emit((Status(contest.attempt, "grading"),))
            while True:
                signal = await self._signals.take()
                if isinstance(signal, DraftFailed):
                    signal = self._with_prospects(signal)
                ending = await (
                    self._mark(signal) if isinstance(signal, Checked) else self._act(gate.step(signal), gate)
                )
                if ending is not None:
                    self._part_from(ending)
                    is_over = True
                    return ending
        finally:
            if self._judging is not None:  # anyio says who cancels, in 50 us
                self._judging.cancel()
            self._tell_verdict()
            if self._proof is not None:
                self._proof.close()
            if not is_over:  # else the draft has been told, and may be finishing
                self._close("timeout" if anyio.current_time() >= contest.deadline else "client_gone")

    def cut(self, outcome: str) -> None:
        """It was run for nothing: grade and draft are cut now, the draft with this outcome. The caller cancels `run`."""
        self._close(outcome)
        if self._judging is not None:
            self._judging.cancel()

    def _with_prospects(self, failed: DraftFailed) -> DraftFailed:
        """Prepares the next draft: by who stands in, where somebody does, else when the service wants to be asked again.

        The failure is final where that would be too late.
        """
        if self._drafting is None or failed.draft != self._drafting.number or not failed.fault.retryable:
            return failed
        if self._racers.fallback is not None and not self.falls_back:
            self.falls_back = True
            return failed
        wait_s = failed.fault.retry_after_s if isinstance(failed.fault, GeneratorFault) else None
        self._not_before_s = wait_s or 0.0
        is_late = anyio.current_time() + self._not_before_s >= self._contest.deadline
        return replace(failed, is_final=is_late)

    async def _act(self, step: Step, gate: Gate) -> Ending | None:
        if step.close:
            self._close("discarded")
        if step.dropped and self._drafting is not None:
            self._drafting.room.give(weight(step.dropped))
        if step.close:
            await turns(CLOSING_TURNS)
        self._tell_verdict()
        if step.opened and self._deferred is not None:
            await self._deferred.came.wait()
        if step.draft_from is not None and not self._draft(gate.draft, step.draft_from):
            return Spent()
        if step.opened:
            await self._open(gate, text_bytes(step.send))
        if self._proof is None:
            await self._say(step.send)
            return step.ending
        self._proof.add(step.send, is_last=isinstance(step.ending, Answered))
        if isinstance(step.ending, Answered) and self._proof.is_pending:
            self._answered = step.ending  # it ends with its last check
            return None
        return step.ending

    async def _open(self, gate: Gate, held_bytes: int) -> None:
        contest = self._contest
        self._racers.observer.note(Released(contest.attempt, held_bytes))
        self.sources = tuple((n, contest.passages[n - 1]) for n in gate.citable)
        if self._limits.verify is Verify.GATE and self._racers.verifier is not None:
            self._proof = Proof(
                self._racers.verifier,
                contest.question,
                self.sources,
                self._limits.grade_timeout_s,
                self._tasks,
                self._signals.put,
            )
        self._hold_bytes = self._limits.hold_bytes
        if self._drafting is not None:
            self._drafting.room.widen(self._hold_bytes)
            self._drafting.hurry()
        if self._proof is None:
            await self._show_sources()
        else:
            if self._drafting is not None:
                self._drafting.check()
            await self._emit((Status(contest.attempt, "verifying"),))

    async def _mark(self, checked: Checked) -> Ending | None:
        assert self._proof is not None
        ready, unsupported = self._proof.mark(checked)
        await self._say(ready)
        if unsupported is not None:
            assert self._grade is not None
            return Ungrounded(self._grade, unsupported.text.strip(), is_sent=bool(self.released))
        return None if self._proof.is_pending else self._answered

    async def _say(self, pieces: tuple[Piece, ...]) -> None:
        if not pieces:
            return
        if self._proof is not None and not self.released:
            await self._show_sources()  # until a sentence holds, there is nothing that they are sources of
        self.released.extend(pieces)
        if self._drafting is not None:
            self._drafting.release(pieces)
        await self._emit(said(pieces))
        if self._drafting is not None:
            self._drafting.room.give(weight(pieces))

    async def _show_sources(self) -> None:
        attempt = self._contest.attempt
        await self._emit((Status(attempt, "generating"), Sources(attempt, self.sources)))

    def _part_from(self, ending: Ending) -> None:
        """A draft that was released to its end finishes by itself, so that its connection can serve again."""
        if isinstance(ending, Answered) and self._drafting is not None:
            self._drafting.finish()
        else:
            is_sent = self._drafting is not None and self._drafting.entry.released
            self._close("failed" if isinstance(ending, Broken) else "released" if is_sent else "discarded")

    def _draft(self, number: int, passage_numbers: tuple[int, ...], delay_s: float = 0.0) -> bool:
        """Starts a draft; whether there are tokens left for one."""
        contest = self._contest
        besides = self._deferred.besides if self._deferred is not None else None
        max_tokens = self._limits.draft_tokens(self._ledger, contest.passages, besides)
        if not max_tokens:
            return False
        prompt = Prompt(
            question=contest.question,
            passages=tuple((n, contest.passages[n - 1]) for n in passage_numbers),
            history=contest.history,
            max_tokens=max_tokens,
        )
        stands_in = self._racers.fallback if self.falls_back else None
        self._drafting = Drafting(
            contest.attempt,
            number,
            stands_in or self._racers.generator,
            prompt,
            Room(self._hold_bytes, self._limits.hold_bytes),
            self._limits.silence_s,
            self._signals.put,
            self._ledger.open(input_tokens_of(contest.passages), max_tokens, is_fallback=stands_in is not None),
            self._racers.observer,
        )
        if self._proof is not None:
            self._drafting.check()
        self._drafting.start(self._tasks, delay_s, self._not_before_s)
        self._not_before_s = 0.0
        return True

    def _close(self, outcome: str) -> None:
        if self._drafting is not None:
            self._drafting.close(outcome)

    async def _judge(self) -> None:
        contest, began = self._contest, anyio.current_time()
        grade: Grade | None = None
        fault: GatewayFault | None = None
        assert self._judging is not None
        with self._judging:
            try:
                with anyio.fail_after(self._limits.grade_timeout_s):
                    found = await self._racers.grader.grade(contest.question, contest.passages)
                grade = consistent(found, len(contest.passages))
                if contest.conflicts or grade.conflicts:
                    refuses = self._limits.conflicts is Conflicts.REFUSE
                    grade = settled(grade, contest.passages, contest.conflicts, refuses=refuses)
            except TimeoutError:
                fault = GraderUnavailable(f"no verdict within {self._limits.grade_timeout_s:g} s")
            except GatewayFault as raised:
                fault = raised
            except Exception as error:
                fault = unnamed(error)
            took_s = anyio.current_time() - began
            self._grade = grade
            if grade is None or not grade.is_sufficient:  # whatever the gate makes of it, this draft is not sent
                self._close("discarded")
            self._untold = Judged(contest.attempt, grade, took_s, fault.type if fault else None)
            if grade is not None:
                self._signals.put(Graded(grade))
            elif fault is not None:
                log.warning("no verdict in attempt %d: %s", contest.attempt, fault)
                self._signals.put(GradeFailed(fault))
                fault = None  # or it and this frame, in its traceback, would keep each other
        self._judging = None

    def _tell_verdict(self) -> None:
        """Tells the verdict, once. What is told goes into spans and figures: 0.5 ms for which the end of a draft does not wait."""
        told, self._untold = self._untold, None
        if told is not None:
            self._racers.observer.note(told)


async def turns(count: int) -> None:
    """Lets every task that can run do so, `count` times over. What the next attempt then begins with would take their time from them."""
    for _ in range(count):
        await checkpoint()


def said(pieces: tuple[Piece, ...]) -> tuple[Event, ...]:
    """The events that say `pieces`: neighbouring texts joined into tokens of at most 8 KiB, citations after their text."""
    if len(pieces) == 1 and isinstance(one := pieces[0], Text) and 0 < len(one.text) <= TOKEN_LIMIT_BYTES // 4:
        return (Token(one.text),)  # nearly every time
    events: list[Event] = []
    run: list[str] = []
    size_bytes = 0

    def flush() -> None:
        nonlocal size_bytes
        if run:
            events.append(Token("".join(run)))
            run.clear()
            size_bytes = 0

    for piece in pieces:
        match piece:
            case Text(text) if text:
                more = text_bytes((piece,))
                if size_bytes + more > TOKEN_LIMIT_BYTES:
                    flush()
                run.append(text)
                size_bytes += more
            case Cited(n, start, end, quote):
                flush()
                events.append(Citation(n, start, end, quote))
            case _:
                pass
    flush()
    return tuple(events)
