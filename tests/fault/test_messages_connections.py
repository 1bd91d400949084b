"""The connections to the Messages API: what aiohttp does for every chunk of a body is left out, and nothing that anyone needs with it."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest
from anthropic import APIConnectionError
from anyio.lowlevel import checkpoint

from gateway.providers.claude.client import open_client, post_message
from gateway.providers.claude.connections import Reading
from gateway.providers.claude.generator import AnthropicGenerator
from tests.support.generators import prompt

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
CHUNK = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
CHUNKS = 64  # 4 MiB: more than aiohttp, and the sockets, hold unread


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def service(answer: Callable[[bytes], bytes]) -> AsyncIterator[str]:
    """A server that answers the head of a request; its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.partition(b":")[2]))
                writer.write(answer(head))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        with anyio.fail_after(20):
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        with anyio.fail_after(5):
            await server.wait_closed()


async def test_a_body_that_is_read_more_slowly_than_it_comes_is_paused_and_comes_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[Reading] = []
    pause = Reading.pause_reading

    def noted(self: Reading) -> None:
        pauses.append(self)
        pause(self)

    monkeypatch.setattr(Reading, "pause_reading", noted)
    body = OK + b"transfer-encoding: chunked\r\n\r\n" + CHUNK * CHUNKS + b"0\r\n\r\n"
    async with service(lambda _: body) as url:
        client = open_client("key", url, connect_s=2, read_s=5)
        try:
            response = await post_message(client, {}, stream=True)
            chunks = response.aiter_bytes()
            size = len(await anext(chunks))
            while not pauses:  # noqa: ASYNC110  what came meanwhile fills what may wait
                await anyio.sleep(0.001)
            async for chunk in chunks:
                size += len(chunk)
        finally:
            await client.close()
    assert size == 65_536 * CHUNKS


def test_a_reading_that_was_not_paused_is_not_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[bytes] = []
    monkeypatch.setattr(Reading, "data_received", lambda _, data: looked.append(data))
    loop = asyncio.new_event_loop()
    try:
        reading = Reading(loop)
        reading.resume_reading()
        assert looked == []
        reading._reading_paused = True
        reading.resume_reading()
        assert looked == [b""]  # what was kept back by the parser is parsed now
    finally:
        loop.close()


async def test_a_request_that_is_sent_elsewhere_is_followed_as_the_sdk_follows_it() -> None:
    heads: list[bytes] = []

    def answer(head: bytes) -> bytes:
        heads.append(head.partition(b"\r\n")[0])
        if b"/elsewhere" in heads[-1]:
            return OK + b"content-length: 2\r\n\r\n{}"
        return b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n"

    async with service(answer) as url:
        client = open_client("key", url, connect_s=2, read_s=5)
        try:
            response = await post_message(client, {"model": "one"}, stream=False)
        finally:
            await client.close()
    assert response.json() == {}
    assert heads[-1] == b"POST /elsewhere HTTP/1.1"
    assert heads.count(heads[-1]) == 1


async def test_an_address_that_nobody_can_have_is_the_sdk_s_error() -> None:
    client = open_client("key", "http://127.0.0.1:99999", connect_s=2, read_s=5)
    try:
        for _ in range(2):
            with pytest.raises(APIConnectionError):
                await post_message(client, {"model": "one"}, stream=True)
    finally:
        await client.close()


def event(name: str, **fields: object) -> bytes:
    """One event of a Messages stream, a chunk of a body."""
    line = f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(line), line)


async def test_a_draft_that_is_cut_is_hung_up_on_before_anything_else_has_its_turn() -> None:
    """The other side sees the end of the connection while this event loop stands still."""
    said = [
        event("message_start", message={"usage": {"input_tokens": 1, "output_tokens": 1}}),
        event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Well"}),
    ]

    def begun() -> socket.socket:
        connection, _ = listener.accept()
        connection.settimeout(5)
        connection.recv(65_536)
        connection.sendall(
            OK.replace(b"application/json", b"text/event-stream") + b"transfer-encoding: chunked\r\n\r\n"
        )
        connection.sendall(b"".join(said))
        return connection

    with socket.create_server(("127.0.0.1", 0)) as listener, anyio.fail_after(20):
        listener.settimeout(5)
        client = open_client("key", f"http://127.0.0.1:{listener.getsockname()[1]}", connect_s=2, read_s=5)
        try:
            accepted: list[socket.socket] = []
            async with anyio.create_task_group() as tasks:

                async def accept() -> None:
                    accepted.append(await anyio.to_thread.run_sync(begun))

                tasks.start_soon(accept)
                draft = await AnthropicGenerator(client, "claude-scripted").draft(prompt("q"))
            await anext(aiter(draft))
            with accepted[0] as connection:
                connection.setblocking(False)
                with pytest.raises(BlockingIOError):
                    connection.recv(1)
                draft.cut()
                assert connection.recv(1) == b""
            await draft.aclose()
        finally:
            await client.close()


def nameless(kind: int) -> ssl.SSLContext:
    """TLS without certificates: none has to be made."""
    context = ssl.SSLContext(kind)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ADH:AECDH:@SECLEVEL=0")
    return context


async def test_a_connection_over_tls_may_be_hung_up_on_in_any_turn_in_which_it_breaks() -> None:
    """For one turn its protocol has not been told yet, and nothing lends its socket any more."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=nameless(ssl.PROTOCOL_TLS_SERVER))
    loop = asyncio.get_running_loop()
    try:
        with anyio.fail_after(20):
            _, reading = await loop.create_connection(
                partial(Reading, loop),
                "127.0.0.1",
                server.sockets[0].getsockname()[1],
                ssl=nameless(ssl.PROTOCOL_TLS_CLIENT),
            )
            assert reading.transport is not None
            while reading.transport is not None:
                reading.hang_up()
                await checkpoint()
    finally:
        server.close()
        with anyio.fail_after(5):
            await server.wait_closed()
