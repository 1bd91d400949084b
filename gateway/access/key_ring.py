"""The key ring: the stored keys in memory, as they were a moment ago. A change is heard of at once; without news they are read again."""

import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import psycopg
from anyio import CancelScope

from gateway.access.caller import Caller
from gateway.access.stored_keys import CHANNEL, Read, read_keys, state_of_keys
from gateway.beside import beside
from gateway.problems import KeysUnreadable
from retrieval.faults import GatewayFault, RetrievalMisconfigured, RetrievalUnavailable
from retrieval.pool import Connection, connection_string

EVERY_S = 10.0  # between two looks whether anything has changed, where no change is heard of
GOOD_FOR_S = 30.0  # after that nobody trusts what was read: a key may have been revoked meanwhile
READ_LIMIT_S = 5.0
AGAIN_S = 0.5  # after a lost connection

_log = logging.getLogger(__name__)


class KeyRing:
    """The keys as they were read last (gateway.access.keys.Known). Asking it waits for nothing."""

    def __init__(self, now: Callable[[], float] = anyio.current_time, good_for_s: float = GOOD_FOR_S) -> None:
        self._now, self._good_for_s = now, good_for_s
        self._read = Read({}, are_there=False)
        self._read_at = self._seen_at = -math.inf

    def take(self, read: Read) -> None:
        """Puts what was read in place of what was there. That there were keys is not forgotten: a table that was emptied opens no door."""
        if self._read.are_there and not read.are_there:
            _log.warning("every API key is gone; requests go on to need one until this gateway is started again")
            read = replace(read, are_there=True)
        self._read = read
        self._read_at = self._seen_at = self._now()

    def renew(self, state: tuple[int, str]) -> bool:
        """Whether what was read is what is there, as its `state` says; then it is trusted anew."""
        if state != self._read.state:
            return False
        self._seen_at = self._now()
        return True

    @property
    def are_there(self) -> bool:
        return self._read.are_there

    def caller(self, digest: bytes) -> Caller | None:
        now_s = self._now()
        if now_s - self._seen_at > self._good_for_s:
            raise KeysUnreadable("the keys cannot be read at the moment; ask again")
        found = self._read.callers.get(digest)
        if found is None:
            return None
        caller, left_s = found
        return caller if left_s is None or now_s - self._read_at < left_s else None


@asynccontextmanager
async def open_key_ring(url: str, *, every_s: float = EVERY_S) -> AsyncIterator[KeyRing]:
    """A ring that has been filled, and is kept so until the end of the block, over one connection of its own.

    It listens for changes; where a pooler keeps them from it, it hears of one within `every_s`. While the database is away it holds
    what it has, for GOOD_FOR_S. Raises RetrievalUnavailable or RetrievalMisconfigured when the first reading fails.
    """
    ring = KeyRing()
    connection = await _connected(url, ring)
    async with beside(lambda: _keep(ring, url, connection, every_s), "key ring"):
        yield ring


async def _keep(ring: KeyRing, url: str, connection: Connection, every_s: float) -> None:
    while True:
        try:
            await _follow(ring, connection, every_s)
        except (psycopg.Error, TimeoutError, GatewayFault) as error:
            _log.warning("the API keys cannot be read for now: %s", type(error).__name__)
        finally:
            with CancelScope(shield=True):
                await connection.close()
        connection = await _again(ring, url)


async def _again(ring: KeyRing, url: str) -> Connection:
    """A new connection, as soon as there can be one."""
    while True:
        await anyio.sleep(AGAIN_S)
        try:
            return await _connected(url, ring)
        except GatewayFault:
            continue


async def _follow(ring: KeyRing, connection: Connection, every_s: float) -> None:
    while True:
        is_told = False
        async for _ in connection.notifies(timeout=every_s, stop_after=1):
            is_told = True
        with anyio.fail_after(READ_LIMIT_S):
            if is_told or not ring.renew(await state_of_keys(connection)):
                ring.take(await read_keys(connection))


async def _connected(url: str, ring: KeyRing) -> Connection:
    """A connection that listens, after which `ring` was filled: no change is missed between the two."""
    try:
        with anyio.fail_after(READ_LIMIT_S):
            connection = await psycopg.AsyncConnection.connect(connection_string(url), autocommit=True)
            try:
                await connection.execute(f"LISTEN {CHANNEL}".encode())
                ring.take(await read_keys(connection))
            except BaseException:
                with CancelScope(shield=True):
                    await connection.close()
                raise
            return connection
    except psycopg.errors.InsufficientPrivilege as error:
        raise RetrievalMisconfigured(
            "this database user may not read the API keys: run `gateway migrate` as the owner"
        ) from error
    except psycopg.errors.UndefinedTable as error:
        raise RetrievalMisconfigured("the database is not set up: run `gateway migrate`") from error
    except (psycopg.Error, TimeoutError) as error:
        raise RetrievalUnavailable("the database cannot be reached, or refused the connection") from error
