"""A connection that rests: the system keeps what arrives, and nobody wakes up for it before the rest is over or enough has come."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest

from gateway.providers.claude.connections import Reading
from tests.fault.test_messages_connections import nameless
from tests.support.gateway_app import eventually

pytestmark = pytest.mark.anyio

LONG_S = 30.0  # a rest that no test waits out
ENOUGH = 4_096
SMALL = b"a token"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What each wake-up of a reader brought."""
    seen: list[bytes] = []
    take = Reading.data_received

    def noted(self: Reading, data: bytes) -> None:
        seen.append(data)
        take(self, data)

    monkeypatch.setattr(Reading, "data_received", noted)
    return seen


@asynccontextmanager
async def connected(kind: str) -> AsyncIterator[tuple[Reading, asyncio.StreamWriter]]:
    """A reader's end of a connection, plain or over TLS, and the other one."""
    accepted = asyncio.Queue[asyncio.StreamWriter]()
    is_tls = kind == "tls"

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.put_nowait(writer)

    server = await asyncio.start_server(
        accept, "127.0.0.1", 0, ssl=nameless(ssl.PROTOCOL_TLS_SERVER) if is_tls else None
    )
    loop = asyncio.get_running_loop()
    try:
        with anyio.fail_after(20):
            transport, reading = await loop.create_connection(
                partial(Reading, loop),
                "127.0.0.1",
                server.sockets[0].getsockname()[1],
                ssl=nameless(ssl.PROTOCOL_TLS_CLIENT) if is_tls else None,
            )
            writer = await accepted.get()
            writer.write(SMALL)  # over TLS what is agreed on after the handshake has come with it
            await eventually(lambda: reading._tail == SMALL)
            yield reading, writer
            writer.close()
            transport.close()
    finally:
        server.close()
        with anyio.fail_after(5):
            await server.wait_closed()


both = pytest.mark.parametrize("kind", ["plain", "tls"])


@both
async def test_what_comes_in_a_rest_wakes_nobody_and_is_one_read(kind: str, reads: list[bytes]) -> None:
    async with connected(kind) as (reading, writer):
        reads.clear()
        assert reading.rest(0.3, ENOUGH)
        for _ in range(5):
            writer.write(SMALL)
            await anyio.sleep(0.01)
        assert reads == []
        await eventually(lambda: b"".join(reads) == SMALL * 5)
        assert len(reads) == 1 or kind == "tls"  # whose records are taken apart one by one


@both
async def test_enough_ends_a_rest_and_nothing_after_it_waits(kind: str, reads: list[bytes]) -> None:
    async with connected(kind) as (reading, writer):
        assert reading.rest(LONG_S, ENOUGH)
        reads.clear()
        writer.write(b"x" * ENOUGH)
        await eventually(lambda: sum(map(len, reads)) == ENOUGH)
        writer.write(SMALL)
        await eventually(lambda: reads[-1] == SMALL)


@both
async def test_a_rest_that_is_followed_by_a_longer_one_does_not_end_it(kind: str, reads: list[bytes]) -> None:
    async with connected(kind) as (reading, writer):
        assert reading.rest(0.02, ENOUGH)
        assert reading.rest(LONG_S, ENOUGH)
        reads.clear()
        writer.write(SMALL)
        await anyio.sleep(0.1)
        assert reads == []


@both
async def test_the_end_of_a_connection_is_noticed_in_a_rest(kind: str) -> None:
    async with connected(kind) as (reading, writer):
        assert reading.rest(LONG_S, ENOUGH)
        writer.transport.abort()
        await eventually(lambda: reading.transport is None)
        assert not reading.rest(LONG_S, ENOUGH)
