"""The database falters under a gateway that is serving: every stream ends in order, nothing is held, and it heals by itself."""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import closing

import anyio
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from gateway.providers.script import Script
from gateway.settings import read_settings
from gateway.wiring import wired
from retrieval.faults import RetrievalUnavailable
from retrieval.pool import Pool, open_pool
from retrieval.postgres import PostgresRetriever
from tests.support.clients import Told, ask, client
from tests.support.embedders import HashingEmbedder
from tests.support.gateway_app import Running, eventually, running, scripted_house, with_parts
from tests.support.library import shelve
from tests.support.postgres import emptied
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.anyio

LIMIT_S = 0.5
QUICK = Script(grade_ms=5, ttft_ms=5, tps=2000, tokens=10)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def pool(database_url: str, proxy: TcpProxy) -> AsyncIterator[Pool]:
    url = make_conninfo(
        emptied(database_url), host="127.0.0.1", port=proxy.port, sslmode="disable", gssencmode="disable"
    )
    async with open_pool(url, size=2) as pool:
        await shelve(pool, HashingEmbedder(), {"tea": "Tea is hot."})
        yield pool


@pytest.fixture
async def server(pool: Pool) -> AsyncIterator[Running]:
    retriever = PostgresRetriever(pool, HashingEmbedder(), limit_s=LIMIT_S)
    async with running(with_parts(scripted_house(QUICK), retriever=retriever)) as server:
        yield server
        await eventually(lambda: server.house.open_answers.count == 0)
        assert pool.in_use == 0


async def asked(server: Running, count: int) -> list[Told]:
    """So many questions at once, each stream read to its one end."""
    told: list[Told] = []

    async def one() -> None:
        told.append(await ask(server.base_url, "Is tea hot?"))

    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(one)
    for each in told:
        assert each.status == 200
        assert each.names.count("done") == 1
        assert each.names[-1] == "done"
        for failed in each.data("failed"):
            assert (failed["type"], failed["retryable"]) == ("retrieval_unavailable", True)
    return told


def paths(told: list[Told]) -> set[str]:
    return {each.one("done")["path"] for each in told}


async def healed(server: Running) -> None:
    """Returns once a question is answered; on a busy machine the first ones may meet the limit."""
    with anyio.fail_after(20):
        while paths(await asked(server, 1)) != {"clean"}:  # noqa: ASYNC110  what heals tells nobody
            await anyio.sleep(0.05)


async def test_behind_a_middlebox_that_swallows_everything_answers_fail_in_time(
    server: Running, proxy: TcpProxy
) -> None:
    await healed(server)
    proxy.silent = True
    assert paths(await asked(server, 3)) == {"failed"}
    async with client(server.base_url) as http:
        assert (await http.get("/healthz")).status_code == 200
    proxy.silent = False
    await healed(server)


async def test_connections_that_are_cut_in_mid_traffic_cost_at_most_a_fault_that_may_pass(
    server: Running, database_url: str
) -> None:
    def cut() -> None:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid()"
            )

    seen: set[str] = set()
    async with anyio.create_task_group() as tasks:

        async def traffic() -> None:
            for _ in range(6):
                seen.update(paths(await asked(server, 4)))

        tasks.start_soon(traffic)
        for _ in range(3):
            await anyio.to_thread.run_sync(cut)
    assert seen <= {"clean", "failed"}
    await healed(server)


async def test_an_exhausted_pool_is_waited_for_within_the_limit(server: Running, pool: Pool) -> None:
    free, taken = anyio.Event(), [anyio.Event(), anyio.Event()]

    async def hold(at: anyio.Event) -> None:
        async def work(_connection: object) -> None:
            at.set()
            await free.wait()

        await pool.run(work, limit_s=30)

    async with anyio.create_task_group() as tasks:
        for each in taken:
            tasks.start_soon(hold, each)
        for each in taken:
            await each.wait()
        assert paths(await asked(server, 5)) == {"failed"}
        free.set()
    await healed(server)


@pytest.mark.parametrize("is_silent", [False, True])
async def test_a_gateway_does_not_start_without_its_database_and_says_so(
    monkeypatch: pytest.MonkeyPatch, is_silent: bool
) -> None:
    for name in list(os.environ):
        if name.startswith(("GATEWAY_", "ANTHROPIC_", "OTEL_")):
            monkeypatch.delenv(name)
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
        if not is_silent:
            listener.close()
        settings = read_settings(
            database_url=f"postgresql://somebody:secret@127.0.0.1:{port}/none?connect_timeout=2",
            provider="scripted",
            embeddings_url="http://127.0.0.1:1/v1",
            embeddings_model="none",
            embeddings_dimensions=3,
        )
        with anyio.fail_after(15), pytest.raises(RetrievalUnavailable, match="cannot be reached") as raised:
            async with wired(settings):
                pass
    assert "secret" not in str(raised.value)
