"""Clients that neither read nor leave: a send time-out ends them, and nobody else notices. FIELD_REPORTS A4."""

import logging
from dataclasses import replace

import anyio
import pytest

from gateway.providers.scripted import ScriptedGenerator
from gateway.sse import SseSettings
from streaming.ports import Draft, Prompt
from tests.support.clients import ask
from tests.support.flood import Flood
from tests.support.gateway_app import QUICK, Spans, running, scripted_house, with_parts
from tests.support.leftovers import assert_nothing_is_left
from tests.support.raw_client import Narrow, read_until, request_bytes

pytestmark = pytest.mark.anyio

FROZEN = 20


class FloodsSome:
    """Floods those who ask for it, answers everyone else."""

    name = "floods-some"

    def __init__(self) -> None:
        self.flood = Flood()
        self._other = ScriptedGenerator(QUICK)

    @property
    def open_drafts(self) -> int:
        return self.flood.open_drafts + self._other.open_drafts

    async def draft(self, prompt: Prompt) -> Draft:
        return await (self.flood.draft(prompt) if "flood" in prompt.question else self._other.draft(prompt))


async def test_frozen_readers_are_dropped_and_healthy_ones_unaffected(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    spans, generator = Spans(), FloodsSome()
    house = with_parts(scripted_house(processors=[spans]), generator=generator)
    async with running(replace(house, sse=SseSettings(send_timeout_s=1.0)), narrow=True) as server:
        frozen = [Narrow(server.port) for _ in range(FROZEN)]
        for stream in frozen:
            stream.ask("flood")
        for stream in frozen:
            await stream.read_until(b"event: token")
        for n in range(10):
            told = await ask(server.base_url, f"Is it {n}?")
            assert told.one("done")["path"] == "clean"
        await assert_nothing_is_left(server, spans)  # with their sockets still open on the clients' side
        for stream in frozen:
            stream.reset()
    assert [record.name for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert sum("did not read" in record.message for record in caplog.records) == FROZEN


async def test_ping_keeps_a_silent_stream_alive_and_is_no_event() -> None:
    house = replace(scripted_house(), sse=SseSettings(ping_s=0.05))
    async with running(house) as server:
        async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
            await stream.send(request_bytes("Is it? [[grade_ms=60000]]"))
            await read_until(stream, b": ping\n")
        told = await ask(server.base_url, "Is it? [[grade_ms=300]]")
    assert told.one("done")["path"] == "clean"
    assert set(told.names) == {"started", "status", "sources", "token", "citation", "done"}
