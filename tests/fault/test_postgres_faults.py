"""The database goes away: killed, restarted, or silent behind something that keeps the connection open (FIELD_REPORTS E5)."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from gateway.gaps import PostgresGaps
from retrieval.cluster import Cluster
from retrieval.embedded import EmbeddedPostgres
from retrieval.faults import RetrievalUnavailable
from retrieval.pool import Connection, Pool, open_pool
from retrieval.ports import Query
from retrieval.postgres import PostgresRetriever
from retrieval.schema import migrate
from streaming.ports import Gap
from tests.support.embedders import HashingEmbedder
from tests.support.library import shelve
from tests.support.postgres import emptied
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.anyio

GAP = Gap("Why?", None, "insufficient_evidence", ("Why?",), 2, "default", "default", "a1")
HEAL_LIMIT_S = 20


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gw-home-") as folder:
        Path(folder).chmod(0o711)  # run by root, the server's unprivileged account must get in
        yield Path(folder)


@pytest.fixture
async def pool(database_url: str, proxy: TcpProxy) -> AsyncIterator[Pool]:
    url = make_conninfo(
        emptied(database_url), host="127.0.0.1", port=proxy.port, sslmode="disable", gssencmode="disable"
    )
    async with open_pool(url, size=3) as pool:
        await shelve(pool, HashingEmbedder(), {"tea": "Tea is hot."})
        yield pool


async def _healed(pool: Pool, retriever: PostgresRetriever) -> None:
    with anyio.fail_after(HEAL_LIMIT_S):
        while True:
            try:
                assert await retriever.retrieve(Query("tea"))
                break
            except RetrievalUnavailable:
                await anyio.sleep(0.05)
    assert pool.in_use == 0


async def test_a_silent_server_is_given_up_at_the_deadline(pool: Pool, proxy: TcpProxy) -> None:
    retriever = PostgresRetriever(pool, HashingEmbedder(), limit_s=0.3)
    assert await retriever.retrieve(Query("tea"))
    proxy.silent = True
    with anyio.fail_after(5):
        for _ in range(5):  # more often than there are connections
            with pytest.raises(RetrievalUnavailable):
                await retriever.retrieve(Query("tea"))
    assert pool.in_use == 0


async def test_a_request_waiting_on_a_silent_server_can_be_cancelled(pool: Pool, proxy: TcpProxy) -> None:
    retriever = PostgresRetriever(pool, HashingEmbedder(), limit_s=60)
    proxy.silent = True
    with anyio.fail_after(5), anyio.move_on_after(0.2) as scope:
        await retriever.retrieve(Query("tea"))
    assert scope.cancelled_caught
    assert pool.in_use == 0


async def test_the_loop_stays_alive_while_the_server_is_silent(pool: Pool, proxy: TcpProxy) -> None:
    retriever = PostgresRetriever(pool, HashingEmbedder(), limit_s=1.0)
    proxy.silent = True
    ticks = 0
    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            with pytest.raises(RetrievalUnavailable):
                await retriever.retrieve(Query("tea"))
            tasks.cancel_scope.cancel()

        tasks.start_soon(ask)
        while True:
            await anyio.sleep(0.01)
            ticks += 1
    assert ticks > 20


async def test_a_server_that_speaks_again_is_used_again(pool: Pool, proxy: TcpProxy) -> None:
    impatient = PostgresRetriever(pool, HashingEmbedder(), limit_s=0.3)
    proxy.silent = True
    for _ in range(4):
        with pytest.raises(RetrievalUnavailable):
            await impatient.retrieve(Query("tea"))
    proxy.silent = False
    await _healed(pool, PostgresRetriever(pool, HashingEmbedder(), limit_s=2))


async def test_a_gap_that_cannot_be_stored_is_a_warning_and_no_fault(
    pool: Pool, proxy: TcpProxy, caplog: pytest.LogCaptureFixture
) -> None:
    gaps = PostgresGaps(pool, limit_s=0.3)
    proxy.silent = True
    with anyio.fail_after(5):
        assert await gaps.record(GAP) is None
    assert "a coverage gap of answer a1 was not stored" in caplog.text


@pytest.fixture
async def direct(database_url: str) -> AsyncIterator[Pool]:
    async with open_pool(emptied(database_url), size=3) as pool:
        await shelve(pool, HashingEmbedder(), {"tea": "Tea is hot."})
        yield pool


def _kill_all(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        killed = connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'gateway'"
        )
        return len(killed.fetchall())


async def test_idle_connections_that_were_killed_cost_no_request(direct: Pool, database_url: str) -> None:
    retriever = PostgresRetriever(direct, HashingEmbedder())
    for _ in range(3):
        assert await retriever.retrieve(Query("tea"))
        assert _kill_all(database_url) >= 1
        assert await retriever.retrieve(Query("tea"))
    assert direct.in_use == 0


async def test_a_connection_killed_in_mid_work_is_replaced_and_the_work_done_again(
    direct: Pool, database_url: str
) -> None:
    runs = 0

    async def work(connection: Connection) -> int:
        nonlocal runs
        runs += 1
        if runs == 1:
            await anyio.to_thread.run_sync(_kill_all, database_url)
        async with connection.transaction():
            await connection.execute("SELECT 1")
        return runs

    assert await direct.run(work) == 2
    assert direct.in_use == 0


async def test_a_server_that_was_restarted_is_used_again(home: Path) -> None:
    embedder = HashingEmbedder()
    async with EmbeddedPostgres(home) as url:
        await migrate(url)
        async with open_pool(url, size=3) as pool:
            await shelve(pool, embedder, {"tea": "Tea is hot."})
            retriever = PostgresRetriever(pool, embedder, limit_s=2)
            await retriever.retrieve(Query("tea"))
            await anyio.to_thread.run_sync(restart, home)
            await _healed(pool, retriever)


def restart(home: Path) -> None:
    cluster = Cluster(home / "postgres")
    cluster.stop()
    assert cluster.start()


async def test_a_server_that_is_away_is_unavailable_and_used_once_it_is_back(home: Path) -> None:
    embedder = HashingEmbedder()
    async with EmbeddedPostgres(home) as url:
        await migrate(url)
        async with open_pool(url, size=3) as pool:
            await shelve(pool, embedder, {"tea": "Tea is hot."})
            retriever = PostgresRetriever(pool, embedder, limit_s=0.4)
            cluster = Cluster(home / "postgres")
            await anyio.to_thread.run_sync(cluster.stop)
            for _ in range(4):
                with pytest.raises(RetrievalUnavailable):
                    await retriever.retrieve(Query("tea"))
            await anyio.to_thread.run_sync(cluster.start)
            await _healed(pool, retriever)


async def test_work_whose_connection_dies_every_time_is_unavailable(direct: Pool, database_url: str) -> None:
    async def doomed(connection: Connection) -> None:
        await anyio.to_thread.run_sync(_kill_all, database_url)
        await connection.execute("SELECT 1")

    with pytest.raises(RetrievalUnavailable, match="connection was lost"):
        await direct.run(doomed)
    assert direct.in_use == 0
    await _healed(direct, PostgresRetriever(direct, HashingEmbedder()))
