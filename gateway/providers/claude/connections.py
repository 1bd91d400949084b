"""The connections to the model's service: aiohttp's, as the SDK offers them, without what ours have no use for.

Of a request: credentials besides its headers, cookies, hooks and measuring, 0.1 ms. Of a token: to resume a reading that was not paused,
which is a look into the parser, a new time limit and a word with the transport after each chunk of a body (aiohttp 3.14), 6 microseconds.
"""

import socket
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import httpx2
from aiohttp import ClientResponse, ClientSession, TCPConnector
from aiohttp.client_proto import ResponseHandler
from anthropic import DefaultAioHttpClient

if TYPE_CHECKING:
    from anthropic._vendor.httpx_aiohttp.transport import AiohttpTransport


class Connections(DefaultAioHttpClient):
    """The SDK's HTTP client over aiohttp. Environment, proxies and certificates are its business; close it with `aclose`."""

    async def send(self, request: httpx2.Request, *, stream: bool = False, **given: Any) -> httpx2.Response:
        """As the SDK's client does. What is redirected is sent again by that, which follows; nothing was done with it yet."""
        response = await self._transport_for_url(request.url).handle_async_request(request)
        response.request = request
        try:
            if response.has_redirect_location:
                await response.aclose()
                return await super().send(request, stream=stream, **given)
            if not stream:
                await response.aread()
        except BaseException:
            await response.aclose()
            raise
        return response

    def _init_transport(self, *given: Any, **named: Any) -> httpx2.AsyncBaseTransport:
        """The SDK's own transport, over connections of ours. Those through a proxy stay as they are."""
        transport = cast("AiohttpTransport", super()._init_transport(*given, **named))
        transport.client = partial(_session, transport)
        return transport


def _session(transport: "AiohttpTransport") -> ClientSession:
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

    __slots__ = ()

    def rest(self, seconds: float) -> None:
        """For so long nothing is taken from the connection: what arrives stays with the system, and is then one read.

        A new request on the connection ends it; so does the end of the connection.
        """
        self._pause_reading_for_buffer()
        self._loop.call_later(seconds, self._resume_reading_for_buffer)

    def hang_up(self) -> None:
        """Tells the other side now that nothing is read or sent any more. To be closed next, which takes a turn of the loop longer."""
        lent = self.transport.get_extra_info("socket") if self.transport is not None else None
        if lent is not None and lent.fileno() >= 0:  # TLS lends none from the turn on in which the connection breaks
            held = socket.socket(fileno=lent.fileno())  # an event loop's own lends no `shutdown`
            try:
                with suppress(OSError):
                    held.shutdown(socket.SHUT_RDWR)
            finally:
                held.detach()

    def resume_reading(self, resume_parser: bool = True) -> None:
        if self._reading_paused:
            super().resume_reading(resume_parser)


def has_come(response: httpx2.Response) -> bool:
    """Whether the body of a `response` has come to its end, read or not: then its connection is another request's."""
    answered = _answered(response)
    return answered is not None and answered.content.is_eof()


def reading_of(response: httpx2.Response) -> Reading | None:
    """Who reads the connection of an open `response`; None where that is not one of ours."""
    answered = _answered(response)
    connection = answered.connection if answered is not None else None
    return connection.protocol if connection is not None and isinstance(connection.protocol, Reading) else None


def _answered(response: httpx2.Response) -> ClientResponse | None:
    """aiohttp's own response, which the SDK's transport reads; None where another transport brought it."""
    found = getattr(response.stream, "_aiohttp_response", None)
    return found if isinstance(found, ClientResponse) else None
