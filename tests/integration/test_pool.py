"""The pool on a real server: cancellation, contention, settings that do not leak (FIELD_REPORTS B2, E2, E8, E9)."""

import random
from collections.abc import AsyncIterator, Iterator

import anyio
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from retrieval.faults import RetrievalMisconfigured, RetrievalUnavailable
from retrieval.pool import Connection, Pool, open_pool
from retrieval.ports import Query, SearchMode
from retrieval.postgres import PostgresRetriever
from tests.support.embedders import HashingEmbedder
from tests.support.library import shelve
from tests.support.postgres import emptied, fresh_database

pytestmark = pytest.mark.anyio

SIZE = 5


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    async with open_pool(emptied(database_url), size=SIZE) as pool:
        await pool.ping()
        yield pool


async def _busy(connection: Connection) -> None:
    async with connection.transaction():
        await connection.execute("SELECT pg_sleep(0.02) /* busy */")


async def _stuck(connection: Connection) -> None:
    async with connection.transaction():
        await connection.execute("SELECT pg_sleep(600) /* stuck */")


async def _running(url: str, mark: str) -> int:
    """How many statements that hold `mark` the server is running."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        found = await connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND query LIKE %s AND pid <> pg_backend_pid()",
            (f"%/* {mark} */%",),
        )
        row = await found.fetchone()
        assert row is not None
        return int(row[0])


async def _until_running(url: str, mark: str, count: int) -> None:
    with anyio.fail_after(10):
        while await _running(url, mark) != count:  # noqa: ASYNC110 (the server sends no event)
            await anyio.sleep(0.01)


async def test_a_cancelled_statement_is_cancelled_on_the_server(pool: Pool, database_url: str) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.run, _stuck, 60.0)
        await _until_running(database_url, "stuck", 1)
        tasks.cancel_scope.cancel()
    await _until_running(database_url, "stuck", 0)
    assert pool.in_use == 0
    await pool.ping()


async def test_a_statement_over_its_time_is_cancelled_on_the_server(pool: Pool, database_url: str) -> None:
    with pytest.raises(RetrievalUnavailable, match=r"within 0\.2 s"):
        await pool.run(_stuck, 0.2)
    await _until_running(database_url, "stuck", 0)
    assert pool.in_use == 0


async def test_cancels_at_random_moments_under_contention_leave_pool_and_server_clean(
    pool: Pool, database_url: str
) -> None:
    source = random.Random(3)
    ended = {"done": 0, "cancelled": 0}

    async def request() -> None:
        with anyio.move_on_after(source.uniform(0, 0.12)) as scope:
            await pool.run(_busy)
            assert not scope.cancel_called, "a cancelled request went on as if nothing had happened"
            ended["done"] += 1
        ended["cancelled"] += scope.cancelled_caught

    for _ in range(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(5 * SIZE):
                tasks.start_soon(request)
    assert min(ended.values()) > 20, "too one-sided to show anything"
    assert ended["done"] + ended["cancelled"] == 500
    assert pool.in_use == 0
    await _until_running(database_url, "busy", 0)
    await _all_at_once(pool)


async def _all_at_once(pool: Pool) -> None:
    """Every connection of the pool is there to be lent, at the same time."""
    met = anyio.Event()
    here = 0

    async def meet(connection: Connection) -> None:
        nonlocal here
        here += 1
        if here == SIZE:
            met.set()
        await met.wait()
        await connection.execute("SELECT 1")

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for _ in range(SIZE):
                tasks.start_soon(pool.run, meet, 10.0)


async def test_cancelled_searches_leave_pool_and_server_clean(pool: Pool) -> None:
    embedder = HashingEmbedder()
    await shelve(pool, embedder, {f"d{n}": f"passage number {n}" for n in range(20)})
    retriever = PostgresRetriever(pool, embedder)
    source = random.Random(5)
    found: list[int] = []

    async def request() -> None:
        with anyio.move_on_after(source.uniform(0, 0.05)):
            found.append(len(await retriever.retrieve(Query("passage", mode=SearchMode.HYBRID))))

    for _ in range(10):
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(request)
    assert set(found) <= {5}
    assert pool.in_use == 0
    await _all_at_once(pool)


async def test_fifty_streams_share_five_connections(pool: Pool) -> None:
    """Streams hold their connection for the search only: while all fifty are open, none is out."""
    embedder = HashingEmbedder()
    await shelve(pool, embedder, {"tea": "Tea is hot."})
    retriever = PostgresRetriever(pool, embedder)
    open_streams = 0
    all_open, finish = anyio.Event(), anyio.Event()

    async def stream() -> None:
        nonlocal open_streams
        assert await retriever.retrieve(Query("tea"))
        open_streams += 1
        if open_streams == 50:
            all_open.set()
        await finish.wait()

    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(stream)
        with anyio.fail_after(20):
            await all_open.wait()
        assert pool.in_use == 0
        finish.set()


async def test_a_full_pool_is_waited_for_no_longer_than_the_limit(pool: Pool, database_url: str) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(SIZE):
            tasks.start_soon(pool.run, _stuck, 60.0)
        await _until_running(database_url, "stuck", SIZE)
        assert pool.in_use == SIZE
        with pytest.raises(RetrievalUnavailable, match=r"within 0\.1 s"):
            await pool.ping(0.1)
        tasks.cancel_scope.cancel()
    await pool.ping()


SETTINGS = (
    "statement_timeout",
    "hnsw.ef_search",
    "hnsw.iterative_scan",
    "transaction_read_only",
    "transaction_isolation",
)


@pytest.mark.parametrize("pgbouncer", [False, True])
async def test_a_search_leaves_no_setting_on_its_connection(database_url: str, pgbouncer: bool) -> None:
    async def settings(connection: Connection) -> list[object]:
        await connection.execute("SELECT '[1]'::vector")  # loads pgvector, whose settings are known from then on
        shown = [await connection.execute(sql.SQL("SHOW {}").format(sql.SQL(name))) for name in SETTINGS]
        return [await one.fetchone() for one in shown]

    async with open_pool(emptied(database_url), size=1, pgbouncer=pgbouncer) as pool:
        embedder = HashingEmbedder()
        before = await pool.run(settings)
        await shelve(pool, embedder, {"tea": "Tea is hot."})
        for mode in SearchMode:
            await PostgresRetriever(pool, embedder).retrieve(Query("tea", k=90, mode=mode))
        assert await pool.run(settings) == before


@pytest.mark.parametrize(("pgbouncer", "prepared"), [(False, True), (True, False)])
async def test_behind_pgbouncer_nothing_is_prepared(database_url: str, pgbouncer: bool, prepared: bool) -> None:
    async def statements(connection: Connection) -> int:
        return len(
            await (await connection.execute("SELECT name FROM pg_prepared_statements", prepare=False)).fetchall()
        )

    async with open_pool(emptied(database_url), size=1, pgbouncer=pgbouncer) as pool:
        embedder = HashingEmbedder()
        await shelve(pool, embedder, {"tea": "Tea is hot."})
        for _ in range(10):
            assert await PostgresRetriever(pool, embedder).retrieve(Query("tea"))
        assert bool(await pool.run(statements)) is prepared


@pytest.fixture
def unmigrated_url(server_url: str) -> Iterator[str]:
    with fresh_database(server_url, migrated=False) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        yield url


async def test_a_database_that_was_never_migrated_says_what_to_do(unmigrated_url: str) -> None:
    async with open_pool(unmigrated_url, size=1) as pool:
        with pytest.raises(RetrievalMisconfigured, match="gateway migrate"):
            await PostgresRetriever(pool, HashingEmbedder()).retrieve(Query("tea"))


async def test_an_address_that_is_none_is_refused_without_repeating_it() -> None:
    with pytest.raises(RetrievalMisconfigured) as caught:
        async with open_pool("postgresql://user:secret@host:port:5/x y=z"):
            pytest.fail("a malformed address was accepted")
    assert "secret" not in str(caught.value)


async def test_no_server_at_all_is_unavailable_and_not_a_hang() -> None:
    async with open_pool("postgresql://gateway@127.0.0.1:9/postgres", size=2) as pool:
        with anyio.fail_after(10), pytest.raises(RetrievalUnavailable):
            await pool.ping(0.5)


async def test_a_server_that_takes_no_writes_is_unavailable_for_them(database_url: str) -> None:
    standby = make_conninfo(database_url, options="-c default_transaction_read_only=on")
    async with open_pool(standby, size=1) as pool:
        with pytest.raises(RetrievalUnavailable, match="takes no writes"):
            await pool.run_for("mine", lambda one: one.execute("DELETE FROM collection"))
        await pool.ping()
