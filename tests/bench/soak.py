"""`make soak`: mixed traffic on every route of two gateways, while their database is restarted and one of them is killed, again and again.

What must hold: every stream ends with one terminal event, or its client has left; its text is what the model wrote, byte by byte;
nothing of a discarded draft is ever sent; nothing fails but what a fault was planned for, or what was asked while something was being
broken; a client that comes back gets its whole answer; memory, connections and open answers of the gateway that is not killed do not
grow.
"""

import argparse
import asyncio
import random
import signal
import statistics
import tempfile
import time
from collections import Counter as Counts
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import anyio
import httpx2
import psutil
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from gateway.bench.figures import Json, Line, machine, report
from gateway.providers.script import Script
from retrieval.cluster import Cluster
from retrieval.embedded import EmbeddedPostgres
from retrieval.schema import migrate
from retrieval.store import WRITE_LIMIT_S
from tests.bench.replicas import Replica, started
from tests.bench.soak_traffic import Asked, Outcome, asked, outcome
from tests.support.gateway_process import GatewayProcess
from tests.support.returning_client import Refused, answer
from tests.support.scripted_text import undrafted
from tests.support.tcp_proxy import TcpProxy, to_postgres

STREAMS, AT_ONCE, LIMIT_S = 20_000, 64, 840.0
BACK_SHARE = 0.1  # of the clients, who ask for a resumable answer, lose their connections and come back
EVERY_S = 20.0  # from the end of one disturbance to the next
EXCUSED_S = 6.0  # after a disturbance, what it broke may still fail: pools and breakers mend
SETTLED_S = 10.0
REACH_GROWTH_MB = 16.0
SETTINGS = {
    "GATEWAY_SPECULATE": "always",
    "GATEWAY_RESUME_KEEP_S": "20",  # finished answers, so that memory does not wait for 300 s to be level
    "GATEWAY_READ_S": "2",  # a model that falls silent holds a client for so long
    "MALLOC_TRIM_THRESHOLD_": "131072",  # what is freed goes back to the system: RSS is what is held
}
WARM_S = 120.0  # a shorter run still fills caches and pools
ANSWER_LIMIT_S = WRITE_LIMIT_S + 15.0  # an upload whose database falls silent waits for it for so long, then is 503
COMING_BACK = "[[grade_ms=20 ttft_ms=20 tps=100 tokens=40]]"
WHOLE = undrafted(Script.parse(COMING_BACK).text(1))


@dataclass(slots=True)
class Tally:
    """What came of everything."""

    outcomes: Counts[str] = field(default_factory=Counts)
    by_path: Counts[str] = field(default_factory=Counts)
    wrong: list[str] = field(default_factory=list)
    excused: Counts[str] = field(default_factory=Counts)
    came_back: int = 0
    connections: int = 0
    disturbances: Counts[str] = field(default_factory=Counts)
    troubled: list[tuple[float, float]] = field(default_factory=list)
    memory_mb: list[tuple[float, float]] = field(default_factory=list)

    def is_excused(self, began_s: float, ended_s: float) -> bool:
        """Whether something was being broken in that time, or a little before."""
        return any(began_s < until and ended_s > since for since, until in self.troubled)

    @contextmanager
    def disturbance(self, name: str) -> Iterator[None]:
        """What fails in the block, or soon after it, may."""
        self.disturbances[name] += 1
        self.troubled.append((time.monotonic(), float("inf")))
        try:
            yield
        finally:
            since, _ = self.troubled.pop()
            self.troubled.append((since, time.monotonic() + EXCUSED_S))


class Reading(asyncio.Protocol):
    """Sends one request and keeps what comes back."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.received = bytearray()
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


@dataclass(slots=True)
class Soak:
    """One run: two replicas, the first of which is killed; what is asked of them is told to the tally."""

    every: tuple[Replica, ...]
    cluster: Cluster
    proxy: TcpProxy
    seed: int
    at_once: int = AT_ONCE
    is_stopped: bool = False
    tally: Tally = field(default_factory=Tally)

    async def pay(self, count: int, limit_s: float) -> int:
        """Requests, `at_once` at a time, until there were `count`, or `limit_s` are over; how many there were."""
        limiter, until_s, number = anyio.CapacityLimiter(self.at_once), time.monotonic() + limit_s, 0
        self.is_stopped = False
        async with anyio.create_task_group() as tasks:
            while number < count and time.monotonic() < until_s and not self.is_stopped:
                number += 1
                await limiter.acquire_on_behalf_of(number)
                tasks.start_soon(self._one, number, limiter)
        return number

    async def _one(self, number: int, limiter: anyio.CapacityLimiter) -> None:
        try:
            chance = random.Random(self.seed * 7_919 + number)
            if chance.random() < BACK_SHARE:
                await self._come_back(number, chance)
            else:
                there = [each for each in self.every if each.is_serving]
                await self._visit(asked(number, self.seed), chance.choice(there).port)
        finally:
            limiter.release_on_behalf_of(number)

    async def _visit(self, what: Asked, port: int) -> None:
        began_s, raw, has_left = time.monotonic(), b"", False
        try:
            transport, reading = await asyncio.get_running_loop().create_connection(
                lambda: Reading(what.request), "127.0.0.1", port
            )
        except OSError:
            self._note(what.number, what.path, Outcome("refused", excusable="no connection"), began_s)
            return
        try:
            with anyio.fail_after(ANSWER_LIMIT_S), anyio.move_on_after(what.leaves_after_s) as staying:
                await reading.ended.wait()
            raw, has_left = bytes(reading.received), staying.cancelled_caught
        except TimeoutError:
            self._note(what.number, what.path, Outcome("endless", wrong=f"no end within {ANSWER_LIMIT_S:g} s"), began_s)
            return
        finally:
            transport.abort()
        self._note(what.number, what.path, outcome(what, raw, has_left=has_left), began_s)

    async def _come_back(self, number: int, chance: random.Random) -> None:
        """A client that is cut off at random and wants its whole answer, at whichever gateway it reaches."""
        began_s, question = time.monotonic(), f"How is green tea steeped, b{self.seed}.{number}? {COMING_BACK}"
        ports = [each.port for each in self.every]
        try:
            journey = await answer(
                chance.choice(ports), question, f"b{self.seed}.{number}", cut=chance, limit_s=60.0, others=ports
            )
        except (TimeoutError, Refused) as error:
            self._note(number, "resumable", Outcome("lost", wrong=f"{type(error).__name__} {error}"), began_s)
            return
        self.tally.came_back += 1
        self.tally.connections += journey.connections
        text = journey.read.text
        is_whole = bool(text) and undrafted(text) == WHOLE
        wrong = "" if is_whole and journey.is_in_order else f"{journey.names[-2:]}, {len(text)} characters"
        self._note(number, "resumable", Outcome("answered" if not wrong else "wrong", wrong=wrong), began_s)

    def _note(self, number: int, path: str, seen: Outcome, began_s: float) -> None:
        tally = self.tally
        tally.outcomes[seen.ended] += 1
        tally.by_path["/v1/answers/{id}/events" if path.endswith("/events") else path] += 1
        if seen.wrong:
            tally.wrong.append(f"{number} {path}: {seen.wrong}")
        elif seen.excusable and tally.is_excused(began_s, time.monotonic()):
            tally.excused[seen.excusable] += 1
        elif seen.excusable:
            tally.wrong.append(f"{number} {path}: {seen.excusable}, while nothing was being broken")

    async def disturb(self, every_s: float) -> None:
        """Breaks one thing after another, in turns, until cancelled."""
        ways: tuple[tuple[str, Callable[[], Awaitable[None]]], ...] = (
            ("database restarted", self._restart_database),
            ("gateway killed", self._kill),
            ("database silent", self._silence),
            ("gateway told to stop", self._stop),
        )
        while True:
            for name, way in ways:
                await anyio.sleep(every_s)
                with anyio.CancelScope(shield=True), self.tally.disturbance(name):
                    await way()

    async def _restart_database(self) -> None:
        await anyio.to_thread.run_sync(self.cluster.stop)
        await anyio.to_thread.run_sync(self.cluster.start)

    async def _silence(self) -> None:
        self.proxy.silent = True
        await anyio.sleep(2.0)
        self.proxy.silent = False

    async def _kill(self) -> None:
        await self.every[0].end(signal.SIGKILL)
        await self.every[0].start()

    async def _stop(self) -> None:
        await self.every[0].end(signal.SIGTERM)
        await self.every[0].start()

    async def stop_when_told(self) -> None:
        """Begins no more requests once this process is told to end: what was seen until then is reported."""
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for _ in signals:
                self.is_stopped = True

    async def weigh(self, every_s: float) -> None:
        """Notes the memory of the replica that is not killed, until cancelled."""
        while True:
            memory = psutil.Process(self.lasting.process.pid).memory_info().rss / 2**20
            self.tally.memory_mb.append((time.monotonic(), memory))
            await anyio.sleep(every_s)

    @property
    def lasting(self) -> GatewayProcess:
        """The process of the replica that is not killed."""
        process = self.every[-1].process
        assert process is not None
        return process

    async def held(self) -> dict[str, int]:
        """What the lasting replica holds now: answers, places in its pool, and files and sockets."""
        process = psutil.Process(self.lasting.process.pid)
        async with httpx2.AsyncClient(base_url=self.lasting.base_url, trust_env=False, verify=False) as http:
            text = (await http.get("/metrics")).text
        series = dict(line.rpartition(" ")[::2] for line in text.splitlines() if line and not line.startswith("#"))
        return {
            "open answers": int(float(series.get("gateway_answers_open", "0"))),
            "waiting": int(float(series.get("gateway_answers_waiting", "0"))),
            "descriptors": process.num_fds(),
            "threads": process.num_threads(),
        }


@asynccontextmanager
async def soaking(folder: Path, seed: int, at_once: int) -> AsyncIterator[Soak]:
    """A database of its own, a proxy before it, and two replicas that reach it through the proxy."""
    home = folder / "database"
    home.mkdir(mode=0o711)
    async with EmbeddedPostgres(home) as url:
        await migrate(url)
        socket = str(conninfo_to_dict(url)["host"])
        async with TcpProxy(lambda: to_postgres(socket)) as proxy:
            through = make_conninfo(url, host="127.0.0.1", port=proxy.port, sslmode="disable", gssencmode="disable")
            async with started(2, folder, through, **SETTINGS) as every:
                yield Soak(every, Cluster(home / "postgres"), proxy, seed, at_once)


async def measure(
    count: int,
    seed: int,
    folder: Path,
    *,
    limit_s: float = LIMIT_S,
    every_s: float = EVERY_S,
    warm_up: int = 300,
    at_once: int = AT_ONCE,
) -> Json:
    """All figures of one run."""
    async with soaking(folder, seed, at_once) as soak:
        await replace(soak, seed=seed + 1, tally=Tally()).pay(warm_up, limit_s / 10)
        before, began_s = await soak.held(), time.monotonic()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(soak.disturb, every_s)
            tasks.start_soon(soak.weigh, 1.0)
            tasks.start_soon(soak.stop_when_told)
            done = await soak.pay(count, limit_s)
            tasks.cancel_scope.cancel()
        took_s, after = time.monotonic() - began_s, await soak.held()
        with anyio.move_on_after(SETTLED_S):
            while any(after[name] > before[name] for name in ("open answers", "waiting", "descriptors")):
                await anyio.sleep(0.2)
                after = await soak.held()
    return figures_of(soak.tally, done, seed, took_s, before, after)


def figures_of(
    tally: Tally, done: int, seed: int, took_s: float, before: dict[str, int], after: dict[str, int]
) -> Json:
    weights = [mb for _, mb in tally.memory_mb]
    quarter = max(1, len(weights) // 4)
    return {
        "machine": machine(),
        "seed": seed,
        "requests": done,
        "streams": sum(
            tally.by_path[path] for path in ("/v1/answers", "/v1/chat/completions", "/api/chat", "resumable")
        ),
        "took_s": round(took_s, 1),
        "by_path": dict(tally.by_path),
        "outcomes": dict(tally.outcomes),
        "disturbances": dict(tally.disturbances),
        "excused": dict(tally.excused),
        "came_back": tally.came_back,
        "connections_of_them": tally.connections,
        "wrong": tally.wrong,
        "before": before,
        "after": after,
        "memory_mb": {
            "second_quarter": round(statistics.median(weights[quarter : 2 * quarter] or weights), 1),
            "last_quarter": round(statistics.median(weights[-quarter:]), 1),
        },
    }


def lines(figures: Json) -> list[Line]:
    memory, before, after = (figures[name] for name in ("memory_mb", "before", "after"))
    growth = memory["last_quarter"] - memory["second_quarter"]
    wrong = len(figures["wrong"])
    return [
        Line("streams", str(figures["streams"])),
        Line("wrong", str(wrong), "0", wrong == 0),
        Line("failed while something was being broken", str(sum(figures["excused"].values()))),
        Line("came back and got all", f"{figures['came_back']}, {figures['connections_of_them']} connections"),
        *(Line(name, str(count)) for name, count in sorted(figures["disturbances"].items())),
        *(
            Line(name, f"{before[name]} -> {after[name]}", "no more", after[name] <= before[name])
            for name in ("open answers", "waiting", "descriptors")
        ),
        Line(
            "memory, MB",
            f"{memory['second_quarter']} -> {memory['last_quarter']}",
            f"+ {REACH_GROWTH_MB:g}",
            growth <= REACH_GROWTH_MB or figures["took_s"] < WARM_S,
        ),
        Line("took, s", str(figures["took_s"])),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Mixed traffic while things are broken; nothing may be lost or leak.")
    parser.add_argument("--json", type=Path, help="write every figure there")
    parser.add_argument("--streams", type=int, default=STREAMS, help="requests of all kinds (20000)")
    parser.add_argument("--minutes", type=float, default=LIMIT_S / 60, help="it ends by then (14)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gw-soak-") as folder:
        Path(folder).chmod(0o711)

        async def run() -> Json:
            return await measure(given.streams, given.seed, Path(folder), limit_s=given.minutes * 60)

        figures = anyio.run(run, backend_options={"use_uvloop": True})
    for told in figures["wrong"][:30]:
        print(f"  wrong: {told}")
    return report(f"Soak, seed {given.seed}", lines(figures), figures, given.json)


if __name__ == "__main__":
    raise SystemExit(main())
