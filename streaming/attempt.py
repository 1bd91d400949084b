"""One attempt over one set of passages: the race between the grade and the draft, decided by the gate."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
from anyio import CancelScope
from anyio.abc import TaskGroup

from grading.faults import GraderUnavailable
from grading.grade import Grade, consistent
from grading.ports import Grader
from retrieval.faults import GatewayFault
from retrieval.passage import Passage
from streaming.budget import Limits
from streaming.drafting import TOKEN_LIMIT_BYTES, Drafting, unnamed
from streaming.events import Citation, Event, Sources, Status, Token
from streaming.facts import Judged, Released, SpeculationDecided
from streaming.gate import Answered, Broken, Ending, Gate, Graded, GradeFailed, Signal, State, Step, text_bytes
from streaming.ledger import Ledger
from streaming.mailbox import Mailbox
from streaming.ports import Cited, Generator, Observer, Piece, Prompt, Speculator, Text, Turn
from streaming.room import Room

Emit = Callable[[tuple[Event, ...]], Awaitable[None]]
"""Hands events to the one task that writes to the client; returns when they are queued for it."""


@dataclass(frozen=True, slots=True)
class Contest:
    """What an attempt is about: its number from 1, the stand-alone question and the set found for it."""

    attempt: int
    question: str
    passages: tuple[Passage, ...]
    history: tuple[Turn, ...] = ()
    deadline: float = math.inf


@dataclass(frozen=True, slots=True)
class Racers:
    """Who takes part, and who is told."""

    grader: Grader
    generator: Generator
    speculator: Speculator
    observer: Observer


class Race:
    """Runs one contest. The owner task alone steps the gate and emits; grader and draft only put signals."""

    def __init__(
        self, contest: Contest, racers: Racers, limits: Limits, ledger: Ledger, tasks: TaskGroup, emit: Emit
    ) -> None:
        self._contest = contest
        self._racers = racers
        self._limits = limits
        self._ledger = ledger
        self._tasks = tasks
        self._emit = emit
        self._signals: Mailbox[Signal] = Mailbox()
        self._judging = CancelScope()
        self._drafting: Drafting | None = None

    async def run(self) -> Ending:
        """How the contest ended. Nothing of a draft is emitted before its set is graded sufficient.

        A losing draft is told to close at once and closes in `tasks`, unwaited for. On cancellation both racers are cancelled.
        """
        contest, note = self._contest, self._racers.observer.note
        decision = self._racers.speculator.decide(contest.question, contest.passages)
        note(SpeculationDecided(contest.attempt, decision.delay_s, decision.why, decision.p_sufficient))
        gate = Gate(
            len(contest.passages),
            drafting=decision.delay_s is not None,
            strict_subset=self._limits.strict_subset,
            redrafts=self._limits.redrafts,
        )
        try:
            self._tasks.start_soon(self._judge, name=f"grade {contest.attempt}")
            if decision.delay_s is not None:
                self._draft(gate.draft, tuple(range(1, len(contest.passages) + 1)), decision.delay_s)
            while True:
                step = gate.step(await self._signals.take())
                await self._act(step, gate)
                if step.ending is not None:
                    self._part_from(step.ending)
                    return step.ending
        finally:
            self._judging.cancel()
            self._close("timeout" if anyio.current_time() >= contest.deadline else "client_gone")

    async def _act(self, step: Step, gate: Gate) -> None:
        if step.close:
            self._close("discarded")
        if step.draft_from is not None:
            self._draft(gate.draft, step.draft_from)
        if step.opened:
            await self._open(gate, text_bytes(step.send))
        elif step.draft_from is not None and gate.state is State.RELEASED and self._drafting is not None:
            self._drafting.release()
        if step.send:
            await self._emit(said(step.send))
            if self._drafting is not None:
                self._drafting.room.give(text_bytes(step.send))

    async def _open(self, gate: Gate, held_bytes: int) -> None:
        contest = self._contest
        self._racers.observer.note(Released(contest.attempt, held_bytes))
        if self._drafting is not None:
            self._drafting.release()
        shown = tuple((n, contest.passages[n - 1]) for n in gate.citable)
        await self._emit((Status(contest.attempt, "generating"), Sources(contest.attempt, shown)))

    def _part_from(self, ending: Ending) -> None:
        """A draft that was released to its end finishes by itself, so that its connection can serve again."""
        if isinstance(ending, Answered) and self._drafting is not None:
            self._drafting.finish()
        else:
            self._close("failed" if isinstance(ending, Broken) else "discarded")

    def _draft(self, number: int, passage_numbers: tuple[int, ...], delay_s: float = 0.0) -> None:
        contest = self._contest
        prompt = Prompt(
            question=contest.question,
            passages=tuple((n, contest.passages[n - 1]) for n in passage_numbers),
            history=contest.history,
            max_tokens=self._limits.output_tokens,
        )
        self._drafting = Drafting(
            contest.attempt,
            number,
            self._racers.generator,
            prompt,
            Room(self._limits.hold_bytes),
            self._signals,
            self._ledger.open(),
            self._racers.observer,
        )
        self._drafting.start(self._tasks, delay_s)

    def _close(self, outcome: str) -> None:
        if self._drafting is not None:
            self._drafting.close(outcome)

    async def _judge(self) -> None:
        contest, began = self._contest, anyio.current_time()
        grade: Grade | None = None
        fault: GatewayFault | None = None
        with self._judging:
            try:
                with anyio.fail_after(self._limits.grade_timeout_s):
                    found = await self._racers.grader.grade(contest.question, contest.passages)
                grade = consistent(found, len(contest.passages))
            except TimeoutError:
                fault = GraderUnavailable(f"no verdict within {self._limits.grade_timeout_s:g} s")
            except GatewayFault as raised:
                fault = raised
            except Exception as error:
                fault = unnamed(error)
            took_s = anyio.current_time() - began
            self._racers.observer.note(Judged(contest.attempt, grade, took_s, fault.type if fault else None))
            if grade is not None:
                self._signals.put(Graded(grade))
            elif fault is not None:
                self._signals.put(GradeFailed(fault))


def said(pieces: tuple[Piece, ...]) -> tuple[Event, ...]:
    """The events that say `pieces`: neighbouring texts joined into tokens of at most 8 KiB, citations after their text."""
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
