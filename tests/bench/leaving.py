"""`make bench-leaving`: 1,000 connections, on every route, that leave at random moments: what remains of them."""

import argparse
import os
import random
import time
from collections import Counter as Counts
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import anyio
from anyio.abc import SocketStream

from gateway.app import application
from gateway.bench.figures import Json, Line, machine, report, spread
from gateway.gaps import PostgresGaps
from gateway.keeping.keeper import Keeper, Keeping, open_keeper
from gateway.keeping.stored_recordings import StoredRecordings
from gateway.uploads.documents import StoredDocuments
from retrieval.pool import Pool, open_pool
from retrieval.store import PassageStore
from tests.support.census import Counter, OpenSpans
from tests.support.clients import ask, client
from tests.support.embedders import HashingEmbedder
from tests.support.every_route import SCRIPT, Made, every_way
from tests.support.gateway_app import Running, eventually, running, scripted_house, with_parts
from tests.support.leftovers import leftovers
from tests.support.postgres import fresh_database, running_server
from tests.support.raw_client import reset_on_close

CONNECTIONS, AT_ONCE, WARM_UP = 1_000, 24, 60
LONGEST_S = 0.4  # of an answer; a client leaves at a moment within it
SHORTEST_BYTES = 100  # less than any response, its head included
GRACE_S = 0.3
GONE_LIMIT_S = 20.0
REACH_GONE_MS = 2_000.0  # after the last of them, the grace of kept answers and what a database takes included


@dataclass(slots=True)
class Tally:
    """How the clients left."""

    asked: Counts[str] = field(default_factory=Counts)
    ended: Counts[str] = field(default_factory=Counts)


async def visit(port: int, request: bytes, chance: random.Random) -> str:
    """Sends `request`, in full or not, and is gone after a while; how it left."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        if chance.random() < 0.5:
            reset_on_close(stream)
        if chance.random() < 0.2:
            await stream.send(request[: chance.randrange(len(request))])
            await anyio.sleep(chance.uniform(0.0, 0.05))
            return "in the middle of its request"
        await stream.send(request)
        if chance.random() < 0.4:
            return await read(stream, chance.randint(1, SHORTEST_BYTES))
        with anyio.move_on_after(chance.uniform(0.0, LONGEST_S)):
            return await read(stream, chance.randint(1, 3_000))
        return "after a while"


async def read(stream: SocketStream, limit_bytes: int) -> str:
    """Reads until `limit_bytes` or the end of what is sent."""
    seen = 0
    while seen < limit_bytes:
        try:
            seen += len(await stream.receive())
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return "at its end"
    return "in the middle of its response"


async def pay(port: int, ways: list[tuple[str, Made]], count: int, seed: int, tally: Tally) -> None:
    """`count` visits, AT_ONCE at a time, each route in turn."""
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def one(number: int) -> None:
        chance = random.Random(seed * 1_000_003 + number)
        name, made = ways[number % len(ways)]
        async with limiter:
            tally.ended[await visit(port, made(number), chance)] += 1
        tally.asked[name] += 1

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(one, number)


async def gone_ms(server: Running, spans: OpenSpans, keeper: Keeper, pool: Pool) -> float:
    """How long it takes until nothing of any request is left. Raises AssertionError when something stays."""
    began = time.monotonic()

    def is_gone() -> bool:
        return not leftovers(server, spans) and not keeper.readers and not pool.in_use

    await eventually(is_gone, GONE_LIMIT_S)
    return (time.monotonic() - began) * 1000


async def settled(server: Running, counter: Counter, keeper: Keeper) -> None:
    """One whole answer, and what is kept forgotten: then a census counts what stays."""
    await ask(server.base_url, "Is it?")
    await eventually(lambda: not leftovers(server, counter.spans), GONE_LIMIT_S)
    await keeper.sweep()


async def ways_of(server: Running) -> list[tuple[str, Made]]:
    """Every way to ask every route, of the model and of a kept answer that are there."""
    async with client(server.base_url) as http:
        model = (await http.get("/v1/models")).json()["data"][0]["id"]
    told = await ask(server.base_url, f"Is it? {SCRIPT}", options={"resumable": True})
    return every_way(application(server.house), model, told.one("started")["answer_id"])


async def measure(connections: int, seed: int, database_url: str, warm_up: int = WARM_UP) -> Json:
    """All figures of one run."""
    spans, tally, embedder = OpenSpans(), Tally(), HashingEmbedder()
    async with (
        open_pool(database_url, size=4) as pool,
        open_keeper(Keeping(GRACE_S, keep_s=0.0), StoredRecordings(pool)) as keeper,
    ):
        gaps = PostgresGaps(pool, embedder)
        house = replace(
            with_parts(scripted_house(processors=[spans]), gaps=gaps),
            keeper=keeper,
            gaps=gaps,
            documents=StoredDocuments(PassageStore(pool), embedder),
        )
        async with running(house) as server:
            counter, ways = Counter(server, spans, pool, os.getpid()), await ways_of(server)
            await pay(server.port, ways, warm_up, seed + 1, Tally())
            await gone_ms(server, spans, keeper, pool)
            await settled(server, counter, keeper)
            before = await counter.take()
            await pay(server.port, ways, connections, seed, tally)
            gone = await gone_ms(server, spans, keeper, pool)
            await settled(server, counter, keeper)
            after = await counter.take()
            with anyio.move_on_after(GONE_LIMIT_S):
                while after.more_than(before):
                    await anyio.sleep(0.1)
                    await anyio.to_thread.run_sync(time.monotonic)  # only use ends worker threads that are used no more
                    after = await counter.take()
    return {
        "machine": machine(),
        "connections": connections,
        "asked": dict(tally.asked),
        "left": dict(tally.ended),
        "gone_ms": spread([gone]),
        "before": asdict(before),
        "after": asdict(after),
        "more": after.more_than(before),
    }


def lines(figures: Json) -> list[Line]:
    before, after, gone_ms = figures["before"], figures["after"], figures["gone_ms"]["max"]
    return [
        Line("routes", str(len(figures["asked"]))),
        *(Line(f"left {how}", str(count)) for how, count in sorted(figures["left"].items())),
        *(
            Line(name.replace("_", " "), f"{before[name]} -> {after[name]}", "no more", after[name] <= before[name])
            for name in before
        ),
        Line("nothing left after the last one, ms", f"{gone_ms:.0f}", "<= 2000", gone_ms <= REACH_GONE_MS),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Counts what clients that leave leave behind.")
    parser.add_argument("--json", type=Path, help="write every figure there")
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with running_server() as server, fresh_database(server) as url:
        figures = anyio.run(measure, asked.connections, asked.seed, url, backend_options={"use_uvloop": True})
    return report(f"{asked.connections} connections that leave", lines(figures), figures, asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
