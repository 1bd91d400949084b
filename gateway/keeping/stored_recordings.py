"""Recordings in PostgreSQL: what several gateways share. Every method is one short transaction."""

from collections.abc import Sequence
from typing import Any

from gateway.keeping.recording import Chunk
from gateway.keeping.recordings import LOST_S, Claim, Held, State, Stored
from retrieval.pool import Connection, Pool
from retrieval.tenancy import row_for

CHUNKS_AT_ONCE = 500  # of one look; a reader comes again for the rest
READ_EVERY_S = 1.0  # a reader's trace is written no more often

_CLAIM = """
INSERT INTO recording (answer_id, owner, digest, key, expires_at)
VALUES (%(answer_id)s, %(owner)s, %(digest)s, %(key)s, clock_timestamp() + %(expires_s)s * interval '1 second')
ON CONFLICT DO NOTHING
"""
_FREE = """
DELETE FROM recording WHERE owner = %(owner)s AND key = %(key)s AND (
    expires_at < clock_timestamp() OR (NOT is_ended AND alive_at < clock_timestamp() - %(lost_s)s * interval '1 second')
)
"""
_HOLDER = "SELECT answer_id, digest, last, is_ended FROM recording WHERE owner = %(owner)s AND key = %(key)s"
_FIND = """
SELECT answer_id, digest, last, is_ended FROM recording
WHERE answer_id = %(answer_id)s AND owner = %(owner)s AND expires_at > clock_timestamp()
"""
# One statement, because it is what a kept answer costs, twenty times a second: a transaction of its parts is four round trips.
_GROW = """
WITH grown AS (
    UPDATE recording SET alive_at = clock_timestamp(), last = greatest(last, %(last)s),
        is_ended = is_ended OR %(is_ended)s,
        expires_at = CASE WHEN %(is_ended)s AND isfinite(expires_at)
                     THEN clock_timestamp() + %(expires_s)s * interval '1 second' ELSE expires_at END
    WHERE answer_id = %(answer_id)s RETURNING isfinite(expires_at) AS is_kept
), added AS (
    INSERT INTO recording_chunk (answer_id, first, last, frames)
    SELECT %(answer_id)s, chunk.first, chunk.last, chunk.frames
    FROM grown, unnest(%(firsts)s::integer[], %(lasts)s::integer[], %(frames)s::bytea[]) AS chunk (first, last, frames)
    WHERE grown.is_kept ON CONFLICT DO NOTHING
)
SELECT is_kept FROM grown
"""
_STATE = """
SELECT last, is_ended, NOT is_ended AND alive_at < clock_timestamp() - %(lost_s)s * interval '1 second',
       read_at IS NULL OR read_at < clock_timestamp() - %(every_s)s * interval '1 second'
FROM recording WHERE answer_id = %(answer_id)s AND isfinite(expires_at)
"""
_CHUNKS = """
SELECT first, last, frames FROM recording_chunk
WHERE answer_id = %(answer_id)s AND last > %(after)s ORDER BY last LIMIT %(limit)s
"""
_MARK = "UPDATE recording SET read_at = clock_timestamp() WHERE answer_id = %(answer_id)s"
_STOP = "UPDATE recording SET key = NULL, expires_at = '-infinity' WHERE answer_id = %s"  # it expires when its server has seen that
_SWEEP = "SELECT sweep_recordings(%s)"
_IS_READ = """
SELECT 1 FROM recording WHERE answer_id = %s AND read_at > clock_timestamp() - %s * interval '1 second'
"""


class StoredRecordings:
    """See gateway.keeping.recordings.Shared."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def of(self, tenant: str) -> "TenantRecordings":
        return TenantRecordings(self._pool, tenant)

    async def sweep(self) -> None:
        async def run(connection: Connection) -> None:
            await connection.execute(_SWEEP, (LOST_S,))

        await self._pool.run(run)


class TenantRecordings:
    """See gateway.keeping.recordings.Recordings."""

    def __init__(self, pool: Pool, tenant: str) -> None:
        self._pool, self._tenant = pool, tenant

    async def claim(self, claim: Claim, expires_s: float) -> Held | None:
        values = {
            "answer_id": claim.answer_id,
            "owner": claim.owner,
            "digest": claim.digest,
            "key": claim.key,
            "expires_s": expires_s,
            "lost_s": LOST_S,
        }

        async def insert(connection: Connection) -> Held | None:
            if claim.key is not None:
                await connection.execute(_FREE, values)
            made = await connection.execute(_CLAIM, values)
            if made.rowcount:
                return None
            return held_of(await (await connection.execute(_HOLDER, values)).fetchone())

        return await self._pool.run_for(self._tenant, insert)

    async def append(self, answer_id: str, chunks: Sequence[Chunk], expires_s: float | None) -> State:
        values = {
            "answer_id": answer_id,
            "firsts": [chunk.first for chunk in chunks],
            "lasts": [chunk.last for chunk in chunks],
            "frames": [chunk.frames for chunk in chunks],
            "last": chunks[-1].last if chunks else 0,
            "is_ended": expires_s is not None,
            "expires_s": expires_s or 0.0,
        }

        async def insert(connection: Connection) -> State:
            row = await row_for(connection, self._tenant, _GROW, values)
            if row is None:
                return State.GONE
            return State.KEPT if row[0] else State.STOPPED

        return await self._pool.run(insert)

    async def find(self, answer_id: str, owner: str) -> Held | None:
        async def select(connection: Connection) -> Held | None:
            found = await connection.execute(_FIND, {"answer_id": answer_id, "owner": owner})
            return held_of(await found.fetchone())

        return await self._pool.run_for(self._tenant, select)

    async def read(self, answer_id: str, after: int) -> Stored | None:
        values = {
            "answer_id": answer_id,
            "after": after,
            "limit": CHUNKS_AT_ONCE,
            "lost_s": LOST_S,
            "every_s": READ_EVERY_S,
        }

        async def select(connection: Connection) -> Stored | None:
            row = await (await connection.execute(_STATE, values)).fetchone()
            if row is None:
                return None
            last, is_ended, is_lost, is_to_mark = row
            if is_to_mark:
                await connection.execute(_MARK, values)
            chunks = await (await connection.execute(_CHUNKS, values)).fetchall() if last > after else []
            return Stored([Chunk(first, end, bytes(frames)) for first, end, frames in chunks], last, is_ended, is_lost)

        return await self._pool.run_for(self._tenant, select)

    async def is_read(self, answer_id: str, within_s: float) -> bool:
        async def select(connection: Connection) -> bool:
            return await (await connection.execute(_IS_READ, (answer_id, within_s))).fetchone() is not None

        return await self._pool.run_for(self._tenant, select)

    async def release(self, answer_id: str) -> None:
        await self._execute("UPDATE recording SET key = NULL WHERE answer_id = %s", answer_id)

    async def stop(self, answer_id: str) -> None:
        await self._execute(_STOP, answer_id)

    async def forget(self, answer_id: str) -> None:
        await self._execute("DELETE FROM recording WHERE answer_id = %s", answer_id)

    async def _execute(self, statement: str, *values: object) -> None:
        async def run(connection: Connection) -> None:
            await connection.execute(statement.encode(), values)

        await self._pool.run_for(self._tenant, run)


def held_of(row: tuple[Any, ...] | None) -> Held | None:
    return None if row is None else Held(*row)
