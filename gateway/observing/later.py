"""Later: what an answer's end leaves to be counted, done when its client has its last byte and the next question is on its way."""

from collections import deque
from collections.abc import Callable

import anyio
from anyio.lowlevel import checkpoint

PAUSE_S = 0.25  # what comes of several answers is counted one after the other, for half the price of each alone


class Later:
    """Work that nobody waits for, done in order. At once, while nobody runs it. From one event loop's thread alone."""

    def __init__(self) -> None:
        self._due = deque[Callable[[], None]]()
        self._came: anyio.Event | None = None

    def do(self, work: Callable[[], None]) -> None:
        """Does `work`, which raises nothing and takes a millisecond at most."""
        if self._came is None:
            work()
        else:
            self._due.append(work)
            self._came.set()

    def catch_up(self) -> None:
        """Does all that is due now: somebody looks."""
        while self._due:
            self._due.popleft()()

    async def run(self) -> None:
        """Until it is cancelled: does each work PAUSE_S after it came, in a turn of the event loop of its own. Nothing is left undone."""
        try:
            while True:
                self._came = anyio.Event()
                if not self._due:
                    await self._came.wait()
                await anyio.sleep(PAUSE_S)
                for _ in range(len(self._due)):
                    if self._due:
                        self._due.popleft()()
                    await checkpoint()
        finally:
            self._came = None
            self.catch_up()
