"""Cancelling a draft or a grade closes its connection at once, seen from the server's side (invariants 5 and 9)."""

import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anthropic import AsyncAnthropic

from gateway.bench.messages_api import MessagesApi, messages_api
from gateway.providers.claude.client import open_client
from gateway.providers.claude.generator import AnthropicGenerator
from gateway.providers.claude.grader import AnthropicGrader
from gateway.providers.script import Script
from tests.support.generators import prompt, read
from tests.support.graders import passages

pytestmark = pytest.mark.anyio

QUICK = Script(ttft_ms=5, tps=2000, tokens=25)
CLOSED_LIMIT_S = 2.0  # 2 ms on a quiet machine; doing nothing takes 10 s or more


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the SDK's


@asynccontextmanager
async def api_and_client() -> AsyncIterator[tuple[MessagesApi, AsyncAnthropic]]:
    async with messages_api(QUICK) as api:
        client = open_client("a-key", api.base_url, connect_s=5, read_s=30)
        try:
            yield api, client
        finally:
            await client.close()


async def closed_after(api: MessagesApi, cancelled_s: float) -> float:
    """Seconds from `cancelled_s` until the server saw the first exchange closed."""
    await api.wait_until(lambda log: log[0].closed_s is not None)
    closed_s = api.log[0].closed_s
    assert closed_s is not None
    return closed_s - cancelled_s


@pytest.mark.parametrize("marker", ["fault=stall", "fault=stall@0", "fault=stall@10", "tokens=1000 tps=100"])
async def test_a_cancelled_draft_closes_its_connection_at_once(marker: str) -> None:
    async with api_and_client() as (api, client), anyio.create_task_group() as tasks:
        generator = AnthropicGenerator(client, "claude-scripted")

        async def draft() -> None:
            await read(await generator.draft(prompt(f"q [[{marker}]]")))

        tasks.start_soon(draft)
        wanted = 10 if "@10" in marker or "tps" in marker else 0
        await api.wait_until(lambda log: bool(log) and log[0].tokens >= wanted)
        cancelled_s = time.monotonic()
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            assert await closed_after(api, cancelled_s) < CLOSED_LIMIT_S
            assert not api.log.open


async def test_closing_while_nobody_reads_closes_the_connection_at_once() -> None:
    async with api_and_client() as (api, client):
        draft = await AnthropicGenerator(client, "c").draft(
            prompt("q [[tokens=100000 tps=1e6 cite=0]]", max_tokens=100_000)
        )
        await anext(aiter(draft))
        await api.wait_until(lambda log: log[0].tokens > 10)
        await settled(api)
        closed_s = time.monotonic()
        await draft.aclose()
        assert await closed_after(api, closed_s) < CLOSED_LIMIT_S
        assert api.log[0].tokens < 100_000  # back-pressure: the server could not write it all


async def settled(api: MessagesApi) -> None:
    """Returns when the server can write no more, because the sockets' buffers are full."""
    written = -1
    with anyio.fail_after(10):
        while written != api.log[0].tokens:
            written = api.log[0].tokens
            await anyio.sleep(0.1)


@pytest.mark.parametrize("marker", ["grader_fault=stall", "grade_ms=60000"])
async def test_a_cancelled_grade_closes_its_connection_at_once(marker: str) -> None:
    async with api_and_client() as (api, client), anyio.create_task_group() as tasks:
        tasks.start_soon(AnthropicGrader(client, "claude-scripted").grade, f"q [[{marker}]]", passages())
        await api.wait_until(lambda log: len(log) == 1)
        cancelled_s = time.monotonic()
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            assert await closed_after(api, cancelled_s) < CLOSED_LIMIT_S


async def test_drafts_cancelled_at_any_moment_leave_nothing_open() -> None:
    moments = random.Random(7)
    async with api_and_client() as (api, client):
        generator = AnthropicGenerator(client, "claude-scripted")
        for n in range(60):
            with anyio.move_on_after(moments.uniform(0, 0.03)):
                await read(await generator.draft(prompt(f"q{n} [[ttft_ms=3 tps=1500]]")))
        await api.wait_until(lambda log: not log.open)
        assert len(await read(await generator.draft(prompt("still there?")))) > 1
        assert len(api.connections) <= 1  # none but the one kept for the next request
        assert any(exchange.closed_s for exchange in api.log)
        assert any(exchange.finished_s for exchange in api.log)
