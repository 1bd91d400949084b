"""Real clients against a real port: one gateway for all tests of a module, on the loop that `gateway serve` uses."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from gateway.sse import SseSettings
from tests.support.gateway_app import Running, running, scripted_house

PING_S = 0.05  # pings come in every silence, so that a client that chokes on one does so here


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
async def gateway(anyio_backend: object) -> AsyncIterator[Running]:
    async with running(replace(scripted_house(), sse=SseSettings(ping_s=PING_S))) as server:
        yield server
