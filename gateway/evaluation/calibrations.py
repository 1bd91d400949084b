"""Calibrations kept in PostgreSQL: every version of every collection; the newest counts."""

from dataclasses import dataclass
from datetime import datetime

from psycopg.types.json import Jsonb

from grading.calibrate import Calibration
from retrieval.pool import LIMIT_S, Connection, Pool

_INSERT = """
INSERT INTO calibration (tenant, collection, grader, version, model) VALUES (%s, %s, %s, %s, %s)
"""
_NEWEST = """
SELECT DISTINCT ON (collection) collection, model::text FROM calibration
WHERE tenant = %s AND grader = %s ORDER BY collection, id DESC
"""
_VERSIONS = """
SELECT version, made_at FROM calibration WHERE tenant = %s AND collection = %s AND grader = %s ORDER BY id DESC
"""


@dataclass(frozen=True, slots=True)
class Version:
    """One stored calibration of a collection."""

    version: str
    made_at: datetime


class PostgresCalibrations:
    """The table `calibration`. Each method holds a connection only while it runs; raises RetrievalUnavailable."""

    def __init__(self, pool: Pool, *, limit_s: float = LIMIT_S) -> None:
        self._pool, self._limit_s = pool, limit_s

    async def save(self, calibration: Calibration, collection: str, *, grader: str, tenant: str = "default") -> None:
        """Adds a version, which counts from the next start of a server on. Older ones stay."""
        row = (tenant, collection, grader, calibration.version, Jsonb(calibration.to_json_object()))

        async def insert(connection: Connection) -> None:
            await connection.execute(_INSERT, row)

        await self._pool.run_for(tenant, insert, self._limit_s)

    async def newest(self, *, grader: str, tenant: str = "default") -> dict[str, Calibration]:
        """The newest calibration of each collection that has one. Raises CalibrationInvalid where one cannot be read."""

        async def select(connection: Connection) -> list[tuple[str, str]]:
            return await (await connection.execute(_NEWEST, (tenant, grader))).fetchall()

        return {
            collection: Calibration.from_json(model)
            for collection, model in await self._pool.run_for(tenant, select, self._limit_s)
        }

    async def versions(self, collection: str, *, grader: str, tenant: str = "default") -> list[Version]:
        """What was stored for a collection, newest first."""

        async def select(connection: Connection) -> list[tuple[str, datetime]]:
            return await (await connection.execute(_VERSIONS, (tenant, collection, grader))).fetchall()

        return [Version(*row) for row in await self._pool.run_for(tenant, select, self._limit_s)]
