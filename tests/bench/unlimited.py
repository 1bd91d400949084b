"""A model without delays: what an answer costs the gateway and a loop written by hand, and how many a second each gives.

Both are there all the time and are asked by turns, each on the same core; only one of them has anything to do.
"""

import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from gateway.bench.figures import Json
from tests.bench.core import Core
from tests.bench.crowd import load, port_of
from tests.bench.stage import messages_process, staged
from tests.support.gateway_process import ROOT, environment

SCRIPT = "[[grade_ms=0 ttft_ms=0 retrieve_ms=0 tps=1000000 tokens=200]]"
STREAMS, WARM = 16, 32
Name = Literal["gateway", "by_hand"]
ANSWERS: dict[Name, int] = {"gateway": 160, "by_hand": 48}  # of one turn, which takes one to two seconds


@dataclass(frozen=True, slots=True)
class Side:
    """A server, and the model's side of it."""

    core: Core
    port: int

    async def turn(self, questions: Sequence[str]) -> Json:
        """What these answers cost, and how fast they came."""
        before_s, began_s = self.core.spent_s(), time.monotonic()
        replies = await load(self.port, questions, STREAMS)
        took_s = time.monotonic() - began_s
        assert all(reply.done["path"] == "clean" for reply in replies)
        return {
            "cpu_ms": (self.core.spent_s() - before_s) * 1000 / len(questions),
            "answers_a_second": len(questions) / took_s,
        }


Sides = dict[Name, Side]


@asynccontextmanager
async def sides(folder: Path, settings: dict[str, str]) -> AsyncIterator[Sides]:
    """Both servers, warm, each with a model's side of its own."""
    (folder / "gateway").mkdir()
    async with (
        staged(folder / "gateway", SCRIPT, **settings) as stage,
        messages_process(SCRIPT, folder / "by_hand.jsonl") as (messages_pid, base_url),
        _by_hand(folder, base_url) as (pid, port),
    ):
        found: Sides = {
            "gateway": Side(Core(stage.gateway.process.pid), port_of(stage.gateway.base_url)),
            "by_hand": Side(Core(pid), port),
        }
        found["gateway"].core.reserve((stage.messages_pid,))
        found["by_hand"].core.reserve((messages_pid,))
        for side in found.values():
            await load(side.port, [f"How warm is {number}?" for number in range(WARM)], STREAMS)
        yield found


async def turns(found: Sides, run: int) -> Json:
    """One turn of each."""
    return {
        name: await side.turn([f"How fast is {number} of {run}?" for number in range(ANSWERS[name])])
        for name, side in found.items()
    }


def compared(runs: Sequence[Json]) -> Json:
    """Medians over the runs, of the figures and of how often one goes into the other."""
    ratios = {
        "times_by_processor": [run["by_hand"]["cpu_ms"] / run["gateway"]["cpu_ms"] for run in runs],
        "times_by_clock": [run["gateway"]["answers_a_second"] / run["by_hand"]["answers_a_second"] for run in runs],
    }
    return {
        name: {key: round(median(run[name][key] for run in runs), 2) for key in ("cpu_ms", "answers_a_second")}
        for name in ANSWERS
    } | {name: round(median(found), 2) for name, found in ratios.items()}


@asynccontextmanager
async def _by_hand(folder: Path, base_url: str) -> AsyncIterator[tuple[int, int]]:
    """The hand-written loop as a process: its id and port."""
    env = environment(folder, {"ANTHROPIC_API_KEY": "bench", "ANTHROPIC_BASE_URL": base_url})
    command = [sys.executable, "-m", "tests.bench.handwritten"]
    async with await anyio.open_process(command, cwd=ROOT, env=env, stdin=None, stderr=None) as process:
        try:
            assert process.stdout is not None
            with anyio.fail_after(20):
                line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 200)
            yield process.pid, port_of(line.decode())
        finally:
            with anyio.CancelScope(shield=True):
                process.kill()
                await process.wait()
