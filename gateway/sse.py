"""Server-sent events: chunks to a client's socket. The only importer of sse-starlette.

Whoever has the chunks writes them, in the request's own task. What else an open stream needs (pings in silence, a limit on a client
that reads nothing, the word that it left) its connection sees to by itself, in no task: see Line. Under a server that hands out no
connections all of this is sse-starlette's, in tasks of its own.
"""

import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import anyio
from sse_starlette import EventSourceResponse
from sse_starlette.sse import SendTimeoutError
from starlette.types import Send

from gateway.exchange import Exchange
from gateway.outbox import Outbox
from retrieval.traceless import traceless
from streaming.events import Done, Event, Token
from streaming.wire.format import Wire

log = logging.getLogger(__name__)

LINE = "gateway.line"  # the ASGI extension by which our server hands out a request's connection; None once that is lost
AHEAD = 16  # chunks that may wait for another server's task
HEADERS = {"Cache-Control": "no-cache, no-transform"}
MEDIA_TYPE = "text/event-stream"


@dataclass(frozen=True, slots=True)
class SseSettings:
    """How streams are sent: seconds between pings, seconds in which a client has to read, whether the media type names a charset."""

    ping_s: float = 15.0
    send_timeout_s: float = 20.0
    charset: bool = False


@dataclass(frozen=True, slots=True)
class Care:
    """What a line sees to by itself while a stream is open on it."""

    ping: bytes
    ping_s: float
    read_s: float
    """So long what was written may wait before so much of it was read that more can be; then the connection is dropped."""
    left: Callable[[], None]
    """Called once, the moment that the client is known to have left before the response was complete."""


class Line(Protocol):
    """The connection of a request, past what lies between the application and its server."""

    def care(self, care: Care) -> None:
        """From now on until the response is complete or the client has left."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether a body of chunks is under way."""
        ...

    @property
    def is_free(self) -> bool:
        """Whether it is open, and so little waits to be read that more may be written."""
        ...

    async def room(self) -> None:
        """Returns when the line is free, or never will be again because the client has left."""
        ...

    def write(self, chunk: bytes) -> None:
        """Writes a chunk of the body, whole; for a line that is free."""
        ...

    def soon(self, work: Callable[[], None]) -> None:
        """Calls `work` when every task that can run now has run."""
        ...


class Head(Protocol):
    """What a stream's response needs to know before its first chunk."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What is added to the response's headers."""
        ...

    @property
    def ping(self) -> bytes:
        """What is sent in silence."""
        ...


class Out(Protocol):
    """The way of chunks to one client. One task at a time uses it; what is written after the end, or to who has left, is dropped."""

    async def room(self) -> None:
        """Returns when a chunk can be written without waiting. A chunk that is made only then cannot be lost to a cancellation."""
        ...

    async def write(self, chunk: bytes) -> None:
        """Writes a chunk, once there is room."""
        ...

    def say(self, chunk: bytes) -> None:
        """Writes a chunk, at a moment at which there is room."""
        ...

    def soon(self, words: Callable[[], bytes]) -> bool:
        """Asks for a chunk and writes it when every task that can run now has run; False where nobody can tell when that is.

        Asked at a moment at which there is room.
        """
        ...

    async def end(self, chunk: bytes) -> None:
        """Writes the last chunk and ends the response, whatever else is still to be done."""
        ...


Tell = Callable[[Out], Awaitable[object]]
"""Writes all that there is to tell, and ends it. Cancelled when the client leaves."""


class Direct:
    """Chunks straight to a line: a token passes by seven calls between here and the socket, of which none had anything to do."""

    __slots__ = ("_line", "_send", "is_complete")

    def __init__(self, line: Line, send: Send) -> None:
        self._line = line
        self._send = send
        self.is_complete = False

    async def room(self) -> None:
        if not self.is_complete and not self._line.is_free:
            await self._line.room()

    async def write(self, chunk: bytes) -> None:
        await self.room()
        self.say(chunk)

    def say(self, chunk: bytes) -> None:
        if chunk and not self.is_complete and self._line.is_open:
            self._line.write(chunk)

    def soon(self, words: Callable[[], bytes]) -> bool:
        self._line.soon(lambda: self.say(words()))
        return True

    async def end(self, chunk: bytes) -> None:
        await self.room()
        if not self.is_complete:
            await self._send({"type": "http.response.body", "body": chunk, "more_body": False})
            self.is_complete = True


class Frames:
    """The batches of an answer as chunks in a wire format; with `done` the response ends, and nothing comes after it.

    What is neither answer nor end waits for the turn to be over, where the way out lets it: put into words at once it would be in the
    way of the search, or of the request to a model, that begins next.
    """

    __slots__ = ("_due", "_has_answered", "_is_over", "_on_first_answer_byte", "_out", "_wire")

    def __init__(self, wire: Wire, out: Out, on_first_answer_byte: Callable[[], None]) -> None:
        """`on_first_answer_byte` is called once, as the first chunk with answer text is handed on."""
        self._wire, self._out = wire, out
        self._on_first_answer_byte = on_first_answer_byte
        self._due: tuple[Event, ...] = ()
        self._has_answered = self._is_over = False

    async def emit(self, batch: tuple[Event, ...]) -> None:
        """Hands `batch` on. Cancelled while it waits for room, the format knows nothing of it: what comes next goes on from before."""
        await self._out.room()
        if self._is_over or not batch:
            return
        is_coming, self._due = bool(self._due), self._due + batch
        has_text = Token in map(type, batch)
        is_last = isinstance(batch[-1], Done)
        if not (has_text or is_last) and (is_coming or self._out.soon(self._late_words)):
            return
        chunk = self._words()
        self._is_over = is_last
        if has_text and not self._has_answered:
            self._has_answered = True
            self._on_first_answer_byte()
        if is_last:
            await self._out.end(chunk)
        elif chunk:
            self._out.say(chunk)

    def _words(self) -> bytes:
        """What is due, which may be nothing."""
        due, self._due = self._due, ()
        return self._wire.chunk(due) if due else b""

    def _late_words(self) -> bytes:
        due = self._due
        try:
            return self._words()
        except Exception:  # nobody would hear of it here: with the next chunk it is raised to who emits that
            self._due = due
            return b""


def nothing() -> None:
    """What else is done when a client leaves, most times."""


async def stream(
    exchange: Exchange, head: Head, settings: SseSettings, tell: Tell, left: Callable[[], None] = nothing
) -> bool:
    """Sends a response, headers first, of the chunks that `tell` writes; pings go between them.

    Returns when `tell` does: True when the end was handed to the socket, False when the client left or froze, which cancels `tell`;
    `left` is called before, in the turn of the event loop in which that is known. Raises what `tell` raises. Cancellation ends it where
    it is.
    """
    kind = f"{MEDIA_TYPE}; charset=utf-8" if settings.charset else MEDIA_TYPE
    start = {"type": "http.response.start", "status": 200, "headers": [*headers_of(tuple(head.headers.items()), kind)]}
    lines: Mapping[str, Line | None] = exchange.scope.get("extensions") or {}
    if exchange.scope["method"] == "HEAD":
        await exchange.send(start)
        await exchange.send({"type": "http.response.body", "body": b"", "more_body": False})
        return True
    if LINE not in lines:
        return await elsewhere(exchange, head, settings, tell)
    if (line := lines[LINE]) is None:
        return False
    out = Direct(line, exchange.send)
    with anyio.CancelScope() as scope:

        def end() -> None:
            try:
                left()
            finally:
                scope.cancel()

        line.care(Care(head.ping, settings.ping_s, settings.send_timeout_s, end))
        await exchange.send(start)
        await tell(out)
    return out.is_complete


async def elsewhere(exchange: Exchange, head: Head, settings: SseSettings, tell: Tell) -> bool:
    """As `stream`, under another server than ours."""
    chunks = Outbox(AHEAD)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(traceless, tell, chunks)
        response = response_of(
            chunks,
            tuple(head.headers.items()),
            MEDIA_TYPE,
            ping=settings.ping_s,
            ping_message_factory=lambda: head.ping,
            send_timeout=settings.send_timeout_s,
        )
        try:
            await response(exchange.scope, exchange.receive, exchange.send)
        except SendTimeoutError:
            log.info("a client did not read for %g s; its stream is dropped", settings.send_timeout_s)
        if not chunks.is_taken:
            tasks.cancel_scope.cancel()
    return chunks.is_taken


def response_of(
    chunks: AsyncIterable[bytes], added: tuple[tuple[str, str], ...], media_type: str, **given: Any
) -> EventSourceResponse:
    """The response of `chunks`, which are frames already."""
    return EventSourceResponse(chunks, headers={**HEADERS, **dict(added)}, media_type=media_type, sep="\n", **given)


@lru_cache(maxsize=64)
def headers_of(added: tuple[tuple[str, str], ...], media_type: str) -> tuple[tuple[bytes, bytes], ...]:
    """The headers of such a response, with the media type exactly as given: starlette adds a charset to every text type.

    Without the `keep-alive` that sse-starlette adds: whether the connection ends is its server's to say, and in HTTP/1.1 nothing said
    means that it stays.
    """
    made = response_of(Outbox(1), added, media_type).raw_headers
    typed = ((name, media_type.encode() if name == b"content-type" else value) for name, value in made)
    return tuple((name, value) for name, value in typed if name != b"connection")
