"""The requests that reach the Messages API are, byte for byte, those of the SDK itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product

import anyio
import httpx2
import pytest
from anthropic import AsyncAnthropic, DefaultAioHttpClient, Timeout

from gateway.providers.claude.client import HEADERS, STREAM_HEADERS, open_client, post_message

pytestmark = pytest.mark.anyio

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
BODIES: tuple[dict[str, object], ...] = (
    {"model": "one", "messages": []},
    {"model": "two", "messages": ["\u00fcber"]},
    {"model": "three"},
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Ear(asyncio.Protocol):
    """Answers every request and keeps its bytes."""

    def __init__(self, heard: list[bytes]) -> None:
        self._heard = heard
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        lengths = [
            line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        ]
        if found and len(body) >= int(lengths[0]):
            self._heard.append(self._received)
            self._received = b""
            self._transport.write(ANSWER)


@asynccontextmanager
async def ear() -> AsyncIterator[tuple[str, list[bytes]]]:
    heard: list[bytes] = []
    server = await asyncio.get_running_loop().create_server(lambda: Ear(heard), "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/behind/a/prefix", heard
    finally:
        server.close()
        with anyio.fail_after(5):
            await server.wait_closed()


def in_order(request: bytes) -> tuple[bytes, list[bytes], bytes]:
    """The request's first line, its headers sorted, and its body: the order of headers means nothing (RFC 9110, 5.3)."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    return first, sorted(line.split(b":", 1)[0].lower() + b":" + line.split(b":", 1)[1] for line in lines), body


@pytest.mark.parametrize("first", [False, True])
async def test_every_request_is_what_the_sdk_itself_would_send(first: bool) -> None:
    """Streams and others by turns, of one client: what is put together once is so for each kind."""
    async with ear() as (url, heard):
        ours = open_client("key", url, connect_s=2, read_s=7)
        timeout = Timeout(connect=2, pool=2, read=7, write=7)
        plain = AsyncAnthropic(
            api_key="key", base_url=url, timeout=timeout, max_retries=0, http_client=DefaultAioHttpClient()
        )
        try:
            for body, stream in product(BODIES, (first, not first)):
                response = await post_message(ours, body, stream=stream)
                assert await response.aread() == b"{}"
                again = await plain.post(
                    "/v1/messages",
                    cast_to=httpx2.Response,
                    content=heard[-1].partition(b"\r\n\r\n")[2],
                    options={"headers": STREAM_HEADERS if stream else HEADERS},
                )
                assert await again.aread() == b"{}"
                assert in_order(heard[-2]) == in_order(heard[-1])
        finally:
            await ours.close()
            await plain.close()
        assert len(heard) == 4 * len(BODIES)
        assert len(set(heard)) > 1
