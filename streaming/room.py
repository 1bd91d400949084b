"""Room: how much of a draft may be read and not yet sent."""

import anyio

HOLD_LIMIT_BYTES = 262_144  # p99 of grade time (8 s) x a fast model (400 tokens/s) x 4 bytes, and twenty times that


Weight = tuple[int, int]
"""Bytes of a draft's text, and of what it quotes: quotes are kept in memory as text is, but no model's tokens went into them."""


class Room:
    """A bound between the task that reads a draft and the task that sends it.

    The reader waits for room before it takes more (so that upstream feels back-pressure and nothing is dropped); the sender gives back
    what has left. One waiter at a time. Text may take `limit_bytes`, text and quotes together `whole_bytes`, where that is more.
    """

    def __init__(self, limit_bytes: int = HOLD_LIMIT_BYTES, whole_bytes: int = 0) -> None:
        self.limit_bytes = limit_bytes
        self._whole_bytes = max(limit_bytes, whole_bytes)
        self._text_bytes = 0
        self._quote_bytes = 0
        self._freed: anyio.Event | None = None  # while somebody waits, which is seldom

    def fits(self, size: Weight) -> bool:
        """Whether `size` more stays within the limits."""
        text, quotes = size
        text += self._text_bytes
        return text <= self.limit_bytes and text + self._quote_bytes + quotes <= self._whole_bytes

    async def wait_for(self, size: Weight) -> None:
        """Returns when `size` (at most the limits) fits. Cancellation leaves the room as it was."""
        while not self.fits(size):
            self._freed = anyio.Event()
            await self._freed.wait()
        self._freed = None

    def widen(self, limit_bytes: int) -> None:
        """From now on `limit_bytes` fit, if that is more than before."""
        self.limit_bytes = max(self.limit_bytes, limit_bytes)
        self._whole_bytes = max(self._whole_bytes, limit_bytes)
        self._free()

    def take(self, size: Weight) -> None:
        text, quotes = size
        self._text_bytes += text
        self._quote_bytes += quotes

    def give(self, size: Weight) -> None:
        text, quotes = size
        self._text_bytes -= text
        self._quote_bytes -= quotes
        self._free()

    def _free(self) -> None:
        if self._freed is not None:
            self._freed.set()
