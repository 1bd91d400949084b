"""Room: how many bytes of a draft may be read and not yet sent."""

import anyio

HOLD_LIMIT_BYTES = 262_144  # p99 of grade time (8 s) x a fast model (400 tokens/s) x 4 bytes, and twenty times that


class Room:
    """A bound in bytes between the task that reads a draft and the task that sends it.

    The reader waits for room before it takes more (so that upstream feels back-pressure and nothing is dropped); the sender gives back
    what has left. One waiter at a time.
    """

    def __init__(self, limit_bytes: int = HOLD_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._freed = anyio.Event()

    def fits(self, size_bytes: int) -> bool:
        """Whether `size_bytes` more stay within the limit."""
        return self.held_bytes + size_bytes <= self.limit_bytes

    async def wait_for(self, size_bytes: int) -> None:
        """Returns when `size_bytes` (at most the limit) fit. Cancellation leaves the room as it was."""
        while not self.fits(size_bytes):
            self._freed = anyio.Event()
            await self._freed.wait()

    def widen(self, limit_bytes: int) -> None:
        """From now on `limit_bytes` fit, if that is more than before."""
        self.limit_bytes = max(self.limit_bytes, limit_bytes)
        self._freed.set()

    def take(self, size_bytes: int) -> None:
        self.held_bytes += size_bytes

    def give(self, size_bytes: int) -> None:
        self.held_bytes -= size_bytes
        self._freed.set()
