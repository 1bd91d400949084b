"""What a client can do to a connection without ever being a request: flood, trickle, send ahead, talk nonsense."""

import json
import logging
import os
from collections.abc import AsyncIterator

import anyio
import psutil
import pytest
from anyio.abc import SocketStream

from gateway import connection
from tests.support.clients import ask
from tests.support.gateway_app import Running, Spans, eventually, running, scripted_house
from tests.support.leftovers import assert_nothing_is_left
from tests.support.raw_client import Narrow, read_until, request_bytes

pytestmark = pytest.mark.anyio

HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
MEBIBYTE = 1_048_576


@pytest.fixture
async def server() -> AsyncIterator[Running]:
    async with running(scripted_house()) as running_server:
        yield running_server


async def read_to_end(stream: SocketStream) -> bytes:
    """Everything until the server closes; a reset is an end too."""
    seen = b""
    with anyio.fail_after(10):
        try:
            while True:
                seen += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return seen


async def send_until_closed(stream: SocketStream, piece: bytes, limit_bytes: int) -> int:
    """How much could be sent before the server closed."""
    sent = 0
    try:
        while sent < limit_bytes:
            await stream.send(piece)
            sent += len(piece)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass
    return sent


def error_type(response: bytes) -> str:
    """The type in a refusal's body, after what holds of every refusal on a connection that ends with it."""
    head, _, body = response.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head
    assert b"connection: close" in head
    kind: str = json.loads(body)["error"]["type"]
    return kind


@pytest.mark.parametrize("stream_it", [True, False])
async def test_client_that_sent_ahead_and_leaves_takes_its_request_along(stream_it: bool) -> None:
    spans = Spans()
    async with running(scripted_house(processors=[spans])) as server:
        async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
            await stream.send(request_bytes("Is it? [[grade_ms=60000]]", stream=stream_it) + HEALTH)
            await eventually(lambda: server.house.open_answers.count == 1)
            await eventually(lambda: "attempt" in spans.open.values())
        await assert_nothing_is_left(server, spans)


async def test_what_was_sent_ahead_is_not_answered_and_the_connection_ends(server: Running) -> None:
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        await stream.send(request_bytes("Is it?") + HEALTH)
        seen = await read_to_end(stream)
    assert seen.count(b"HTTP/1.1 200") == 1
    assert seen.endswith(b"0\r\n\r\n")
    assert b"event: done" in seen


async def test_next_request_on_a_connection_is_answered(server: Running) -> None:
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        for _ in range(3):
            await stream.send(request_bytes("Is it?"))
            assert b"event: done" in await read_until(stream, b"0\r\n\r\n")
        await stream.send(b"\r\n" + HEALTH)  # some clients end a body with a line end that is not part of it
        await read_until(stream, b'{"status":"ok"}')


async def test_stream_on_a_connection_that_ends_with_it_says_close_and_nothing_else(server: Running) -> None:
    asked = request_bytes("Is it?").replace(b"host:", b"connection: close\r\nhost:", 1)
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        await stream.send(asked)
        head, _, body = (await read_to_end(stream)).partition(b"\r\n\r\n")
    assert [line for line in head.lower().split(b"\r\n") if line.startswith(b"connection:")] == [b"connection: close"]
    assert b"event: done" in body


@pytest.mark.parametrize("name", [b"Upgrade", b"upgrade"])
async def test_client_that_offers_http_2_is_answered_in_http_1(server: Running, name: bytes) -> None:
    """Java's own client offers it with every first request, body and all."""
    head, _, body = request_bytes("Is it?").partition(b"\r\n\r\n")
    offer = b"\r\nConnection: Upgrade, HTTP2-Settings\r\n" + name + b": h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n\r\n"
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        await stream.send(head + offer + body)
        seen = await read_until(stream, b"0\r\n\r\n")
        assert b"event: done" in seen
        await stream.send(HEALTH)
        await read_until(stream, b'{"status":"ok"}')


async def test_flood_of_requests_sent_ahead_is_never_held(server: Running) -> None:
    process = psutil.Process(os.getpid())
    before = process.memory_info().rss
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        sent = await send_until_closed(stream, HEALTH * 1000, 16 * MEBIBYTE)
        seen = await read_to_end(stream) if sent < 16 * MEBIBYTE else b""
    assert seen.count(b"HTTP/1.1 200") <= 2
    assert process.memory_info().rss - before < 48 * MEBIBYTE


async def test_nonsense_after_a_request_does_not_get_into_its_stream(server: Running) -> None:
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        await stream.send(request_bytes("Is it? [[grade_ms=300]]"))
        seen = await read_until(stream, b'"grading"')
        await stream.send(b"nonsense\r\n\r\n")
        seen += await read_to_end(stream)
    assert seen.count(b"HTTP/1.1") == 1
    assert b"event: done" in seen
    assert seen.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS to a port without it
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /v1/answers HTTP/1.1\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        b"POST /v1/answers HTTP/1.1\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"POST /v1/answers HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n{}",
    ],
    ids=["tls", "long path", "two lengths", "length and chunks", "length of no number"],
)
async def test_what_is_no_http_is_400_with_the_body_of_every_error(server: Running, nonsense: bytes) -> None:
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        await stream.send(nonsense)
        seen = await read_to_end(stream)
    assert seen.startswith(b"HTTP/1.1 400 ")
    assert error_type(seen) == "malformed_http"


@pytest.mark.parametrize(
    "piece", [b"x: " + b"a" * 65_536, b"x: y\r\n" * 10_000], ids=["one endless header", "endless headers"]
)
async def test_endless_head_is_431_and_is_never_held(server: Running, piece: bytes) -> None:
    process = psutil.Process(os.getpid())
    before = process.memory_info().rss
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        await stream.send(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n")
        seen, sent = b"", 0
        async with anyio.create_task_group() as tasks:

            async def send() -> None:
                nonlocal sent
                sent = await send_until_closed(stream, piece, 256 * MEBIBYTE)

            tasks.start_soon(send)
            seen = await read_to_end(stream)
    assert seen == b"" or error_type(seen) == "head_too_large"  # a reset may overtake what was said
    assert sent < 16 * MEBIBYTE
    assert process.memory_info().rss - before < 32 * MEBIBYTE


async def test_large_head_that_is_still_within_bounds_is_read(server: Running) -> None:
    told = await ask(server.base_url, "Is it?", headers={"x-large": "a" * 30_000})
    assert told.one("done")["path"] == "clean"


CHUNKED = b"POST /v1/answers HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"


async def test_body_in_broken_chunks_is_400_at_once(server: Running) -> None:
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        await stream.send(CHUNKED + b"2\r\n{")
        await eventually(lambda: server.house.open_answers.count == 1)
        await stream.send(b"}nonsense")
        assert error_type(await read_to_end(stream)) == "malformed_http"
    await eventually(lambda: server.house.open_answers.count == 0)


async def test_endless_trailers_end_the_connection(server: Running) -> None:
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        await stream.send(CHUNKED + b"2\r\n{}\r\n0\r\n")
        assert await send_until_closed(stream, b"x: " + b"a" * 65_536, 64 * MEBIBYTE) < 64 * MEBIBYTE
    await eventually(lambda: server.house.open_answers.count == 0)


@pytest.mark.parametrize(
    "begun",
    [b"", b"\r\n", b"GET /healthz HT", HEALTH[:-2], HEALTH + b"\r\n", HEALTH + b"GET"],
    ids=["nothing", "a line end", "half a line", "half a head", "a line end after a request", "half after a request"],
)
async def test_head_that_does_not_come_ends_the_connection(
    server: Running, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEAD_LIMIT_S", 0.2)
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        if begun:
            await stream.send(begun[: len(HEALTH)])
        if len(begun) > len(HEALTH):
            await read_until(stream, b'{"status":"ok"}')
            await stream.send(begun[len(HEALTH) :])
        seen = await read_to_end(stream)
    assert seen == b"" or error_type(seen) == "head_too_slow"
    assert server.server.server_state.connections == set()


async def test_body_that_trickles_after_its_response_ends_the_connection(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEAD_LIMIT_S", 0.2)
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        await stream.send(b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n")
        await read_until(stream, b"not_found")
        await stream.send(b"x")
        await read_to_end(stream)
    assert server.server.server_state.connections == set()


async def test_slow_answer_outlives_the_limit_on_its_head(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_LIMIT_S", 0.1)
    told = await ask(server.base_url, "Is it? [[grade_ms=400]]")
    assert told.one("done")["path"] == "clean"


async def hardly_read(server: Running) -> Narrow:
    """A client whose answer is over, and that has read its first event alone."""
    stream = Narrow(server.port)
    stream.ask("Is it? [[tokens=500 tps=100000]]")
    await stream.read_until(b"event: started")
    await eventually(lambda: server.house.open_answers.count == 0)
    return stream


async def test_response_that_nobody_reads_to_its_end_is_dropped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its last bytes fit into the server's own buffer, so that no send waits for them."""
    monkeypatch.setattr(connection, "FLUSH_LIMIT_S", 0.2)
    async with running(scripted_house(), narrow=True) as server:
        stream = await hardly_read(server)
        await eventually(lambda: not server.server.server_state.connections)
        stream.reset()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_what_was_left_of_one_response_does_not_end_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much may wait of the second one when the first one's time is over, but the first was read."""
    monkeypatch.setattr(connection, "FLUSH_LIMIT_S", 0.5)
    async with running(scripted_house(), narrow=True) as server:
        stream = await hardly_read(server)
        monkeypatch.setattr(connection, "FLUSH_LIMIT_S", 30.0)
        await stream.read_until(b"event: done")
        stream.ask("Is it? [[tokens=1200 tps=100000]]")
        await stream.read_until(b"event: started")
        await eventually(lambda: server.house.open_answers.count == 0)
        await anyio.sleep(0.6)
        await stream.read_until(b"event: done")
        stream.reset()
