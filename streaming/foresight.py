"""Foresight: an attempt that may come next, begun before that is known and kept back until it is needed."""

from collections.abc import Callable
from dataclasses import replace

import anyio
from anyio import CancelScope
from anyio.abc import TaskGroup

from grading.grade import Grade
from retrieval.evidence import Cleaned
from retrieval.searcher import Search, Searcher
from retrieval.traceless import traceless
from streaming.attempt import Emit, Race
from streaming.events import Event, Status
from streaming.facts import AttemptEnded, DraftClosed, DraftStarted, Fact, Judged, RaceFact
from streaming.finding import Found
from streaming.gate import Ending
from streaming.ports import Observer, Speculator

CALLED = 2  # the attempt's number
UNCALLED = 0  # the attempt's number to the speculator, who reserves by number: the next attempt may be another one; of a second one -1
DROPPED_FROM = 100  # added to the number of a draft that was made for nothing, and is told as one of attempt 1; of a second one 200

Contested = Callable[[Cleaned, Observer, Emit, anyio.Event], Race | None]
"""The race over a set for whoever is told and emitted to, whose turn comes with the event.

None where there is none (nothing was found, no tokens are left).
"""


class Foresight:
    """Runs `search` and the race over what it finds. Nothing is emitted before `take`, and nothing is told but to the speculator.

    Whoever began it either takes it, and then waits for its ending, or drops it; and closes it before it emits anything else. One owner.
    `settled` is set when there is a verdict, or none to come.
    """

    def __init__(
        self, search: Search, contested: Contested, observer: Observer, speculator: Speculator, place: int = 0
    ) -> None:
        """`place` tells those of one answer apart: 0 the first."""
        self.search = search
        self.race: Race | None = None
        self.settled = anyio.Event()
        self._contested = contested
        self._told = _Told(observer, speculator, place, self.settled)
        self._scope = CancelScope()
        self._found = Cleaned(())
        self._fault: Exception | None = None
        self._ending: Ending | None = None
        self._searched, self._over, self._taken = anyio.Event(), anyio.Event(), anyio.Event()
        self._emit: Emit | None = None

    def start(self, tasks: TaskGroup, searcher: Searcher, question: str) -> None:
        """Begins, in `tasks`."""
        tasks.start_soon(traceless, self._run, searcher, question, name="foresight")

    @property
    def grade(self) -> Grade | None:
        """The verdict on its set, once there is one."""
        return self._told.grade

    @property
    def will_do(self) -> bool:
        """Whether its set is known to support an answer, and its race was not kept from one by a fault."""
        grade, is_broken = self.grade, self._over.is_set() and not self._told.is_dropped
        return grade is not None and grade.is_sufficient and not is_broken

    def covers(self, search: Search) -> bool:
        """Whether it is `search` that was begun, and is still of use."""
        return search == self.search and not self._told.is_dropped

    async def take(self) -> Found:
        """From here on it is the second attempt. The set that was found; raises as Searcher.run."""
        began = anyio.current_time()
        await self._searched.wait()
        if self._fault is not None:
            raise self._fault
        return Found(self._found, anyio.current_time() - began)

    async def ending(self, emit: Emit) -> Ending:
        """How its race ended, once taken; it emits by `emit` from here on, its caller not until this returns."""
        self._told.tell()
        self._emit = emit
        await emit((Status(CALLED, "grading"),))
        self._taken.set()
        await self._over.wait()
        if self._fault is not None:
            raise self._fault
        assert self._ending is not None
        return self._ending

    def drop(self) -> None:
        """It cannot matter any more: its search, its grade and its draft are cut now, and a draft that was begun is told."""
        if self.race is not None and not self._over.is_set():
            self.race.cut("discarded")
        self._told.drop()
        self._scope.cancel()

    async def aclose(self) -> None:
        """Returns when it no longer runs; a draft that was cut may still close in its task."""
        if not self._taken.is_set():
            self.drop()
        self._scope.cancel()
        with CancelScope(shield=True):  # what it still does after a cancel waits for nothing
            await self._over.wait()
        self.race = None  # which emits by this: the two would keep each other, and all of the answer

    async def _run(self, searcher: Searcher, question: str) -> None:
        try:
            with self._scope:
                self._found = await searcher.run(self.search, question)
                self.race = self._contested(self._found, self._told, self._emit_when_taken, self._taken)
                self._searched.set()
                if self.race is not None:
                    self._ending = await self.race.run()
        except Exception as fault:
            self._fault = fault
        finally:
            self._told.end()
            self._searched.set()
            self._over.set()
            self.settled.set()

    async def _emit_when_taken(self, events: tuple[Event, ...]) -> None:
        """What is of use only live is not kept; the answer waits for its turn, and the model with it."""
        if not self._taken.is_set() and all(isinstance(event, Status) for event in events):
            return
        await self._taken.wait()
        assert self._emit is not None
        await self._emit(events)


async def first_to_do(one: Foresight, other: Foresight) -> Foresight:
    """Which of two is known to do before the other; `other` where `one` is known not to. Returns as soon as either is so."""

    async def wait_for_other() -> None:
        await other.settled.wait()
        if other.will_do:
            waiting.cancel_scope.cancel()

    async with anyio.create_task_group() as waiting:
        waiting.start_soon(traceless, wait_for_other)
        await one.settled.wait()
        waiting.cancel_scope.cancel()
    return one if one.will_do else other


class _Told:
    """Keeps what there is to tell until it is known whether it is (streaming.ports.Observer)."""

    def __init__(self, observer: Observer, speculator: Speculator, place: int, settled: anyio.Event) -> None:
        self.grade: Grade | None = None
        self._uncalled, self._dropped_from = UNCALLED - place, DROPPED_FROM * (place + 1)
        self._settled = settled
        self._observer, self._speculator = observer, speculator
        self._kept: list[tuple[float, RaceFact]] = []
        self._is_told = self.is_dropped = False

    def note(self, fact: Fact) -> None:
        assert isinstance(fact, RaceFact)  # nobody but a race tells it anything
        self._speculator.learn(replace(fact, attempt=self._uncalled))
        if isinstance(fact, Judged):
            self.grade = fact.grade
            self._settled.set()
        if self._is_told:
            self._observer.note(fact)
        elif self.is_dropped:
            self._tell_dropped(anyio.current_time(), fact)
        else:
            self._kept.append((anyio.current_time(), fact))

    def tell(self) -> None:
        self._is_told = True
        for at, fact in self._kept:
            self._observer.note(_late(at, fact))

    def drop(self) -> None:
        if not self._is_told and not self.is_dropped:
            self.is_dropped = True
            for at, fact in self._kept:
                self._tell_dropped(at, fact)

    def end(self) -> None:
        """Lets go of what was reserved for a draft that never began."""
        self._speculator.learn(AttemptEnded(self._uncalled, "discarded"))

    def _tell_dropped(self, at: float, fact: RaceFact) -> None:
        if isinstance(fact, DraftStarted | DraftClosed):
            moved = replace(fact, attempt=1, draft=self._dropped_from + fact.draft)
            self._observer.note(_late(at, moved))


def _late(at: float, fact: RaceFact) -> RaceFact:
    """A fact of the moment `at`, told now."""
    return replace(fact, ago_s=anyio.current_time() - at) if isinstance(fact, DraftStarted) else fact
