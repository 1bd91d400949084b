"""A pool of database connections, each lent for one bounded piece of work."""

import select
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
import psycopg
from anyio import CancelScope, get_cancelled_exc_class
from pgvector.psycopg import register_vector_async
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from retrieval.faults import RetrievalMisconfigured, RetrievalUnavailable
from retrieval.tenancy import transaction_for

Connection = psycopg.AsyncConnection[tuple[Any, ...]]
T = TypeVar("T")
Work = Callable[[Connection], Awaitable[T]]

LIMIT_S = 5.0  # one piece of work: p95 of a search is below 10 ms, so this bounds faults, not work
CANCEL_LIMIT_S = 0.15  # a cancelled request is gone within 200 ms (DESIGN, invariant 9)
CANCEL_EVERY_S = 0.03  # a cancel that lands between two statements is ignored by the server: it is sent again
CONNECT_LIMIT_S = 5  # libpq counts whole seconds, 2 at least
RECONNECT_LIMIT_S = 2.0  # short: the pool doubles its pauses, and a request that waits makes it begin anew


class Pool:
    """At most `size` connections. `run` is the only way to one, so none is held longer than one piece of work."""

    def __init__(self, connections: AsyncConnectionPool[Connection], size: int) -> None:
        self._connections = connections
        self._slots = anyio.Semaphore(size)  # who waits, waits here: fair, and cancelled without a trace
        self._size = size

    @property
    def in_use(self) -> int:
        """Connections lent at this moment."""
        return self._size - self._slots.value

    def usage(self) -> tuple[tuple[int, dict[str, str]], ...]:
        """How many connections are lent and how many are not, each with its `state`."""
        return (self.in_use, {"state": "used"}), (self._size - self.in_use, {"state": "idle"})

    async def ping(self, limit_s: float = LIMIT_S) -> None:
        """One round trip to the server. Raises RetrievalUnavailable when it takes longer than `limit_s` seconds or fails."""
        await self.run(_ping, limit_s)

    async def run(self, work: Work[T], limit_s: float = LIMIT_S) -> T:
        """The result of `work(connection)`, within `limit_s` seconds in all, waiting for a connection included.

        `work` is one transaction; where the connection turns out to be dead it runs once more on another, so it must be safe to repeat.
        Raises RetrievalUnavailable (no connection, no answer in time, connection lost, no writes taken) or RetrievalMisconfigured (a table,
        extension or right is missing); other psycopg errors pass through. On cancellation, or when time is up, the running statement
        is cancelled on the server, within CANCEL_LIMIT_S; a connection whose server does not confirm that is discarded.
        """
        result: list[T] = []
        with anyio.move_on_after(limit_s):
            try:
                async with self._slots:
                    result.append(await self._attempts(work, limit_s))
            except _UNAVAILABLE as error:
                raise RetrievalUnavailable(f"the database is not available ({_reason(error)})") from error
            except _MISCONFIGURED as error:
                raise RetrievalMisconfigured("the database is not set up: run `gateway migrate`") from error
        await anyio.lowlevel.checkpoint_if_cancelled()  # a library may have swallowed a cancellation on the way
        if not result:
            raise RetrievalUnavailable(f"the database did not answer within {limit_s:g} s")
        return result[0]

    async def run_for(self, tenant: str, work: Work[T], limit_s: float = LIMIT_S) -> T:
        """As `run`, in one transaction that sees and writes rows of `tenant` alone; `work` begins none itself.

        What `run` alone does works for nobody: under the role that serves it sees no tenant's rows.
        """

        async def owned(connection: Connection) -> T:
            async with transaction_for(connection, tenant):
                return await work(connection)

        return await self.run(owned, limit_s)

    async def _attempts(self, work: Work[T], limit_s: float) -> T:
        connection = await self._lend(limit_s)
        try:
            return await self._work(connection, work)
        except psycopg.OperationalError:
            if not connection.broken:
                raise
        return await self._work(await self._lend(limit_s), work)

    async def _lend(self, limit_s: float) -> Connection:
        """A connection whose server has not hung up. The pool's own check would lose connections when cancelled."""
        while True:
            connection = await self._connections.getconn(timeout=limit_s)
            if not _hung_up(connection):
                return connection
            await connection.close()
            await self._take_back(connection)

    async def _work(self, connection: Connection, work: Work[T]) -> T:
        try:
            return await _interruptible(connection, work)
        finally:
            await self._take_back(connection)

    async def _take_back(self, connection: Connection) -> None:
        """Only an idle connection goes back. Nothing here waits for the network: closing is local, the pool replaces in the background."""
        with CancelScope(shield=True):
            if connection.info.transaction_status is not TransactionStatus.IDLE:
                await connection.close()
            await self._connections.putconn(connection)


async def _interruptible(connection: Connection, work: Work[T]) -> T:
    """`work(connection)`; a cancellation is turned into a cancel request to the server before the task is abandoned.

    psycopg does so itself, but an anyio scope cancels again and again and would cut its request short.
    """
    done = anyio.Event()
    results: list[T] = []
    errors: list[Exception] = []
    shield = CancelScope(shield=True)

    async def shielded() -> None:
        try:
            with shield:
                results.append(await work(connection))
        except Exception as error:
            errors.append(error)
        finally:
            done.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(shielded)
        try:
            await done.wait()
        except get_cancelled_exc_class():
            with CancelScope(shield=True):
                await _cancel_on_server(connection, done)
            shield.cancel()
            raise
    if errors:
        raise errors[0]
    return results[0]


async def _cancel_on_server(connection: Connection, done: anyio.Event) -> None:
    with anyio.move_on_after(CANCEL_LIMIT_S):
        while not done.is_set() and not connection.closed:
            try:
                await connection.cancel_safe(timeout=CANCEL_LIMIT_S)
            except psycopg.Error:
                return  # unreachable: the statement's own time limit ends it
            with anyio.move_on_after(CANCEL_EVERY_S):
                await done.wait()


def _hung_up(connection: Connection) -> bool:
    """Whether an idle connection has something to read: an end of stream, or a farewell before it."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


async def _ping(connection: Connection) -> None:
    async with connection.transaction():
        await connection.execute("SELECT 1")


_UNAVAILABLE = (
    psycopg.OperationalError,
    psycopg.errors.ReadOnlySqlTransaction,  # of a standby, after a failover
    PoolTimeout,
    PoolClosed,
    TooManyRequests,
)
_MISCONFIGURED = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.UndefinedObject,
    psycopg.errors.InsufficientPrivilege,
)


def _reason(error: Exception) -> str:
    match error:
        case PoolTimeout() | TooManyRequests():
            return "no connection could be made in time"
        case PoolClosed():
            return "shutting down"
        case psycopg.errors.QueryCanceled():
            return "the statement took too long"
        case psycopg.errors.ReadOnlySqlTransaction():
            return "it takes no writes"
        case psycopg.errors.DiskFull():
            return "its disk is full"
        case _:
            return "the connection was lost"


def connection_string(url: str) -> str:
    """`url` with time limits on connecting and on a silent peer, where it names none itself.

    Raises RetrievalMisconfigured when `url` is not a PostgreSQL address.
    """
    limits = {"connect_timeout": CONNECT_LIMIT_S, "keepalives_idle": 30, "tcp_user_timeout": 10_000}
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise RetrievalMisconfigured("the database address is not one that PostgreSQL understands") from error
    return make_conninfo("", **{"application_name": "gateway", **limits, **given})


@asynccontextmanager
async def open_pool(url: str, *, size: int = 5, pgbouncer: bool = False, vectors: bool = True) -> AsyncIterator[Pool]:
    """A pool of `size` connections to the server at `url`, closed at the end.

    Does not wait for the server: while it is away `run` raises RetrievalUnavailable, once it is back the pool mends itself. With
    `pgbouncer` (transaction mode) nothing is prepared on the server; without `vectors` it may have no pgvector.
    Raises RetrievalMisconfigured for a malformed `url`.
    """
    connections = AsyncConnectionPool(
        connection_string(url),
        connection_class=psycopg.AsyncConnection[tuple[Any, ...]],
        kwargs={"prepare_threshold": None} if pgbouncer else {},
        min_size=size,
        configure=_configuring(pgbouncer=pgbouncer, vectors=vectors),
        reconnect_timeout=RECONNECT_LIMIT_S,
        open=False,
        name="passages",
    )
    await connections.open(wait=False)
    try:
        yield Pool(connections, size)
    finally:
        with CancelScope(shield=True):
            await connections.close(timeout=1.0)


def _configuring(*, pgbouncer: bool, vectors: bool) -> Callable[[Connection], Awaitable[None]]:
    async def configure(connection: Connection) -> None:
        await connection.set_autocommit(True)  # transactions are always explicit blocks
        if vectors:
            await register_vector_async(connection)
        if not pgbouncer:  # the session's: behind a pooler it would reach strangers
            await connection.execute(_LAST_RESORT)

    return configure


# A server that a cancel cannot reach ends the statement by itself.
_LAST_RESORT = "SET statement_timeout = '120s'"
