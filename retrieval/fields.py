"""The metadata fields of a collection, with their most frequent values: what a filter could name."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import anyio

from retrieval.cleaning import storable
from retrieval.passage import Scalar
from retrieval.pool import LIMIT_S, Connection, Pool

KEPT_S = 60.0  # fields change with an ingest; a minute late is soon enough for a suggestion
KEPT_COLLECTIONS = 1_000
FIELDS_LIMIT = 30
VALUES_LIMIT = 30  # of each field
VALUE_CHARACTERS = 100  # a longer value is a text, not something to filter by
DOCUMENTS_LIMIT = 5_000  # the newest that are looked at: about 50 ms

_FIELDS = """
WITH counted AS (
    SELECT field.key AS name, field.value, count(*) AS documents
    FROM (SELECT metadata FROM document AS d JOIN collection AS c ON c.id = d.collection_id
          WHERE c.tenant = %(tenant)s AND c.name = %(collection)s ORDER BY d.ingested_at DESC, d.id LIMIT %(most)s) AS newest,
         jsonb_each(newest.metadata) AS field
    WHERE jsonb_typeof(field.value) IN ('string', 'number', 'boolean') AND length(field.value #>> '{}') BETWEEN 1 AND %(longest)s
    GROUP BY field.key, field.value
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY name ORDER BY documents DESC, value) AS place,
           sum(documents) OVER (PARTITION BY name) AS carriers
    FROM counted
)
SELECT name, value FROM ranked WHERE place <= %(values)s ORDER BY carriers DESC, name, place
"""


@dataclass(frozen=True, slots=True)
class _Read:
    fields: Mapping[str, tuple[Scalar, ...]]
    at: float


class PostgresFields:
    """grading.correct.Fields over the documents of a collection; asked again for the same one within a minute, it remembers."""

    def __init__(self, pool: Pool, *, limit_s: float = LIMIT_S, now: Callable[[], float] = anyio.current_time) -> None:
        self._pool, self._limit_s, self._now = pool, limit_s, now
        self._read: OrderedDict[tuple[str, str], _Read] = OrderedDict()

    async def fields(self, collection: str, tenant: str) -> Mapping[str, tuple[Scalar, ...]]:
        """Each field's name, the commonest first, with its most frequent values, the commonest first; {} when there are none.

        Raises RetrievalUnavailable or RetrievalMisconfigured as Pool.run does; a fault is not remembered.
        """
        known = self._read.get((collection, tenant))
        if known is not None and self._now() - known.at < KEPT_S:
            return known.fields
        rows = await self._pool.run_for(tenant, lambda one: _rows(one, collection, tenant), self._limit_s)
        found: dict[str, tuple[Scalar, ...]] = {}
        for name, value in rows:
            if name in found or len(found) < FIELDS_LIMIT:
                found[name] = (*found.get(name, ()), value)
        self._remember((collection, tenant), _Read(found, self._now()))
        return found

    def _remember(self, place: tuple[str, str], read: _Read) -> None:
        self._read.pop(place, None)
        self._read[place] = read
        if len(self._read) > KEPT_COLLECTIONS:
            self._read.popitem(last=False)


async def _rows(connection: Connection, collection: str, tenant: str) -> list[tuple[str, Scalar]]:
    limits = {"most": DOCUMENTS_LIMIT, "longest": VALUE_CHARACTERS, "values": VALUES_LIMIT}
    named = {"collection": storable(collection), "tenant": storable(tenant)}
    return await (await connection.execute(_FIELDS, named | limits)).fetchall()
