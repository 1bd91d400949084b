"""Server-sent events: the batches of an answer, in a wire format, to a client's socket. The only importer of sse-starlette.

The response holds no task group, scope or span of ours; it reads batches that it does not own. What it writes of one batch is
one `send`. It ends right after `done`, whatever else of the answer is still being closed.
"""

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
from sse_starlette import EventSourceResponse
from sse_starlette.sse import SendTimeoutError
from starlette.types import Message, Receive, Scope, Send

from gateway.outbox import Batch, Outbox
from retrieval.traceless import traceless
from streaming.events import Done, Token
from streaming.wire.format import Wire

log = logging.getLogger(__name__)

LINE = "gateway.line"  # the ASGI extension by which our server hands out the connection of a request
ABORT_LIMIT_S = 1.0
HEADERS = {"Cache-Control": "no-cache, no-transform"}
MEDIA_TYPE = "text/event-stream"


@dataclass(frozen=True, slots=True)
class SseSettings:
    """How streams are sent: seconds between pings, seconds that one send may take, whether the media type names a charset."""

    ping_s: float = 15.0
    send_timeout_s: float = 20.0
    charset: bool = False


class Line(Protocol):
    """The connection of a request, past what lies between the application and its server."""

    @property
    def is_free(self) -> bool:
        """Whether a body of chunks is under way, and so little of it waits to be read that `send` would not wait either."""
        ...

    def write(self, chunk: bytes) -> None:
        """Writes a chunk of the body; for a line that is free."""
        ...

    def abort(self) -> None:
        """Drops the connection at once: closing it would wait for whoever reads nothing."""
        ...

    def when_left(self, act: Callable[[], None] | None) -> None:
        """What is done the moment that the client is known to have left before the response was complete; None for nothing more than
        that `receive` says so, three turns of the event loop later. One that has left already is not told of again.
        """
        ...


Now = Callable[[Callable[[], bytes]], bool]
"""Writes the bytes that its argument makes, if they can leave now; otherwise makes none and returns False."""


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


class Chunks(Protocol):
    """What a response sends, chunk by chunk."""

    @property
    def wire(self) -> Head: ...

    @property
    def first_answer_chunk(self) -> bytes | None:
        """The first chunk with answer text, once there is one."""
        ...

    @property
    def is_done(self) -> bool:
        """Whether the last chunk was taken."""
        ...

    def open(self, now: Now | None) -> None:
        """Whatever would be the next chunk, and not the last, may be written by `now` instead; by None no longer."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...


class Frames:
    """The bytes of an answer's batches, a chunk each, up to and with `done`. An iterator, not a generator: nothing to clean up.

    A batch that could leave as it is put leaves then, in its owner's turn of the event loop: it waits for no turn of the response's.
    """

    def __init__(self, wire: Wire, batches: Outbox) -> None:
        self.wire = wire
        self._batches = batches
        self._now: Now | None = None
        self.first_answer_chunk: bytes | None = None
        self.is_done = False

    def open(self, now: Now | None) -> None:
        self._now = now
        self._batches.open(None if now is None else self._pass_on)

    def _pass_on(self, batch: Batch) -> bool:
        return self._now is not None and not ends(batch) and self._now(lambda: self._framed(batch))

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self.is_done:
            batch = await self._batches.take()
            self.is_done = ends(batch)
            if chunk := self._framed(batch):
                return chunk
        raise StopAsyncIteration

    def _framed(self, batch: Batch) -> bytes:
        chunk = self.wire.chunk(batch)
        if self.first_answer_chunk is None and any(isinstance(event, Token) for event in batch):
            self.first_answer_chunk = chunk
        return chunk


def ends(batch: Batch) -> bool:
    """Whether nothing comes after `batch`."""
    return bool(batch) and isinstance(batch[-1], Done)


class Stream(EventSourceResponse):
    """sse-starlette's response with one watch on all its sends: a time-out round each costs a fifth of what a token costs here.

    It takes the place of sse-starlette's process-wide exit watcher: this server drains by its own rules (serve.py). The tasks of the
    response are traceless: two of them are cancelled at the end of every stream.
    """

    def __init__(
        self, chunks: Chunks, line: Line | None, on_first_answer_byte: Callable[[], None], **given: Any
    ) -> None:
        super().__init__(chunks, **given)
        self._chunks, self._line, self._on_first_answer_byte = chunks, line, on_first_answer_byte
        self._has_answered = False
        self._sending_since_s: float | None = None

    async def _stream_response(self, send: Send) -> None:
        await traceless(self._send_all, send)

    async def _ping(self, send: Send) -> None:
        await traceless(super()._ping, send)

    async def _listen_for_disconnect(self, receive: Receive) -> None:
        await traceless(super()._listen_for_disconnect, receive)

    async def _listen_for_exit_signal_with_grace(self) -> None:
        await traceless(self._watch)

    async def _send_all(self, send: Send) -> None:
        """Sends the headers and each chunk as it comes; a chunk is bytes already, and the iterator has nothing to clean up."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        self._chunks.open(self._now)
        try:
            async for chunk in self._chunks:
                self._look(chunk)
                await self._send_with_timeout(send, {"type": "http.response.body", "body": chunk, "more_body": True})
        finally:
            self._chunks.open(None)  # it knows this response, which knows it: a collector would have to tell them apart
        async with self._send_lock:
            self.active = False
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _now(self, make: Callable[[], bytes]) -> bool:
        """See Now. It passes by what lies between here and the socket: seven calls for every token, of which none had anything to do."""
        line = self._line
        if line is None or not line.is_free:
            return False
        if chunk := make():
            self._look(chunk)
            line.write(chunk)
        return True

    def _look(self, chunk: bytes) -> None:
        if not self._has_answered and chunk is self._chunks.first_answer_chunk:
            self._has_answered = True
            self._on_first_answer_byte()

    async def _send_with_timeout(self, send: Send, message: Message) -> None:
        if self._sending_since_s is None:  # else a ping and a chunk wait for the same client, and the older send counts
            self._sending_since_s = time.monotonic()
        await send(message)
        self._sending_since_s = None

    async def _watch(self) -> None:
        """Ends the response with SendTimeoutError when a send takes longer than its limit. Runs beside it, in its task group."""
        assert self.send_timeout is not None
        while True:
            since_s = self._sending_since_s
            left_s = self.send_timeout if since_s is None else since_s + self.send_timeout - time.monotonic()
            if left_s <= 0:
                raise SendTimeoutError
            await anyio.sleep(left_s)


async def stream(
    frames: Chunks,
    scope: Scope,
    receive: Receive,
    send: Send,
    settings: SseSettings,
    on_first_answer_byte: Callable[[], None],
) -> bool:
    """Sends the response, headers first. Returns True when `done` was handed to the socket, False when the client left or froze.

    `on_first_answer_byte` is called once, as the first chunk with answer text is handed to `send`. A send that takes longer than its
    time-out ends the stream and drops the connection. Cancellation ends it where it is.
    """
    response = Stream(
        frames,
        line_of(scope),
        on_first_answer_byte,
        headers={**HEADERS, **frames.wire.headers},
        media_type=f"{MEDIA_TYPE}; charset=utf-8" if settings.charset else MEDIA_TYPE,
        ping=settings.ping_s,
        ping_message_factory=lambda: frames.wire.ping,
        send_timeout=settings.send_timeout_s,
        sep="\n",
    )
    response.raw_headers = as_given(response.raw_headers, response.media_type or MEDIA_TYPE)
    ended = False

    async def watched(message: Message) -> None:
        nonlocal ended
        await send(message)
        ended = message["type"] == "http.response.body" and not message.get("more_body", False)

    try:
        await response(scope, receive, within(settings.send_timeout_s, watched))
    except SendTimeoutError:
        log.info("a client did not read for %g s; its stream is dropped", settings.send_timeout_s)
        await drop(scope, receive)
    return ended and frames.is_done


def within(limit_s: float, send: Callable[[Message], Awaitable[None]]) -> Send:
    """`send` with a time-out on the headers and on the end: sse-starlette puts one on what is between them alone."""

    async def bounded(message: Message) -> None:
        if message.get("more_body"):
            await send(message)
            return
        with anyio.move_on_after(limit_s) as waiting:
            await send(message)
        if waiting.cancelled_caught:
            raise SendTimeoutError

    return bounded


async def drop(scope: Scope, receive: Receive) -> None:
    """Drops the connection without waiting for what is still to be written to it, and waits until that is known here."""
    if (line := line_of(scope)) is not None:
        line.abort()
        with anyio.move_on_after(ABORT_LIMIT_S):
            while (await receive())["type"] != "http.disconnect":
                pass


def line_of(scope: Scope) -> Line | None:
    """The connection of the request; None under a server that hands none out."""
    extensions: Mapping[str, Line] = scope.get("extensions") or {}
    return extensions.get(LINE)


def as_given(headers: list[tuple[bytes, bytes]], media_type: str) -> list[tuple[bytes, bytes]]:
    """The headers with the media type exactly as given: starlette adds a charset to every text type. Without the `keep-alive` that
    sse-starlette adds: whether the connection ends is its server's to say, and in HTTP/1.1 nothing said means that it stays.
    """
    typed = ((name, media_type.encode() if name == b"content-type" else value) for name, value in headers)
    return [(name, value) for name, value in typed if name != b"connection"]
