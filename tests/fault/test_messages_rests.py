"""A connection that rests: the system keeps what arrives, and nobody wakes up for it before the rest is over or enough has come."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import anyio
import pytest

from gateway.providers.claude.client import open_client
from gateway.providers.claude.connections import Reading
from gateway.providers.claude.generator import AnthropicDraft, AnthropicGenerator
from gateway.providers.claude.rest import Rest
from streaming.faults import AnswerIncomplete
from tests.fault.test_messages_connections import OK, event, nameless
from tests.support.gateway_app import eventually
from tests.support.generators import prompt

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


@asynccontextmanager
async def drafts(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[AnthropicGenerator]:
    """A generator beside whose drafts many others are open; `serve` is its service."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = open_client("key", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", connect_s=5, read_s=5)
    rest = Rest(LONG_S)
    for _ in range(100):
        rest.begin()
    try:
        with anyio.fail_after(20):
            yield AnthropicGenerator(client, "claude-scripted", rest=rest)
    finally:
        await client.close()
        server.close()
        with anyio.fail_after(5):
            await server.wait_closed()


def has_unread(draft: AnthropicDraft) -> bool:
    """Whether something has come that was not read yet."""
    content = draft._body._content
    return content is not None and content._size > 0


def is_lost(draft: AnthropicDraft) -> bool:
    """Whether its connection is known to be gone."""
    reading = draft._body._reading
    return reading is not None and reading.transport is None


BEGUN = (
    OK.replace(b"application/json", b"text/event-stream")
    + b"transfer-encoding: chunked\r\n\r\n"
    + event("message_start", message={"usage": {"input_tokens": 1, "output_tokens": 1}})
    + event("content_block_start", index=0, content_block={"type": "text", "text": ""})
)
WORD = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Well "})
STOPPED = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 1}) + event("message_stop")


async def test_a_rest_that_began_with_something_to_read_hides_no_end_of_a_body() -> None:
    """The reader is slow: the last event waits for it inside this process, and the last chunk of the body comes thereafter."""
    connections, may_stop, may_end = list[asyncio.StreamWriter](), asyncio.Queue[None](), asyncio.Queue[None]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b'"stream":true}'):
                writer.write(BEGUN + WORD)
                await may_stop.get()
                writer.write(WORD)
                await may_stop.get()
                writer.write(STOPPED)
                await may_end.get()
                writer.write(b"0\r\n\r\n")
        writer.close()

    async with drafts(serve) as generator:
        for _ in range(3):
            draft = await generator.draft(prompt("q"))
            await anext(aiter(draft))
            may_stop.put_nowait(None)
            await anext(aiter(draft))  # its second read is followed by a rest
            may_stop.put_nowait(None)
            await eventually(partial(has_unread, draft))
            asyncio.get_running_loop().call_later(0.01, may_end.put_nowait, None)
            with anyio.fail_after(5):
                async for _ in draft:
                    pass
            await draft.aclose()
    assert len(connections) == 1


async def test_a_connection_that_broke_before_a_rest_is_not_slept_over() -> None:
    may_break = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b'"stream":true}')
        writer.write(BEGUN + WORD)
        await may_break.wait()
        writer.write(WORD)
        await writer.drain()
        writer.transport.abort()

    async with drafts(serve) as generator:
        draft = await generator.draft(prompt("q"))
        await anext(aiter(draft))
        may_break.set()
        await anext(aiter(draft))
        await eventually(partial(is_lost, draft))
        with anyio.fail_after(5), pytest.raises(AnswerIncomplete):
            await anext(aiter(draft))
        await draft.aclose()
