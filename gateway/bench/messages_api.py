"""A real HTTP server that speaks the Messages API and does what the script in the question says.

In a test, on the test's own event loop (asyncio):

    async with messages_api() as api:
        client = open_client("key", api.base_url, connect_s=1, read_s=1)

or as a process of its own, which prints its port on the first line and appends what happens, as JSON lines, to a file:

    python -m gateway.bench.messages_api --port 0 --log FILE --script "[[grade_ms=250 ttft_ms=400]]"
"""

import argparse
import asyncio
import selectors
import signal
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from typing import TextIO

import anyio

from gateway.bench.messages_log import Exchange, Log, Moment
from gateway.bench.messages_wire import Part, Reply, Request, Wire, error_reply, generator_reply, judging_reply
from gateway.providers.script import Script, stamped_search
from gateway.providers.scripted import Tally, keep

HEAD_LIMIT_BYTES = 65_536


class MessagesApi:
    """The server: where it listens, its log, and what its connections share."""

    def __init__(self, defaults: Script, file: TextIO | None = None) -> None:
        self.log = Log(file)
        self.port = 0
        self.connections: set[Connection] = set()
        self._defaults = defaults
        self._numbers = count(1)
        self._sets = {kind: Tally() for kind in ("grader", "passages", "generator")}
        self._drafts = Tally()
        self._kept: OrderedDict[Hashable, None] = OrderedDict()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def wait_until(self, condition: Callable[[Log], bool], within_s: float = 5.0) -> None:
        """As Log.wait_until."""
        await self.log.wait_until(condition, within_s)

    async def emptied(self) -> None:
        """Returns when no connection is left."""
        while self.connections:
            await next(iter(self.connections)).lost.wait()

    def answer(
        self, connection: int, path: str, headers: dict[str, str], body: bytes, received_s: float
    ) -> tuple[Reply, Exchange | None]:
        """What is answered to a request, and its entry in the log where it is one that a script plays.

        `received_s` is when its last byte had come, by `time.monotonic()`.
        """
        bearer = headers.get("authorization", "").removeprefix("Bearer").strip()  # what SDK 2.14 sends
        if not (headers.get("x-api-key") or bearer):
            return error_reply(401, "authentication_error", "x-api-key header is required"), None
        if path != "/v1/messages":
            return error_reply(404, "not_found_error", "Not found"), None
        try:
            request = self._keeping(Request.parse(body))
            script, wire = Script.parse(request.question, self._defaults), Wire.parse(request.question)
        except (KeyError, ValueError, TypeError, IndexError, StopIteration) as error:
            return error_reply(400, "invalid_request_error", f"not understood: {error!r}"), None
        exchange = self._exchange(connection, request, received_s)
        if request.kind == "generator":
            return generator_reply(request, script, wire, exchange.attempt, exchange.draft), exchange
        reply = judging_reply(request, script, wire, exchange.attempt)
        exchange.tokens = reply.tokens
        return reply, exchange

    def _keeping(self, request: Request) -> Request:
        """What a service that keeps prompts makes of it. (A real one keeps nothing below a thousand tokens or more, and nothing before its
        answer has begun.)"""
        known = request.known(self._kept)
        for prefix in request.prefixes:
            if prefix.is_marked:
                keep(self._kept, prefix.text, None)
        return known

    def _exchange(self, connection: int, request: Request, received_s: float) -> Exchange:
        attempt = stamped_search("\n".join(request.passages))
        if attempt is None:
            is_set = request.kind in self._sets
            attempt = self._sets[request.kind].number(request.question, request.passages) if is_set else 1
        draft = self._drafts.count((request.question, attempt)) if request.kind == "generator" else 0
        exchange = Exchange(
            id=next(self._numbers),
            connection=connection,
            kind=request.kind,
            model=request.model,
            question=request.question,
            attempt=attempt,
            draft=draft,
            received_s=received_s,
            input_tokens=request.input_tokens,
        )
        self.log.note(exchange, "request")
        return exchange


@dataclass(slots=True)
class Playing:
    """A reply that is being written."""

    reply: Reply
    exchange: Exchange | None
    began_s: float
    next: Part | None
    has_begun: bool = False
    last_due_s: float = 0.0


class Connection(asyncio.Protocol):
    """One client's connection: reads requests, one after another, and writes each reply on its schedule."""

    numbers = count(1)

    def __init__(self, api: MessagesApi) -> None:
        self._api = api
        self._number = next(self.numbers)
        self._received = b""
        self._playing: Playing | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_full = False
        self._unsent: list[bytes] = []
        self._arrived_s = 0.0
        self._loop = asyncio.get_running_loop()
        self.lost = asyncio.Event()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._api.connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._arrived_s = self._loop.time()
        self._received += data
        self._begin_next()

    def eof_received(self) -> None:
        self._note_closed()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._note_closed()
        self._api.connections.discard(self)
        self.lost.set()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._play()

    def abort(self) -> None:
        """Breaks the connection now."""
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    @property
    def _is_lost(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def _note_closed(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        playing, self._playing = self._playing, None
        if playing is not None and playing.exchange is not None and playing.exchange.is_open:
            self._api.log.note(playing.exchange, "closed")

    def _begin_next(self) -> None:
        if self._playing is not None:
            return
        head, found, rest = self._received.partition(b"\r\n\r\n")
        if not found:
            if len(head) > HEAD_LIMIT_BYTES:
                self.abort()
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", "0"))
        if len(rest) < length:
            return
        self._received = rest[length:]
        path = first.split(" ")[1].split("?")[0]
        received_s = time.monotonic() - (self._loop.time() - self._arrived_s)
        reply, exchange = self._api.answer(self._number, path, headers, rest[:length], received_s)
        # Its delays count from the request's arrival: the time that this server takes to understand it is no part of what it plays.
        self._playing = Playing(reply, exchange, self._arrived_s, next(reply.parts, None))
        self._play()

    def _play(self) -> None:
        """Writes all that is due, and comes back when the next is."""
        while (playing := self._playing) is not None and not self._is_full and not self._is_lost:
            due_s = self._due_s(playing)
            if due_s is None:
                break
            at_s = playing.began_s + due_s
            if at_s > self._loop.time():
                self._timer = self._loop.call_at(at_s, self._play)
                break
            self._write(playing)
        self._flush()

    def _due_s(self, playing: Playing) -> float | None:
        """When the next bytes are due, in seconds from the request; None for never."""
        reply = playing.reply
        if not playing.has_begun:
            return reply.due_s
        if playing.next is not None:
            return playing.next.due_s
        return None if reply.end == "never" else playing.last_due_s + reply.linger_s

    def _write(self, playing: Playing) -> None:
        assert self._transport is not None
        if not playing.has_begun:
            playing.has_begun = True
            self._send(playing, head_of(playing.reply))
            self._note(playing, "responded")
        elif (part := playing.next) is not None:
            playing.last_due_s = part.due_s
            self._send(playing, b"".join(chunks(part.data, playing.reply.split)))
            self._count(playing, part)
            playing.next = next(playing.reply.parts, None)
        else:
            self._finish(playing)

    def _send(self, playing: Playing, data: bytes) -> None:
        """Writes `data` of a stream; a reply that is none goes out in one write, as a service writes a small body."""
        self._unsent.append(data)
        if playing.reply.is_stream:
            self._flush()

    def _flush(self) -> None:
        if self._unsent and self._transport is not None:
            self._transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def _count(self, playing: Playing, part: Part) -> None:
        exchange = playing.exchange
        if exchange is not None and part.tokens:
            exchange.tokens += part.tokens
            if exchange.first_token_s is None:
                self._note(playing, "first_token")
            self._api.log.wake()

    def _finish(self, playing: Playing) -> None:
        assert self._transport is not None
        self._playing = None
        if playing.reply.end != "cut":
            self._unsent.append(b"0\r\n\r\n")
        self._flush()
        if playing.reply.end == "cut":
            self._transport.abort()
        self._note(playing, "finished")
        if playing.reply.end == "whole":
            self._begin_next()

    def _note(self, playing: Playing, moment: Moment) -> None:
        if playing.exchange is not None:
            self._api.log.note(playing.exchange, moment)


def head_of(reply: Reply) -> bytes:
    """The status line and headers of `reply`; its body is sent in chunks."""
    retry_after = f"retry-after: {reply.retry_after}\r\n" if reply.retry_after else ""
    phrase = HTTPStatus(reply.status).phrase if reply.status in set(HTTPStatus) else "Overloaded"
    return (
        f"HTTP/1.1 {reply.status} {phrase}\r\ncontent-type: {reply.content_type}\r\n{retry_after}"
        "request-id: req_scripted\r\ntransfer-encoding: chunked\r\n\r\n"
    ).encode()


def chunks(data: bytes, size: int) -> Iterator[bytes]:
    """`data` as HTTP chunks of `size` bytes each; 0 for all in one."""
    step = size or len(data)
    for start in range(0, len(data), step):
        piece = data[start : start + step]
        yield b"%x\r\n%b\r\n" % (len(piece), piece)


@asynccontextmanager
async def messages_api(
    defaults: Script | None = None, *, port: int = 0, file: TextIO | None = None
) -> AsyncIterator[MessagesApi]:
    """A running server on this event loop; at the end every connection is broken and the port is free."""
    api = MessagesApi(defaults or Script(), file)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(api), "127.0.0.1", port)
    api.port = server.sockets[0].getsockname()[1]
    try:
        yield api
    finally:
        server.close()
        for connection in tuple(api.connections):
            connection.abort()
        with anyio.move_on_after(2, shield=True):
            await server.wait_closed()
            await api.emptied()


async def serve(defaults: Script, port: int, log: str | None) -> None:
    """Serves until SIGTERM or SIGINT; prints the port on the first line of standard output."""
    with open(log, "a", encoding="utf-8") if log else nullcontext() as file:  # noqa: ASYNC230 - once, before it serves
        async with messages_api(defaults, port=port, file=file) as api:
            print(api.port, flush=True)
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async for _ in signals:
                    return


def main() -> None:
    parser = argparse.ArgumentParser(description="A scripted Messages API server.")
    parser.add_argument("--port", type=int, default=0, help="0 for any free one")
    parser.add_argument("--log", help="a file to append JSON lines to")
    parser.add_argument("--script", default="", help="defaults, as a marker: '[[grade_ms=250 ttft_ms=400]]'")
    asked = parser.parse_args()
    anyio.run(serve, Script.parse(asked.script), asked.port, asked.log, backend_options={"loop_factory": punctual_loop})


def punctual_loop() -> asyncio.AbstractEventLoop:
    """A loop whose timers are late by microseconds: epoll waits whole milliseconds, rounded up. At most about 1,000 connections."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


if __name__ == "__main__":
    main()
