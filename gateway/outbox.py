"""The outbox of a stream: chunks that one task puts and another takes, under a server that leaves no other way."""

from collections import deque
from collections.abc import Callable

import anyio
from anyio.lowlevel import checkpoint_if_cancelled


class Outbox:
    """Chunks in order, `size` at most, until the last one (gateway.sse.Out). One task puts, one task takes."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._chunks: deque[bytes] = deque()
        self._is_over = False
        self._changed: anyio.Event | None = None  # while one of the two waits for the other

    @property
    def is_taken(self) -> bool:
        """Whether all of it was taken, the last chunk too."""
        return self._is_over and not self._chunks

    async def room(self) -> None:
        """Returns when one more chunk has its place."""
        while len(self._chunks) >= self._size:
            await self._change()

    async def write(self, chunk: bytes) -> None:
        """Returns when `chunk` is in; on cancellation it is not. After the end it is dropped."""
        await self.room()
        self.say(chunk)

    def say(self, chunk: bytes) -> None:
        """Puts `chunk` in, at a moment at which there is room. After the end it is dropped."""
        if not self._is_over:
            self._chunks.append(chunk)
            self._tell()

    def soon(self, words: Callable[[], bytes]) -> bool:  # noqa: ARG002
        """Not here: another task sends."""
        return False

    async def end(self, chunk: bytes) -> None:
        """As `write`, and no other comes after it."""
        await self.write(chunk)
        self._is_over = True
        self._tell()

    def __aiter__(self) -> "Outbox":
        return self

    async def __anext__(self) -> bytes:
        """The oldest chunk, when there is one. Cancellation loses nothing."""
        await checkpoint_if_cancelled()
        while not self._chunks:
            if self._is_over:
                raise StopAsyncIteration
            await self._change()
        chunk = self._chunks.popleft()
        self._tell()
        return chunk

    async def _change(self) -> None:
        self._changed = anyio.Event()
        await self._changed.wait()

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None
