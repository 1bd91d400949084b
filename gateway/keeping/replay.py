"""A replay: a kept answer told to one client, from the event on at which it stopped."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from gateway.exchange import Exchange, while_connected
from gateway.keeping.recording import END, Recording, Source
from gateway.observing.request_trace import RequestTrace
from gateway.problems import NO_RETRY, RETRY_AFTER_S, send_json, status_of_type
from gateway.sse import Out, SseSettings, stream
from streaming.wire.format import PING, Json

TOKEN = b"\nevent: token\n"


@dataclass(frozen=True, slots=True)
class ReplayHead:
    """See gateway.sse.Head."""

    headers: Mapping[str, str] = field(default_factory=dict)
    ping: bytes = PING


class ReplayFrames:
    """The frames of a source after event number `n`, up to and with `done`."""

    def __init__(self, source: Source, n: int) -> None:
        self.is_done = False
        self._source, self._n = source, n

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self.is_done:
            raise StopAsyncIteration
        piece = await self._source.after(self._n)
        self._n, self.is_done = piece.last, piece.is_end
        if not piece.frames:
            raise StopAsyncIteration
        return piece.frames


@dataclass(frozen=True, slots=True)
class Replay:
    """A kept answer and where to begin in it. The client may leave: the answer does not end with it, and its keeper sees to the rest."""

    source: Source
    n: int = 0
    is_whole: bool = False

    async def tell(self, exchange: Exchange, sse: SseSettings, trace: RequestTrace) -> None:
        """Sends the answer as it was asked for: its events as they come, or one JSON body when it is complete."""
        with reading(self.source):
            if self.is_whole:
                await self._send_whole(exchange, trace)
            else:
                await stream(exchange, ReplayHead(), sse, lambda out: self._tell(out, trace))

    async def _tell(self, out: Out, trace: RequestTrace) -> None:
        has_answered = False
        async for frames in ReplayFrames(self.source, self.n):
            if not has_answered and TOKEN in frames:
                has_answered = True
                trace.first_answer_byte()
            await out.write(frames)
        await out.end(b"")

    async def _send_whole(self, exchange: Exchange, trace: RequestTrace) -> None:
        pieces: list[bytes] = []

        async def gather() -> None:
            pieces.extend([frames async for frames in ReplayFrames(self.source, self.n)])

        if await while_connected(exchange.receive, gather()):
            whole = Whole.of(b"".join(pieces))
            if whole.has_answer:
                trace.first_answer_byte()
            await send_json(exchange.send, whole.status, whole.body(), whole.headers())


def reading(source: Source) -> AbstractContextManager[None]:
    """Lets the keeper of an answer in this process know that it is being read; one elsewhere sees it by the reads."""
    return source.reading() if isinstance(source, Recording) else nullcontext()


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole answer out of its frames: what the native format's one body says, from what its events said."""

    events: tuple[tuple[str, Json], ...]

    @staticmethod
    def of(frames: bytes) -> "Whole":
        return Whole(tuple(parsed(frame) for frame in frames.split(END) if frame))

    @property
    def status(self) -> int:
        failed = self._one("failed")
        return 200 if failed is None else status_of_type(str(failed["type"]))

    @property
    def has_answer(self) -> bool:
        return self._one("failed") is None and bool(self._all("token"))

    def headers(self) -> list[tuple[bytes, bytes]]:
        """As gateway.whole.Whole.headers."""
        failed = self._one("failed")
        if failed is not None and not failed["retryable"]:
            return [NO_RETRY]
        wait_s = RETRY_AFTER_S.get(self.status)
        return [] if wait_s is None else [(b"retry-after", str(wait_s).encode())]

    def body(self) -> Json:
        """As streaming.wire.native.whole."""
        started = self._one("started") or {}
        ids: Json = {name: started[name] for name in ("answer_id", "trace_id") if name in started}
        failed = self._one("failed")
        if failed is not None:
            return {"error": failed | ids}
        verification = self._one("verification")
        return (
            ids
            | (self._one("done") or {})
            | {
                "answer": "".join(str(token["text"]) for token in self._all("token")),
                "sources": (self._one("sources") or {"passages": []})["passages"],
                "citations": self._all("citation"),
                "retries": self._all("retry"),
                "refusal": self._one("refusal"),
            }
            | ({} if verification is None else {"verification": verification})
        )

    def _all(self, name: str) -> list[Json]:
        return [data for each, data in self.events if each == name]

    def _one(self, name: str) -> Json | None:
        """The last event of that name: of sources there may be two, when a sentence that nothing says ended the first draft."""
        found = self._all(name)
        return found[-1] if found else None


def parsed(frame: bytes) -> tuple[str, Json]:
    """A frame's name and data."""
    fields = dict(line.split(b": ", 1) for line in frame.splitlines())
    data: Json = json.loads(fields[b"data"])
    return fields[b"event"].decode("ascii"), data
