"""A census: everything that a gateway in this process holds on behalf of requests, counted."""

import asyncio
import ctypes
import gc
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass

import psutil
from opentelemetry.sdk.trace import ReadableSpan

from retrieval.pool import Pool
from tests.support.gateway_app import Running, Spans


class OpenSpans(Spans):
    """Spans until they end, and no longer: what has ended is counted, not kept."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def on_end(self, span: ReadableSpan) -> None:
        super().on_end(span)
        self.ended.clear()
        self.count += 1


@dataclass(frozen=True, slots=True)
class Census:
    """Counts at one moment. `upstream` are connections that the model's side sees, `backends` those that the database does."""

    tasks: int
    slots: int
    spans: int
    connections: int
    pool_in_use: int
    backends: int
    upstream: int
    sockets: int
    descriptors: int
    threads: int

    def more_than(self, before: "Census") -> dict[str, tuple[int, int]]:
        """What there is more of than before: name -> (before, now)."""
        now, then = asdict(self), asdict(before)
        return {name: (then[name], now[name]) for name in now if now[name] > then[name]}


@dataclass(frozen=True, slots=True)
class Counter:
    """Takes a census of `server` in this process, of its pool, and of the process of the Messages server."""

    server: Running
    spans: OpenSpans
    pool: Pool
    messages_pid: int

    async def take(self) -> Census:
        gc.collect()
        process = psutil.Process()
        return Census(
            tasks=len(asyncio.all_tasks()),
            slots=self.server.house.open_answers.count,
            spans=len(self.spans.open),
            connections=len(self.server.server.server_state.connections),
            pool_in_use=self.pool.in_use,
            backends=await backends(self.pool),
            upstream=established(self.messages_pid),
            sockets=len(process.net_connections("all")),
            descriptors=process.num_fds(),
            threads=threads(),
        )


WORKERS = (
    4  # anyio's worker threads come and go with use: two runs at once on two cores, and as many whose request has left
)


def threads() -> int:
    """Threads of this process; of anyio's workers only those beyond the number that use explains."""
    names = [thread.name for thread in threading.enumerate()]
    workers = sum(name.startswith("AnyIO worker") for name in names)
    return len(names) - workers + max(workers, WORKERS)


def resident_mb() -> float:
    """Memory that this process holds, in MiB, without what the C library keeps of what was given back to it (20 MiB or so)."""
    with suppress(OSError, AttributeError):  # another C library has no such call
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return float(psutil.Process().memory_info().rss) / 2**20


def established(pid: int) -> int:
    """TCP connections of a process that are open at both ends."""
    return sum(each.status == psutil.CONN_ESTABLISHED for each in psutil.Process(pid).net_connections("tcp"))


async def backends(pool: Pool) -> int:
    """Server processes that serve this database's clients, the one that counts included."""

    async def ask(connection: object) -> int:
        found = await connection.execute(  # type: ignore[attr-defined]
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
        )
        return int((await found.fetchone())[0])

    return await pool.run(ask)
