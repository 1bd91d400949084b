"""Coverage gaps kept in PostgreSQL: what was asked and not covered, repeats of a question in one group."""

import logging
import secrets
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import anyio
import psycopg
from pgvector import Vector as PgVector
from psycopg.rows import class_row

from gateway.gap_groups import LIMIT, WORDINGS, GapGroup, StoredGap
from retrieval.cleaning import storable
from retrieval.faults import GatewayFault
from retrieval.pool import Connection, Pool
from retrieval.ports import Embedder
from retrieval.vectors import checked
from streaming.ports import Gap

RECORD_LIMIT_S = 2.0  # a refusal waits for its record; a bit less patient than a search
EMBED_LIMIT_S = 0.5  # an embedding takes 5 ms; one that takes this long leaves the gap to be grouped by its words alone

# Joins 11 of 20 pairs of paraphrases written for this; of squad2's different questions about one paragraph, made to look alike,
# 3.2 % (bge-small-en-v1.5). A group that is too wide costs a reader a glance: every wording in it is shown.
SAME_LEAST = 0.9

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%(tenant)s || '/' || %(collection)s, 0))"
_GROUP = """
SELECT group_id FROM (
    SELECT group_id, lower(question) = lower(%(question)s) AS same_words,
           CASE WHEN model = %(model)s AND vector_dims(embedding) = %(dimensions)s
                THEN 1 - (embedding <=> %(vector)s::vector) END AS cosine
    FROM coverage_gap WHERE tenant = %(tenant)s AND collection = %(collection)s AND id = group_id
) AS first WHERE same_words OR cosine BETWEEN %(least)s AND 2 ORDER BY same_words DESC, cosine DESC NULLS LAST, group_id LIMIT 1
"""
_INSERT = """
INSERT INTO coverage_gap
    (id, tenant, collection, question, missing, reason, searched, attempts, answer_id, group_id, model, embedding)
VALUES (%(id)s, %(tenant)s, %(collection)s, %(question)s, %(missing)s, %(reason)s, %(searched)s, %(attempts)s, %(answer_id)s,
        %(group_id)s, %(model)s, %(vector)s)
ON CONFLICT (id) DO NOTHING
"""

_GROUPS = """
SELECT g.group_id AS id, leader.question, leader.collection, g.count, g.first_at, g.last_at,
       latest.reason, latest.missing, latest.searched, latest.attempts, wordings.questions
FROM (
    SELECT group_id, count(*) AS count, min(at) AS first_at, max(at) AS last_at FROM coverage_gap
    WHERE tenant = %(tenant)s
      AND (%(collections)s::text[] IS NULL OR collection = ANY(%(collections)s)) AND (%(id)s::text IS NULL OR group_id = %(id)s)
    GROUP BY group_id ORDER BY last_at DESC, group_id LIMIT %(limit)s
) AS g
JOIN coverage_gap AS leader ON leader.id = g.group_id
CROSS JOIN LATERAL (
    SELECT reason, missing, searched, attempts FROM coverage_gap AS gap WHERE gap.group_id = g.group_id ORDER BY at DESC, id LIMIT 1
) AS latest
CROSS JOIN LATERAL (
    SELECT array_agg(question ORDER BY asked_at DESC, question) AS questions FROM (
        SELECT question, max(at) AS asked_at FROM coverage_gap AS gap WHERE gap.group_id = g.group_id
        GROUP BY question ORDER BY asked_at DESC, question LIMIT %(wordings)s
    ) AS wording
) AS wordings
ORDER BY g.last_at DESC, g.group_id
"""
_GROUP_OF = "SELECT group_id FROM coverage_gap WHERE tenant = %s AND id = %s"
_GAPS = """
SELECT id, question, reason, missing, searched, attempts, answer_id, at FROM coverage_gap
WHERE tenant = %s AND group_id = %s ORDER BY at DESC, id LIMIT %s
"""

_log = logging.getLogger(__name__)


class PostgresGaps:
    """A GapLog, and GapGroups, over the table `coverage_gap`. What cannot be stored is a warning in the log, never a fault of the answer.

    A gap joins the group whose first question, in its tenant and collection, has the same words or a cosine of SAME_LEAST or more;
    compared with the first alone, a group does not drift. Without an `embedder`, or when it fails, the words alone count.
    """

    def __init__(self, pool: Pool, embedder: Embedder | None = None, *, limit_s: float = RECORD_LIMIT_S) -> None:
        self._pool, self._embedder, self._limit_s = pool, embedder, limit_s

    async def record(self, gap: Gap) -> str | None:
        gap_id = f"gap_{secrets.token_hex(10)}"
        row = {"id": gap_id, **_storable(gap), **await self._meaning(gap), "least": SAME_LEAST}

        async def insert(connection: Connection) -> None:
            await connection.execute(_LOCK, row)  # two first askers at once would make two groups
            found = await (await connection.execute(_GROUP, row)).fetchone()
            await connection.execute(_INSERT, {**row, "group_id": found[0] if found else gap_id})

        try:
            await self._pool.run_for(gap.tenant, insert, self._limit_s)
        except (GatewayFault, psycopg.Error) as error:
            _log.warning("a coverage gap of answer %s was not stored: %s", gap.answer_id, error)
            return None
        return gap_id

    async def newest(
        self, limit: int = LIMIT, collections: Iterable[str] | None = None, tenant: str = "default"
    ) -> tuple[GapGroup, ...]:
        """As the port promises."""

        async def read(connection: Connection) -> tuple[GapGroup, ...]:
            named = None if collections is None else [storable(name) for name in collections]
            return await _groups(connection, tenant, limit, collections=named)

        return await self._pool.run_for(tenant, read)

    async def show(
        self, gap_id: str, limit: int = LIMIT, tenant: str = "default"
    ) -> tuple[GapGroup, tuple[StoredGap, ...]] | None:
        """The group that holds a gap, with its gaps, newest first, at most `limit`; None when there is no such gap.

        Raises as `newest`.
        """

        async def read(connection: Connection) -> tuple[GapGroup, tuple[StoredGap, ...]] | None:
            row = await (await connection.execute(_GROUP_OF, (storable(tenant), storable(gap_id)))).fetchone()
            if row is None:
                return None
            (group,) = await _groups(connection, tenant, 1, group_id=row[0])
            async with connection.cursor(row_factory=class_row(StoredGap)) as cursor:
                await cursor.execute(_GAPS, (storable(tenant), group.id, limit))
                return group, tuple(await cursor.fetchall())

        return await self._pool.run_for(tenant, read)

    async def _meaning(self, gap: Gap) -> dict[str, Any]:
        """The question's vector and whose it is; nothing where it cannot be had in time."""
        vector: PgVector | None = None
        if self._embedder is not None:
            try:
                with anyio.move_on_after(EMBED_LIMIT_S):
                    vector = checked(
                        await self._embedder.embed_query(storable(gap.question)), self._embedder.dimensions
                    )
            except Exception as error:
                _log.warning("the question of answer %s was not embedded: %s", gap.answer_id, error)
        if vector is None or self._embedder is None:
            return {"vector": None, "model": None, "dimensions": None}
        return {"vector": vector, "model": self._embedder.model, "dimensions": self._embedder.dimensions}


async def _groups(
    connection: Connection,
    tenant: str,
    limit: int,
    *,
    collections: list[str] | None = None,
    group_id: str | None = None,
) -> tuple[GapGroup, ...]:
    wanted = {"tenant": storable(tenant), "collections": collections, "id": group_id, "limit": limit}
    async with connection.cursor(row_factory=class_row(GapGroup)) as cursor:
        await cursor.execute(_GROUPS, {**wanted, "wordings": WORDINGS})
        return tuple(await cursor.fetchall())


def _storable(gap: Gap) -> dict[str, Any]:
    fields = {name: storable(value) if isinstance(value, str) else value for name, value in asdict(gap).items()}
    return {**fields, "searched": [storable(query) for query in gap.searched]}
