"""`make rolling`: 50 streams a second through nginx to three replicas, which are restarted one after another; then one is killed.

Every client must get its whole answer, byte by byte. What it may have to do for that is what the documents say: ask again when it is
turned away, read on where it was cut off, ask anew when its answer was lost with its server.
"""

import argparse
import random
import signal
import time
from collections import Counter as Counts
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from gateway.bench.figures import Json, Line, machine, report
from tests.bench.replicas import Replicas, replicas
from tests.bench.stage import workshop
from tests.support import installed
from tests.support.gateway_process import ROOT
from tests.support.postgres import fresh_database, running_server
from tests.support.returning_client import Journey, Refused, answer
from tests.support.scripted_text import undrafted

STREAMS, RATE_PER_S, COUNT = 2_400, 50.0, 3
SCRIPT = "[[grade_ms=150 ttft_ms=100 tps=16 tokens=16]]"  # 1.1 s
CUT_SHARE = 0.2  # of the clients, whose own connections break besides
JOURNEY_LIMIT_S = 90.0
BETWEEN_S = 1.0
RUN_LIMIT_S = 215.0
BOUNDS = ("GATEWAY_BUSY_STREAMS", "GATEWAY_MAX_STREAMS", "GATEWAY_WAITING_STREAMS")  # as in Kubernetes
WARM_UP = 60

Disturb = Callable[[Replicas], Awaitable[None]]


@dataclass(slots=True)
class Tally:
    """What came of the streams of one part of a run."""

    journeys: list[Journey] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    took_s: float = 0.0
    begun_s: float = 0.0
    """How long it took to begin them all."""

    def figures(self) -> Json:
        return {
            "streams": len(self.journeys) + len(self.lost),
            "lost": self.lost,
            "turned_away": sum(each.turned_away for each in self.journeys),
            "read_on": sum(each.read_on for each in self.journeys),
            "read_elsewhere": sum(each.read_elsewhere for each in self.journeys),
            "asked_anew": dict(Counts(why for each in self.journeys for why in each.anew)),
            "by_server": dict(Counts(server for each in self.journeys for server in set(each.servers))),
            "begun_per_s": round((len(self.journeys) + len(self.lost)) / self.begun_s, 1),
            "took_s": round(self.took_s, 1),
        }


async def streams(
    count: int,
    rate_per_s: float,
    port: int,
    whole: str,
    seed: int,
    tally: Tally,
    limit_s: float = JOURNEY_LIMIT_S,
) -> None:
    """`count` streams, one begun every 1/rate seconds, whatever became of those before."""
    began_s = time.monotonic()

    async def one(number: int) -> None:
        chance = random.Random(seed * 1_000_003 + number)
        cut = chance if chance.random() < CUT_SHARE else None
        question = f"How is green tea steeped, {seed}.{number}? {SCRIPT}"
        try:
            journey = await answer(port, question, f"{seed}.{number}", cut=cut, limit_s=limit_s)
        except (TimeoutError, Refused) as error:
            tally.lost.append(f"{number}: {type(error).__name__} {error}")
            return
        if not journey.is_in_order or not journey.read.text or undrafted(journey.read.text) != whole:
            tally.lost.append(
                f"{number}: {journey.names[-3:]} after {journey.anew}, {len(journey.read.text)} characters"
            )
            return
        tally.journeys.append(journey)

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(one, number)
            await anyio.sleep(max(0.0, began_s + (number + 1) / rate_per_s - time.monotonic()))
        tally.begun_s = time.monotonic() - began_s
    tally.took_s = time.monotonic() - began_s


async def disturbed(
    gateways: Replicas, count: int, rate_per_s: float, whole: str, seed: int, disturb: Disturb
) -> Tally:
    """The streams of one part, while `disturb` does its work; returns when both are over."""
    tally = Tally()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(streams, count, rate_per_s, gateways.port, whole, seed, tally)
        await anyio.sleep(BETWEEN_S)
        await disturb(gateways)
    return tally


def bounds() -> dict[str, str]:
    """Above that a replica turns questions away, and nginx asks the next."""
    text = (ROOT / "k8s" / "base" / "settings.env").read_text()
    return {name: value for name, _, value in (line.partition("=") for line in text.splitlines()) if name in BOUNDS}


async def whole_of(gateways: Replicas) -> str:
    """The text of every whole answer."""
    journey = await answer(gateways.port, f"How is green tea steeped? {SCRIPT}", "whole")
    return undrafted(journey.read.text)


async def roll(gateways: Replicas) -> None:
    await gateways.roll(BETWEEN_S)


async def kill_one(gateways: Replicas) -> None:
    """One is gone without a word, and comes back after a while."""
    await gateways.every[0].end(signal.SIGKILL)
    await anyio.sleep(BETWEEN_S)
    await gateways.every[0].start()


async def measure(count: int, rate_per_s: float, seed: int, database_url: str, folder: Path) -> Json:
    """All figures of one run. Raises TimeoutError when the machine is too slow for it."""
    with anyio.fail_after(RUN_LIMIT_S):
        async with replicas(COUNT, installed.nginx(), folder, database_url, **bounds()) as gateways:
            whole = await whole_of(gateways)
            await streams(WARM_UP, rate_per_s / 2, gateways.port, whole, seed + 2, Tally())
            rolled = await disturbed(gateways, count, rate_per_s, whole, seed, roll)
            killed = await disturbed(gateways, count // 6, rate_per_s, whole, seed + 1, kill_one)
            codes = [each.codes for each in gateways.every]
    return {
        "machine": machine(),
        "replicas": COUNT,
        "script": SCRIPT,
        "seed": seed,
        "rolled": rolled.figures(),
        "killed": killed.figures(),
        "exit_codes": codes,
    }


def lines(figures: Json) -> list[Line]:
    found = []
    for name, told in (("rolled", figures["rolled"]), ("killed", figures["killed"])):
        lost = len(told["lost"])
        found += [
            Line(f"{name}: streams lost", f"{lost} of {told['streams']}", "0", lost == 0),
            Line(f"{name}: begun a second / over after", f"{told['begun_per_s']} / {told['took_s']} s"),
            Line(f"{name}: turned away, then answered", str(told["turned_away"])),
            Line(f"{name}: read on / elsewhere", f"{told['read_on']} / {told['read_elsewhere']}"),
            Line(f"{name}: asked anew", str(told["asked_anew"] or "none")),
        ]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Restarts and kills replicas under load; no stream may be lost.")
    parser.add_argument("--json", type=Path, help="write every figure there")
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--rate", type=float, default=RATE_PER_S, help="streams begun a second (50)")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with workshop() as folder, running_server() as server, fresh_database(server) as url:
        figures = anyio.run(
            measure, asked.streams, asked.rate, asked.seed, url, folder, backend_options={"use_uvloop": True}
        )
    for name in ("rolled", "killed"):
        for told in figures[name]["lost"][:20]:
            print(f"  lost: {name} {told}")
    return report(f"{COUNT} replicas behind nginx, restarted under load", lines(figures), figures, asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
