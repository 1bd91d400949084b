"""The connections to the model's service: aiohttp's, as the SDK offers them, without what ours have no use for.

Of a request: an address and headers put together anew, other credentials, hooks and measuring, 0.2 ms. Of a token: to resume a reading
that was not paused, which is a look into the parser, a new time limit and a word with the transport after each chunk of a body
(aiohttp 3.14), 6 microseconds.
"""

import asyncio
import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast

import httpx2
from aiohttp import ClientPayloadError, ClientResponse, ClientSession, ClientTimeout, TCPConnector
from aiohttp.client_proto import ResponseHandler
from aiohttp.helpers import _EXC_SENTINEL
from aiohttp.http_exceptions import HttpProcessingError
from anthropic import DefaultAioHttpClient
from anthropic._vendor.httpx_aiohttp.transport import AiohttpResponseStream, AiohttpTransport, map_aiohttp_exceptions
from multidict import CIMultiDict


class Connections(DefaultAioHttpClient):
    """The SDK's HTTP client over aiohttp. Environment, proxies and certificates are its business; close it with `aclose`."""

    async def ask(self, kind: "Kind", content: bytes, added: Mapping[str, str], *, stream: bool) -> httpx2.Response:
        """Sends one more request of a kind; its response, of any status, unread with `stream`. Raises as the SDK's client does.

        What is redirected is sent again by that, which follows; so is what goes through a proxy, by its own transport.
        """
        transport = self._transport_for_url(kind.request.url)
        if not isinstance(transport, AiohttpTransport) or transport.proxy is not None:
            return await self.send(kind.request_with(content, added), stream=stream)
        if not isinstance(transport.client, ClientSession):
            transport.client = transport.get_client()
        with map_aiohttp_exceptions():
            answered = await transport.client.post(
                kind.url,
                headers=kind.headers_with(content, added),
                data=content,
                allow_redirects=False,
                auto_decompress=False,
                timeout=kind.timeout,
            )
            is_elsewhere = answered.status >= 300 and _head_of(answered).has_redirect_location
            whole = None if stream or is_elsewhere else await answered.read()
        if is_elsewhere:
            answered.release()
            return await self.send(kind.request_with(content, added), stream=stream)
        return httpx2.Response(
            answered.status,
            headers=answered.raw_headers,
            content=whole,
            stream=AiohttpResponseStream(answered) if stream else None,
            request=kind.request,
        )

    def _init_transport(self, *given: Any, **named: Any) -> httpx2.AsyncBaseTransport:
        """The SDK's own transport, over connections of ours. Those through a proxy stay as they are."""
        transport = cast(AiohttpTransport, super()._init_transport(*given, **named))
        transport.client = partial(_session, transport)
        return transport


class Kind:
    """A kind of request: what is the same for all of it is put together once, of the first one as the SDK builds it."""

    def __init__(self, request: httpx2.Request) -> None:
        limits = request.extensions["timeout"]
        self.request = request
        self.url = str(request.url)
        self.timeout = ClientTimeout(connect=limits["pool"], sock_connect=limits["connect"], sock_read=limits["read"])
        self._headers = CIMultiDict(request.headers.multi_items())

    def headers_with(self, content: bytes, added: Mapping[str, str]) -> CIMultiDict[str]:
        """Of one request, for aiohttp."""
        headers = self._headers.copy()
        headers["content-length"] = str(len(content))
        headers.update(added)
        return headers

    def request_with(self, content: bytes, added: Mapping[str, str]) -> httpx2.Request:
        """One request, for the SDK's client."""
        like = self.request
        headers = [*self.headers_with(content, added).items()]
        return httpx2.Request(like.method, like.url, headers=headers, content=content, extensions=like.extensions)


def _session(transport: AiohttpTransport) -> ClientSession:
    """What the transport would open, at its first request."""
    limits = transport.limits
    return ClientSession(
        connector=_Connector(
            limit=limits.max_connections or 0, keepalive_timeout=limits.keepalive_expiry, ssl=transport.ssl_context
        )
    )


class _Connector(TCPConnector):
    """Opens connections that are read by `Reading`."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._factory = cast("partial[ResponseHandler]", partial(Reading, loop=self._loop))


class Reading(ResponseHandler):
    """Reads responses; resumes only where it has paused, and may be left unread for a while."""

    __slots__ = ("_end_of_rest",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._end_of_rest: asyncio.TimerHandle | None = None

    def rest(self, seconds: float, enough: int) -> bool:
        """For so long the system keeps what arrives, unless it comes to `enough` bytes: then it is one read. False where it cannot.

        Nobody wakes up meanwhile: a connection whose reading is paused (asyncio's way) wakes its event loop once before it is left alone,
        which is a tenth of what tokens cost at 16 streams. socket(7), SO_RCVLOWAT.
        """
        if self._end_of_rest is not None:
            self._end_of_rest.cancel()
        if not self._wake_at(enough):
            return False
        self._end_of_rest = self._loop.call_later(seconds, self._rested)
        return True

    def wake(self) -> None:
        """Ends the rest, where there is one."""
        if self._end_of_rest is not None:
            self._end_of_rest.cancel()
            self._rested()

    def data_received(self, data: bytes) -> None:
        self.wake()  # enough has come; what another request brings is not to wait
        super().data_received(data)

    def set_exception(self, exc: BaseException, exc_cause: BaseException = _EXC_SENTINEL) -> None:
        """As aiohttp's, which tells whoever waits for a response, but not whoever reads a body in which a chunk is none (3.14)."""
        super().set_exception(exc, exc_cause)
        if isinstance(exc, HttpProcessingError) and self._payload is not None and self._payload.exception() is None:
            self._payload.set_exception(ClientPayloadError(f"Response payload is not completed: {exc!r}"), exc)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._end_of_rest is not None:
            self._end_of_rest.cancel()
            self._end_of_rest = None
        super().connection_lost(exc)

    def _rested(self) -> None:
        self._end_of_rest = None
        self._wake_at(1)

    def _wake_at(self, count: int) -> bool:
        """Has the system report what arrives from so many bytes on, and the end of the connection."""
        lent = self._lent()
        if lent is None:
            return False
        try:
            lent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
        except OSError:  # a system that does not know it
            return False
        return True

    def hang_up(self) -> None:
        """Tells the other side now that nothing is read or sent any more. To be closed next, which takes a turn of the loop longer."""
        if (lent := self._lent()) is not None:
            held = socket.socket(fileno=lent.fileno())  # an event loop's own lends no `shutdown`
            try:
                with suppress(OSError):
                    held.shutdown(socket.SHUT_RDWR)
            finally:
                held.detach()

    def _lent(self) -> Any | None:
        """The socket; None where it is closed. TLS lends none from the turn on in which the connection breaks."""
        lent = self.transport.get_extra_info("socket") if self.transport is not None else None
        return lent if lent is not None and lent.fileno() >= 0 else None

    def resume_reading(self, resume_parser: bool = True) -> None:
        if self._reading_paused:
            super().resume_reading(resume_parser)


def _head_of(answered: ClientResponse) -> httpx2.Response:
    """A response without its body, as the SDK's client reads it."""
    return httpx2.Response(answered.status, headers=answered.raw_headers)
