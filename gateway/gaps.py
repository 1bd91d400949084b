"""Coverage gaps kept in PostgreSQL: what was asked and not covered."""

import logging
import secrets
from dataclasses import asdict
from typing import Any

import psycopg

from retrieval.cleaning import storable
from retrieval.faults import GatewayFault
from retrieval.pool import Connection, Pool
from streaming.ports import Gap

RECORD_LIMIT_S = 2.0  # a refusal waits for its record; a bit less patient than a search

_INSERT = """
INSERT INTO coverage_gap (id, tenant, collection, question, missing, reason, searched, attempts, answer_id)
VALUES (%(id)s, %(tenant)s, %(collection)s, %(question)s, %(missing)s, %(reason)s, %(searched)s, %(attempts)s, %(answer_id)s)
ON CONFLICT (id) DO NOTHING
"""

_log = logging.getLogger(__name__)


class PostgresGaps:
    """A GapLog over the table `coverage_gap`. What cannot be stored is a warning in the log, never a fault of the answer."""

    def __init__(self, pool: Pool, *, limit_s: float = RECORD_LIMIT_S) -> None:
        self._pool, self._limit_s = pool, limit_s

    async def record(self, gap: Gap) -> str | None:
        gap_id = f"gap_{secrets.token_hex(10)}"
        row = {"id": gap_id, **_storable(gap)}

        async def insert(connection: Connection) -> None:
            await connection.execute(_INSERT, row)

        try:
            await self._pool.run(insert, self._limit_s)
        except (GatewayFault, psycopg.Error) as error:
            _log.warning("a coverage gap of answer %s was not stored: %s", gap.answer_id, error)
            return None
        return gap_id


def _storable(gap: Gap) -> dict[str, Any]:
    fields = {name: storable(value) if isinstance(value, str) else value for name, value in asdict(gap).items()}
    return {**fields, "searched": [storable(query) for query in gap.searched]}
