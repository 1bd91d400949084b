"""A connection: what a client may send on it, and for how long it may send or read nothing.

uvicorn's protocol believes its clients. It keeps a head of any size and any number of requests sent ahead, waits for ever for a
head, forgets to tell a running request that its client left once another was sent behind it, and writes a plain-text error into
a stream that is under way. Here each of these ends.
"""

import logging
import re
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, cast

import anyio
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from gateway.problems import HeadTooLarge, HeadTooSlow, MalformedHttp, body_of, status_of
from gateway.sse import LINE, Care
from retrieval.faults import GatewayFault
from streaming.wire.format import dumps

if TYPE_CHECKING:
    from asyncio import TimerHandle, Transport

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

log = logging.getLogger(__name__)

HEAD_LIMIT_BYTES = 65_536  # twice what proxies let pass (nginx 32 KiB); also of what frames a body, which is less
HEAD_LIMIT_S = 30.0  # as long as a body may take
FLUSH_LIMIT_S = 20.0  # after its response is complete, for as long a client may read nothing of the rest

NO_PIPELINE: deque[Any] = deque(maxlen=0)  # one of each connection's own takes 0.7 KiB, and nothing ever waits in it

# Nothing here is upgraded to. The parser would skip the body of a request that asks (Java's client does, for h2c), so it does not see it.
_UPGRADE, _UNSEEN = re.compile(rb"\r\nupgrade:", re.IGNORECASE), b"\r\nx-asked:"


class Reading(Enum):
    """What the next bytes belong to."""

    NOTHING = auto()  # between two requests
    HEAD = auto()
    BODY = auto()


class Flow(FlowControl):
    """uvicorn's, with an event while somebody waits to write and not for as long as there is a connection: it takes 0.9 KiB."""

    def __init__(self, transport: "Transport") -> None:
        self._transport = transport
        self.read_paused = self.write_paused = False
        self._resumed: anyio.Event | None = None

    async def drain(self) -> None:
        while self.write_paused:
            self._resumed = self._resumed or anyio.Event()
            await self._resumed.wait()

    def pause_writing(self) -> None:
        self.write_paused = True

    def resume_writing(self) -> None:
        self.write_paused = False
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None


class Connection(HttpToolsProtocol):
    """HTTP/1.1, one request after another, which the application may write to (gateway.sse.Line).

    What arrives behind a running request, a request sent ahead or nonsense, is read away, so that a client's leaving is noticed, and
    never answered: the connection ends with the response. RFC 9112 (9.3.2) has clients that send ahead be prepared for that.
    """

    # Beside uvicorn's 28 attributes, not among them: an object of more than 30 has a dictionary of its own, of 1.2 KiB.
    __slots__ = (
        "_care",
        "_extensions",
        "_flushing",
        "_framing_bytes",
        "_freezing",
        "_head_limit",
        "_is_deaf",
        "_is_lost",
        "_ping",
        "_reading",
    )

    def connection_made(self, transport: "Transport") -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.pipeline, self.flow = NO_PIPELINE, Flow(transport)
        self._reading = Reading.NOTHING
        self._framing_bytes = 0  # of this request, what is not its body
        self._extensions: dict[str, Any] = {}
        self._is_deaf = self._is_lost = False
        self._care: Care | None = None
        self._ping: TimerHandle | None = None
        self._freezing: TimerHandle | None = None
        self._flushing: TimerHandle | None = None
        self._head_limit = self.loop.call_later(HEAD_LIMIT_S, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._head_limit.cancel()
        care = self._care
        self._end_care()
        if care is not None:
            care.left()
        self._extensions[LINE] = None  # the request knows this by it: a collector would have to tell them apart
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        self._framing_bytes += len(data)
        super().data_received(data if self._reading is Reading.BODY else without_upgrade(data))
        if self._is_ending:
            return
        if self._framing_bytes > HEAD_LIMIT_BYTES:
            self._refuse(HeadTooLarge(f"a request's head has at most {HEAD_LIMIT_BYTES} bytes"))
        elif not self._is_busy and self._head_limit.cancelled():
            self._head_limit = self.loop.call_later(HEAD_LIMIT_S, self._head_is_late)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  of uvicorn
        self._refuse(MalformedHttp("this is not HTTP/1.1"))

    def on_message_begin(self) -> None:
        if self._is_busy:
            self._grow_deaf()
            return
        super().on_message_begin()
        self._reading, self._framing_bytes = Reading.HEAD, 0
        self.scope["extensions"] = self._extensions = {LINE: self}

    def on_url(self, url: bytes) -> None:
        if not self._is_deaf:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_deaf and self._reading is Reading.HEAD:  # one after the body is a trailer, which nobody reads
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self._is_deaf:
            self._reading = Reading.BODY
            self._framing_bytes = 0
            self._head_limit.cancel()
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._is_deaf:
            self._framing_bytes -= len(body)
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._is_deaf:
            self._reading = Reading.NOTHING
            super().on_message_complete()

    def on_response_complete(self) -> None:
        self._end_care()
        super().on_response_complete()
        self._mind_the_rest(self.transport.get_write_buffer_size())

    @property
    def is_open(self) -> bool:
        """See gateway.sse.Line."""
        running = self.cycle
        return bool(running.chunked_encoding) and not running.response_complete and not running.disconnected

    @property
    def is_free(self) -> bool:
        """See gateway.sse.Line."""
        return not self.flow.write_paused and self.is_open

    def write(self, chunk: bytes) -> None:
        """See gateway.sse.Line."""
        self.transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))

    def soon(self, work: Callable[[], None]) -> None:
        """See gateway.sse.Line."""
        self.loop.call_soon(work)

    def care(self, care: Care) -> None:
        """See gateway.sse.Line."""
        self.flow.resume_reading()  # a large body has it paused until the next `receive`, and nobody receives any more
        self._care = care
        self._ping = self.loop.call_later(care.ping_s, self._say_ping)
        if self.flow.write_paused:
            self._mind_reading()

    async def room(self) -> None:
        """See gateway.sse.Line."""
        await self.flow.drain()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._mind_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._freezing is not None:
            self._freezing.cancel()
            self._freezing = None

    @property
    def _is_busy(self) -> bool:
        """Whether a request is being answered."""
        running = cast("RequestResponseCycle | None", self.cycle)
        return running is not None and not running.response_complete

    @property
    def _is_ending(self) -> bool:
        return self._is_deaf or self.transport.is_closing()

    def _say_ping(self) -> None:
        """A whole chunk, between two others; none to a client that does not read what it has."""
        if self._care is not None:
            if self.is_free:
                self.write(self._care.ping)
            self._ping = self.loop.call_later(self._care.ping_s, self._say_ping)

    def _mind_reading(self) -> None:
        if self._care is not None and self._freezing is None:
            self._freezing = self.loop.call_later(self._care.read_s, self._drop_frozen, self._care.read_s)

    def _drop_frozen(self, after_s: float) -> None:
        """Closing it would wait for whoever reads nothing."""
        log.info("a client did not read for %g s; its stream is dropped", after_s)
        self.transport.abort()

    def _end_care(self) -> None:
        self._care = None
        for timer in (self._ping, self._freezing):
            if timer is not None:
                timer.cancel()
        self._ping = self._freezing = None

    def _grow_deaf(self) -> None:
        self._is_deaf = True
        self.cycle.keep_alive = False

    def _head_is_late(self) -> None:
        if self._reading is Reading.HEAD:
            self._refuse(HeadTooSlow(f"the request's head did not arrive within {HEAD_LIMIT_S:g} s"))
        else:
            self.transport.close()

    def _refuse(self, fault: GatewayFault) -> None:
        """Says what is wrong and closes; to a request that is complete, or whose response has begun, it does nothing but end with it."""
        if self._is_busy and (self._reading is not Reading.BODY or self.cycle.response_started):
            self._grow_deaf()
            return
        body = dumps(body_of(fault))
        head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status_of(fault)] + head + body)
        self.transport.close()

    def _mind_the_rest(self, left_bytes: int) -> None:
        """Drops the connection once nothing of what is left has been read for as long as that may take.

        What is left of the response before is no more to be told from this one's: only the latest is minded.
        """
        if self._flushing is not None:
            self._flushing.cancel()
        late = self.loop.call_later(FLUSH_LIMIT_S, self._drop_unless_below, left_bytes) if left_bytes else None
        self._flushing = late

    def _drop_unless_below(self, before_bytes: int) -> None:
        if self._is_lost:
            return
        left_bytes = self.transport.get_write_buffer_size()
        if left_bytes >= before_bytes:
            self.transport.abort()
        else:
            self._mind_the_rest(left_bytes)


def without_upgrade(data: bytes) -> bytes:
    """`data` in whose first head no upgrade is asked for."""
    head, end, rest = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(_UNSEEN, head) + end + rest
