"""Leaving tears nothing: no scope entered in one task and left in another, no word after the end. FIELD_REPORTS B1, B8."""

import logging

import anyio
import pytest

from tests.support.flood import Flood
from tests.support.gateway_app import Spans, eventually, running, scripted_house, with_parts
from tests.support.leftovers import assert_nothing_is_left, is_parked
from tests.support.raw_client import Narrow, read_until, request_bytes

pytestmark = pytest.mark.anyio


async def test_client_that_leaves_while_the_server_is_parked_in_send_breaks_no_scope(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """B1: a body generator that held a task group would end in RuntimeError or a group of GeneratorExit."""
    caplog.set_level(logging.INFO)
    spans, flood = Spans(), Flood()
    house = with_parts(scripted_house(processors=[spans]), generator=flood)
    async with running(house, narrow=True) as server:
        for _ in range(5):
            stream = Narrow(server.port)
            stream.ask("Is it?")
            await stream.read_until(b"event: token")
            await eventually(lambda: is_parked(server), 20)
            stream.reset()
            await assert_nothing_is_left(server, spans)
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("mark", [b"event: started", b'"grading"', b"event: token"])
async def test_nothing_is_said_in_the_cleanup_of_a_client_that_left(
    mark: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """B8: a terminal event yielded in a `finally` is "async generator ignored GeneratorExit"."""
    caplog.set_level(logging.INFO)
    spans = Spans()
    async with running(scripted_house(processors=[spans])) as server:
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(leave_at, server.port, mark)
        await assert_nothing_is_left(server, spans)
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []
    roots = [span for span in spans.ended if span.parent is None]
    assert {(root.attributes or {})["gateway.path"] for root in roots} == {"abandoned"}


async def leave_at(port: int, mark: bytes) -> None:
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(request_bytes("Is it? [[grade_ms=200 ttft_ms=1 tps=20 tokens=5000]]"))
        await read_until(stream, mark)
