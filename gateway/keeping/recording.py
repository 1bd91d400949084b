"""A recording: the frames of one answer, kept so that a client that was cut off reads on where it stopped."""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import anyio

from gateway.problems import AnswerLost
from streaming.events import Done, Failed, Path
from streaming.wire.native import frame

PIECE_BYTES = (
    65_536  # of what is replayed at once: a reader that left at the start must not be sent megabytes in one go
)
END = b"\n\n"  # of a frame; its data is one line, so nothing else in it is


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole frames, up to event number `last`; with `is_end` there is nothing after them."""

    frames: bytes
    last: int
    is_end: bool


@dataclass(frozen=True, slots=True)
class Chunk:
    """The frames of events `first` to `last`, as they were first sent together."""

    first: int
    last: int
    frames: bytes

    def after(self, n: int) -> bytes:
        """The frames of the events after number `n`."""
        at = 0
        for _ in range(n - self.first + 1):
            at = self.frames.index(END, at) + len(END)
        return self.frames[at:]


class Source(Protocol):
    """An answer's frames, from wherever they are kept."""

    @property
    def answer_id(self) -> str: ...

    async def after(self, n: int) -> Piece:
        """What follows event number `n`, as soon as there is something; no frames only when `n` was the last one.

        An answer that is lost (its server is gone) ends with `failed` and `done`. Cancellation loses nothing.
        """
        ...


class Recording:
    """The frames of an answer that runs, or ran, in this process (Source). One task adds; any number read, each at its own place."""

    def __init__(self, answer_id: str) -> None:
        self.answer_id = answer_id
        self.last = self.size_bytes = self.readers = 0
        self.is_ended = self.is_lost = False
        self._chunks: list[Chunk] = []
        self._grown, self._changed = anyio.Event(), anyio.Event()

    def add(self, frames: bytes, events: int, *, is_end: bool) -> None:
        """Takes the next `events` frames; after the end and once lost it takes none."""
        if self.is_ended or self.is_lost or not events:
            return
        self._chunks.append(Chunk(self.last + 1, self.last + events, frames))
        self.last += events
        self.size_bytes += len(frames)
        self.is_ended = is_end
        self._grown.set()

    def chunks_after(self, n: int) -> list[Chunk]:
        """The chunks with events after number `n`."""
        return self._chunks[bisect_right(self._chunks, n, key=last_of) :]

    def lose(self) -> None:
        """The answer will not go on; who still reads it is told so."""
        self.is_lost = not self.is_ended
        self._grown.set()

    def kept_after(self, n: int) -> Piece:
        """What is there after event number `n` now, PIECE_BYTES and a chunk at most. `n` is not beyond the last one."""
        frames, size_bytes, last = [], 0, n
        for chunk in self.chunks_after(n):
            if size_bytes >= PIECE_BYTES:
                break
            frames.append(chunk.after(n))
            size_bytes += len(chunk.frames)
            last = chunk.last
        return Piece(b"".join(frames), last, is_end=self.is_ended and last == self.last)

    async def after(self, n: int) -> Piece:
        """See Source."""
        while True:
            piece = self.kept_after(n)
            if piece.frames or piece.is_end:
                return piece
            if self.is_lost:
                return lost(self.answer_id, n)
            await self.grown()

    async def grown(self) -> None:
        """Returns when something was added after this call, or the recording was lost."""
        if self._grown.is_set():
            self._grown = anyio.Event()
        await self._grown.wait()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Somebody reads inside the block."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    async def until_read(self) -> None:
        """Returns when somebody reads."""
        while not self.readers:
            await self._changed.wait()

    async def until_deserted(self) -> None:
        """Returns when nobody reads."""
        while self.readers:
            await self._changed.wait()

    def _count(self, change: int) -> None:
        self.readers += change
        self._changed.set()
        self._changed = anyio.Event()


def last_of(chunk: Chunk) -> int:
    return chunk.last


def lost(answer_id: str, last: int) -> Piece:
    """The end of an answer whose server is gone: a fault and `done`, never a bare end."""
    fault = AnswerLost("the server that was answering is gone; ask again")
    failed = Failed(fault.type, str(fault), fault.retryable)
    done = Done(Path.FAILED, "error", 0, {})
    frames = frame(f"{answer_id}.{last + 1}", failed) + frame(f"{answer_id}.{last + 2}", done)
    return Piece(frames, last + 2, is_end=True)
