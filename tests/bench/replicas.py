"""Replicas of the gateway as processes behind nginx, over one PostgreSQL; each can be stopped, killed and started again on its port."""

import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from retrieval.pool import open_pool
from tests.support.embedders import HashingEmbedder
from tests.support.embeddings_api import embeddings_api
from tests.support.gateway_process import GatewayProcess, gateway_process
from tests.support.library import shelve
from tests.support.nginx import balancing, free_port, nginx_before

TEXTS = {f"tea-{n}": f"Green tea number {n} is steeped at eighty degrees for {n} minutes." for n in range(40)}


@dataclass(slots=True)
class Replica:
    """One of them: its port stays, its process comes and goes."""

    folder: Path
    settings: Mapping[str, str]
    port: int
    tasks: TaskGroup
    process: GatewayProcess | None = None
    starts: int = 0
    is_serving: bool = False
    codes: list[int] = field(default_factory=list)

    async def start(self) -> None:
        """Returns when it serves."""
        await self.tasks.start(self._run)

    async def _run(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        async with gateway_process(self.folder, "--port", str(self.port), **self.settings) as process:
            self.process, self.starts, self.is_serving = process, self.starts + 1, True
            task_status.started()
            await process.process.wait()

    async def end(self, number: signal.Signals) -> None:
        """Sends the signal; returns when the process has ended."""
        assert self.process is not None
        self.is_serving = False
        self.process.signal(number)
        self.codes.append(await self.process.exit_code())


@dataclass(frozen=True, slots=True)
class Replicas:
    """All of them, and the port of nginx before them."""

    every: tuple[Replica, ...]
    port: int

    async def roll(self, pause_s: float) -> None:
        """One after another: told to stop, let finish, started again, as a rolling restart does."""
        for replica in self.every:
            await replica.end(signal.SIGTERM)
            await replica.start()
            await anyio.sleep(pause_s)


@asynccontextmanager
async def replicas(count: int, nginx: str, folder: Path, database_url: str, **settings: str) -> AsyncIterator[Replicas]:
    """`count` replicas behind `nginx`, which serve inside the block. asyncio only."""
    async with (
        started(count, folder, database_url, **settings) as made,
        nginx_before(nginx, balancing(*(each.port for each in made)), folder) as address,
    ):
        yield Replicas(made, int(address.rpartition(":")[2]))


@asynccontextmanager
async def started(count: int, folder: Path, database_url: str, **settings: str) -> AsyncIterator[tuple[Replica, ...]]:
    """`count` replicas over the database at `database_url` (migrated), which is given some passages first."""
    async with open_pool(database_url, size=1) as pool:
        await shelve(pool, HashingEmbedder(), TEXTS)
    with embeddings_api() as embeddings:
        every = {
            "GATEWAY_DATABASE_URL": database_url,
            "GATEWAY_RETRIEVER": "postgres",
            "GATEWAY_EMBEDDINGS_URL": embeddings.base_url,
            "GATEWAY_EMBEDDINGS_MODEL": "hashing",
            "GATEWAY_EMBEDDINGS_DIMENSIONS": "32",
            **settings,
        }
        async with anyio.create_task_group() as tasks:
            made = tuple(Replica(folder, every, free_port(), tasks) for _ in range(count))
            async with anyio.create_task_group() as starting:
                for replica in made:
                    starting.start_soon(replica.start)
            yield made
            tasks.cancel_scope.cancel()
