"""Keys in PostgreSQL: made, listed, revoked by their owner's hand; of a secret its digest alone is stored."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from anyio.lowlevel import checkpoint
from psycopg.rows import class_row

from gateway.access.caller import Caller, Role
from gateway.access.secret import digest_of_secret, new_secret
from retrieval.cleaning import storable
from retrieval.pool import Connection, Pool

CHANNEL = "gateway_keys"  # on which the database tells of every change

_INSERT = """
INSERT INTO api_key (id, digest, tenant, name, roles, collections, expires_at)
VALUES (%s, %s, %s, %s, %s, %s, now() + %s * interval '1 day')
"""
_LIST = """
SELECT id, tenant, name, roles, collections, created_at, expires_at, revoked_at FROM api_key
WHERE %(tenant)s::text IS NULL OR tenant = %(tenant)s ORDER BY created_at, id
"""
_REVOKE = "UPDATE api_key SET revoked_at = now() WHERE id = %s AND revoked_at IS NULL"
_READ = """
SELECT digest, tenant, roles, collections, extract(epoch FROM expires_at - now())::float8 FROM api_key
WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
"""
_STATE = """
SELECT count(*), coalesce(sum(hashtextextended(concat_ws('/', id, digest, tenant, roles, collections, expires_at, revoked_at), 0)), 0)::text
FROM api_key
"""
_ROWS_AT_ONCE = 500  # a few milliseconds of reading, between which the event loop turns


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as listed."""

    id: str
    tenant: str
    name: str
    roles: Sequence[str]
    collections: Sequence[str] | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewKey:
    """What a key is to be for. `days` None: until it is revoked; `collections` None: every one of the tenant, now and later."""

    tenant: str
    name: str
    roles: frozenset[Role]
    collections: frozenset[str] | None = None
    days: float | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """The keys that are good, by digest, with the seconds that each still is (None: for ever); whether there ever was one.

    `state` is another one after every change of the table.
    """

    callers: dict[bytes, tuple[Caller, float | None]]
    are_there: bool
    state: tuple[int, str] = (0, "0")


class StoredKeys:
    """The table `api_key`, for who owns it. Methods raise as Pool.run."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def create(self, new: NewKey) -> tuple[str, str]:
        """The id of a new key and its secret, which is nowhere else: it is good at once, at every gateway of the database."""
        key_id, secret = f"key_{secrets.token_hex(6)}", new_secret()
        collections = None if new.collections is None else sorted(new.collections)
        row = (key_id, digest_of_secret(secret), new.tenant, new.name, sorted(new.roles), collections, new.days)

        async def insert(connection: Connection) -> None:
            await connection.execute(_INSERT, row)

        await self._pool.run(insert)
        return key_id, secret

    async def all(self, tenant: str | None = None) -> tuple[StoredKey, ...]:
        """Every key, revoked ones too, of one tenant where it is named; the oldest first."""

        async def read(connection: Connection) -> tuple[StoredKey, ...]:
            async with connection.cursor(row_factory=class_row(StoredKey)) as cursor:
                await cursor.execute(_LIST, {"tenant": None if tenant is None else storable(tenant)})
                return tuple(await cursor.fetchall())

        return await self._pool.run(read)

    async def revoke(self, key_id: str) -> bool:
        """Ends a key, at every gateway; whether there was a good one of that id."""

        async def update(connection: Connection) -> bool:
            return (await connection.execute(_REVOKE, (storable(key_id),))).rowcount > 0

        return await self._pool.run(update)


async def read_keys(connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> Read:
    """The keys as they are now; 10,000 take some tenths of a second, in which the event loop goes on turning."""
    callers: dict[bytes, tuple[Caller, float | None]] = {}
    state = await state_of_keys(connection)  # before them: what changes between the two is read again
    cursor = await connection.execute(_READ)
    while rows := await cursor.fetchmany(_ROWS_AT_ONCE):
        callers |= {digest: (caller_of(digest, *rest), left_s) for digest, *rest, left_s in rows}
        await checkpoint()
    return Read(callers, state[0] > 0, state)


async def state_of_keys(connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> tuple[int, str]:
    """What tells whether the keys are as they were when they were read; of 10,000 it takes the server some milliseconds."""
    (state,) = await (await connection.execute(_STATE)).fetchall()
    return state[0], state[1]


def caller_of(digest: bytes, tenant: str, roles: Sequence[str], collections: Sequence[str] | None) -> Caller:
    """The caller that a row says; a role of a later version means nothing here."""
    known = frozenset(Role(role) for role in roles if role in frozenset(Role))
    return Caller(tenant, digest.hex(), known, None if collections is None else frozenset(collections))
