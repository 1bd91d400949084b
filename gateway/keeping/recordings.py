"""Recordings beyond this process: what several gateways share, so that a client reads on from whichever it reaches."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

import anyio

from gateway.keeping.recording import Chunk, Piece, lost
from retrieval.faults import RetrievalUnavailable
from retrieval.tenancy import DEFAULT

POLL_S, POLL_MOST_S = 0.05, 0.4  # between two looks at an answer that another server gives; longer while nothing comes
DOUBT_S = 4.0  # twice what its server takes to show itself, after an outage of the database that kept it from it
LOST_S = 10.0  # without a sign of life of its server an answer is taken for lost


@dataclass(frozen=True, slots=True)
class Claim:
    """Who asks for an answer to be recorded. `owner` is the API key's digest, `digest` the body's; `key` the Idempotency-Key, if any."""

    answer_id: str
    owner: str
    digest: str
    key: str | None = None
    tenant: str = DEFAULT


@dataclass(frozen=True, slots=True)
class Held:
    """A recording that is there: the digest of the body that it answers, its last event so far, and whether that is the end."""

    answer_id: str
    digest: str
    last: int
    is_ended: bool


@dataclass(frozen=True, slots=True)
class Stored:
    """A recording as read: chunks of frames in order, the number of its last event so far; whether it is complete, or its server gone."""

    chunks: Sequence[Chunk]
    last: int
    is_ended: bool
    is_lost: bool


class State(Enum):
    """What a recording is for who adds to it."""

    KEPT = auto()
    STOPPED = auto()  # by a `stop`
    GONE = auto()  # as after a crash of the database


class Recordings(Protocol):
    """Where the recordings of a tenant are shared. Methods raise RetrievalUnavailable; each is short and holds nothing when it returns."""

    async def claim(self, claim: Claim, expires_s: float) -> Held | None:
        """Makes room for a recording, for `expires_s` at most; None. Where its key is taken nothing is made: who holds the key."""
        ...

    async def append(self, answer_id: str, chunks: Sequence[Chunk], expires_s: float | None) -> State:
        """Adds chunks, and a sign of life; what state the recording is in. With `expires_s` it is complete, and is kept so long.

        Only to a kept one is anything added.
        """
        ...

    async def find(self, answer_id: str, owner: str) -> Held | None:
        """The recording of that id and owner, if it is there."""
        ...

    async def read(self, answer_id: str, after: int) -> Stored | None:
        """What follows event number `after`; leaves a trace for `is_read`. None when there is no such recording (any more)."""
        ...

    async def is_read(self, answer_id: str, within_s: float) -> bool:
        """Whether somebody called `read` in the last `within_s`."""
        ...

    async def release(self, answer_id: str) -> None:
        """Gives the recording's key free; the recording stays."""
        ...

    async def stop(self, answer_id: str) -> None:
        """Nobody can find or read the recording any more, and who adds to it is told."""
        ...

    async def forget(self, answer_id: str) -> None:
        """Removes a recording."""
        ...


class Shared(Protocol):
    """Where the recordings of every tenant are."""

    def of(self, tenant: str) -> Recordings:
        """Those of one."""
        ...

    async def sweep(self) -> None:
        """Removes what has expired. Raises RetrievalUnavailable."""
        ...


class SharedSource:
    """The frames of an answer that another server gives or gave (gateway.keeping.recording.Source): looked for again and again.

    No connection is held meanwhile. A database that is away is waited for; so is a server that comes back with it.
    """

    def __init__(self, recordings: Recordings, held: Held) -> None:
        self._recordings, self._held = recordings, held

    @property
    def answer_id(self) -> str:
        return self._held.answer_id

    async def after(self, n: int) -> Piece:
        """See Source."""
        pause_s, silent_since_s = POLL_S, None
        while True:
            stored, patience_s = await self._look(n)
            piece = None if stored is None else piece_of(stored, n)
            if piece is not None:
                return piece
            now_s = anyio.current_time()
            if stored is not None and not stored.is_lost:
                silent_since_s = None
            elif silent_since_s is None:
                silent_since_s = now_s
            elif now_s - silent_since_s > patience_s:
                return lost(self.answer_id, n)
            await anyio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, POLL_MOST_S)

    async def _look(self, n: int) -> tuple[Stored | None, float]:
        """What there is after event `n`, and for how many seconds it may be nothing before the answer is taken for lost."""
        try:
            return await self._recordings.read(self.answer_id, n), DOUBT_S
        except RetrievalUnavailable:
            return None, LOST_S


def piece_of(stored: Stored, n: int) -> Piece | None:
    """What `stored` has after event `n`; None while there is nothing new."""
    if stored.chunks:
        frames, last = b"".join(chunk.after(n) for chunk in stored.chunks), stored.chunks[-1].last
        return Piece(frames, last, is_end=stored.is_ended and last == stored.last)
    return Piece(b"", n, is_end=True) if stored.is_ended else None
