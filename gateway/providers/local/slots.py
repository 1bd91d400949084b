"""Slots: a bound on how many models run at once, which serves the urgent first."""

import heapq
import os
from collections.abc import Callable
from enum import IntEnum
from itertools import count
from threading import Semaphore
from typing import Generic, TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

Result = TypeVar("Result")
MOST_SLOTS = 4


class Urgency(IntEnum):
    """Who runs first when slots are short: a person waits for a VERDICT (or a search), its DRAFT is held anyway, INGEST can wait."""

    VERDICT = 0
    DRAFT = 1
    INGEST = 2


class Slots:
    """Runs blocking functions on worker threads, at most `size` at once, the urgent first, equals in order of arrival.

    Share one for everything that uses the CPU in earnest. Not bound to an event loop, but to one at a time.
    """

    def __init__(self, size: int | None = None) -> None:
        self.size = size or min(MOST_SLOTS, os.cpu_count() or 1)
        self._free = self.size
        self._waiting: list[tuple[int, int, anyio.Event]] = []
        self._order = count()
        self._cores = Semaphore(self.size)

    async def run(self, urgency: Urgency, function: Callable[[], Result]) -> Result:
        """What `function` returns or raises.

        On cancellation it returns at once: a function not yet begun never begins, one that runs ends unseen.
        """
        job = _Job(function, self._cores)
        await self._enter(urgency)
        try:
            return await to_thread.run_sync(job, abandon_on_cancel=True, limiter=CapacityLimiter(1))
        finally:
            job.wanted = False
            self._leave()

    async def _enter(self, urgency: Urgency) -> None:
        if self._free > 0:
            self._free -= 1
            return
        turn = anyio.Event()
        heapq.heappush(self._waiting, (urgency, next(self._order), turn))
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():  # given a slot and cancelled in the same moment: hand it on
                self._leave()
            else:
                self._waiting = [each for each in self._waiting if each[2] is not turn]
                heapq.heapify(self._waiting)
            raise

    def _leave(self) -> None:
        if self._waiting:
            heapq.heappop(self._waiting)[2].set()
        else:
            self._free += 1


class _Job(Generic[Result]):
    """A function to run on a thread, unless nobody wants its result any more.

    The semaphore bounds what runs also while abandoned runs, whose slots are free again, come to their end.
    """

    def __init__(self, function: Callable[[], Result], cores: Semaphore) -> None:
        self.wanted = True
        self._function = function
        self._cores = cores

    def __call__(self) -> Result:
        with self._cores:
            if not self.wanted:
                raise _Unwanted
            return self._function()


class _Unwanted(Exception):
    """Raised when a job was cancelled before it began; nobody is left to see it."""
