"""A stream on its connection: pings between its chunks, nothing before its head or after its end; and under another server than ours."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.app import application
from gateway.house import House
from gateway.server import listen
from gateway.sse import SseSettings
from streaming.wire.format import PING
from tests.support.clients import ask
from tests.support.gateway_app import Spans, eventually, running, scripted_house
from tests.support.leftovers import assert_nothing_is_left
from tests.support.raw_client import read_until, request_bytes

pytestmark = pytest.mark.anyio

OFTEN = SseSettings(ping_s=0.01)
END = b"0\r\n\r\n"


def chunks(body: bytes) -> list[bytes]:
    """The chunks of a whole chunked body."""
    found: list[bytes] = []
    while body != END:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        found.append(rest[:length])
        assert rest[length : length + 2] == b"\r\n"
        body = rest[length + 2 :]
    return found


async def test_ping_is_a_chunk_of_its_own_between_two_others() -> None:
    async with (
        running(replace(scripted_house(), sse=OFTEN)) as server,
        await anyio.connect_tcp("127.0.0.1", server.port) as stream,
    ):
        await stream.send(request_bytes("Is it? [[grade_ms=1 ttft_ms=100 tps=400 tokens=100]]"))
        _, _, body = (await read_until(stream, END)).partition(b"\r\n\r\n")
    said = chunks(body)
    assert said.count(PING) >= 5
    others = [chunk for chunk in said if chunk != PING]
    assert all(chunk.startswith(b"id: ") and chunk.endswith(b"\n\n") and PING not in chunk for chunk in others)
    assert re.findall(rb"event: (\w+)\n", b"".join(others))[-1] == b"done"


def slow_to_begin(app: ASGIApp) -> ASGIApp:
    """A middleware that keeps the head of a response back for several pings."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def late(message: Message) -> None:
            if message["type"] == "http.response.start":
                await anyio.sleep(0.1)
            await send(message)

        await app(scope, receive, late)

    return wrapped


async def test_no_ping_comes_before_the_head_or_after_the_end() -> None:
    async with (
        running(replace(scripted_house(), sse=OFTEN), wrap=slow_to_begin) as server,
        await anyio.connect_tcp("127.0.0.1", server.port) as stream,
    ):
        for _ in range(2):
            await stream.send(request_bytes("Is it?"))
            assert (await read_until(stream, END)).startswith(b"HTTP/1.1 200")
            with anyio.move_on_after(0.1) as silence:
                await stream.receive()
            assert silence.cancelled_caught


def after_it_left(app: ASGIApp) -> ASGIApp:
    """A middleware that passes a request on when its client has left."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        said = await receive()
        assert not said["more_body"]
        while (message := await receive())["type"] != "http.disconnect":
            pass
        rest = iter([said])

        async def replay() -> Message:
            return next(rest, message)

        await app(scope, replay, send)

    return wrapped


async def test_stream_of_a_client_that_has_left_is_not_begun() -> None:
    spans = Spans()
    async with running(scripted_house(processors=[spans]), wrap=after_it_left) as server:
        async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
            await stream.send(request_bytes("Is it? [[grade_ms=60000]]"))
            await eventually(lambda: server.server.server_state.tasks)
        await eventually(lambda: spans.ended)
        await assert_nothing_is_left(server, spans)
    (root,) = spans.ended
    assert root.attributes is not None
    assert root.attributes["gateway.outcome"] == "client_gone"


async def test_head_request_for_kept_events_ends_with_its_head() -> None:
    async with running(scripted_house()) as server:
        told = await ask(server.base_url, "Is it?", options={"resumable": True})
        path = f"/v1/answers/{told.one('started')['answer_id']}/events"
        async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
            await stream.send(f"HEAD {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            head = await read_until(stream, b"\r\n\r\n")
            await stream.send(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            seen = await read_until(stream, b'{"status":"ok"}')
    assert head.startswith(b"HTTP/1.1 200")
    assert b"content-type: text/event-stream" in head.lower()
    assert seen.startswith(b"HTTP/1.1 200")


class Elsewhere(uvicorn.Server):
    """uvicorn as it comes, but for signals, which are the tests'."""

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[int]:
        """The port that it serves on inside the block."""
        listener = listen("127.0.0.1", 0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._serve, [listener])
            await eventually(lambda: self.started)
            yield listener.getsockname()[1]
            self.should_exit = True


@asynccontextmanager
async def elsewhere(house: House) -> AsyncIterator[int]:
    """`house` under a server that hands out no connections: its port."""
    config = uvicorn.Config(application(house), http="httptools", ws="none", lifespan="off", log_config=None)
    async with Elsewhere(config).at_work() as port:
        yield port
    await house.telemetry.aclose()


async def test_another_server_streams_an_answer_with_its_pings_and_lets_go_of_one_that_is_left() -> None:
    spans = Spans()
    house = replace(scripted_house(processors=[spans]), sse=OFTEN)
    async with elsewhere(house) as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(request_bytes("Is it? [[grade_ms=100]]"))
            _, _, body = (await read_until(stream, END)).partition(b"\r\n\r\n")
        said = b"".join(chunks(body))
        assert PING in said
        assert re.findall(rb"event: (\w+)\n", said)[-1] == b"done"
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(request_bytes("Is it? [[grade_ms=1 ttft_ms=1 tps=20 tokens=5000]]"))
            await read_until(stream, b"event: token")
        await eventually(lambda: not house.open_answers.count and not spans.open)
