"""The body of a response: read as it arrives, left to rest, given back or cut."""

from collections.abc import AsyncIterator
from contextlib import suppress

import httpx2
from aiohttp import ClientResponse, StreamReader
from anthropic._vendor.httpx_aiohttp.transport import map_aiohttp_exceptions

from gateway.providers.claude.connections import Reading


class Body:
    """The body of an open response; to be closed with `aclose`, also after `cut`. One task reads."""

    __slots__ = ("_answered", "_chunks", "_content", "_reading", "_response")

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self._answered = _answered(response)
        connection = self._answered.connection if self._answered is not None else None
        reading = connection.protocol if connection is not None else None
        self._reading = reading if isinstance(reading, Reading) else None
        self._content: StreamReader | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        if self._answered is None or "content-encoding" in response.headers:
            self._chunks = response.aiter_bytes()
        else:  # what was not encoded, as was asked for, does not pass what would decode and measure it
            self._content = self._answered.content

    async def read(self) -> bytes:
        """All that has come, when something has; nothing at the end. Raises what the SDK's HTTP client raises.

        On cancellation what has come stays to be read, but for a body that is encoded, which is then over.
        """
        if self._content is None:
            assert self._chunks is not None
            return await anext(self._chunks, b"")
        try:
            return await self._content.readany()
        except Exception:
            with map_aiohttp_exceptions():
                raise

    @property
    def has_come(self) -> bool:
        """Whether it has come to its end, whole or broken, read or not: then its connection is another request's, or nobody's."""
        content = self._answered.content if self._answered is not None else None
        return content is not None and (content.is_eof() or content.exception() is not None)

    def rest(self, seconds: float, enough: int) -> bool:
        """Has the next `read` return after so long, or once so many bytes have come; False where nobody can see to that."""
        return (reading := self._own) is not None and reading.rest(seconds, enough)

    def wake(self) -> None:
        """Ends the rest: what comes next is read as it comes."""
        if (reading := self._own) is not None:
            reading.wake()

    def cut(self) -> None:
        """Closes the connection now: what the close does before it waits for anything is that."""
        if (reading := self._own) is not None:
            reading.hang_up()
        closing = self._response.aclose()
        with suppress(StopIteration, httpx2.RequestError):
            closing.send(None)
        closing.close()

    async def aclose(self) -> None:
        """Closes the connection, unless all was read: then it is free for the next request. Raises what the HTTP client raises."""
        await self._response.aclose()
        if self._chunks is not None:
            await self._chunks.aclose()  # type: ignore[attr-defined]  # a generator

    @property
    def _own(self) -> Reading | None:
        """Who reads the connection, while it is this response's; None where that is not one of ours."""
        return self._reading if self._answered is not None and self._answered.connection is not None else None


def _answered(response: httpx2.Response) -> ClientResponse | None:
    """aiohttp's own response, which the SDK's transport reads; None where another transport brought it."""
    stream = getattr(response.stream, "_stream", response.stream)  # the SDK's client puts its own around it
    found = getattr(stream, "_aiohttp_response", None)
    return found if isinstance(found, ClientResponse) else None
