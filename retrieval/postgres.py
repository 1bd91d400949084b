"""The retriever over PostgreSQL and pgvector."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import sql
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from retrieval.cleaning import storable
from retrieval.faults import CollectionNotFound, EmbeddingFailed, GatewayFault
from retrieval.fusion import Legs, fuse
from retrieval.passage import Passage, Scalar
from retrieval.pool import LIMIT_S, Connection, Pool
from retrieval.ports import Embedder, Query, SearchMode, Vector
from retrieval.store import require_fit
from retrieval.vectors import checked, distance, is_blank

EF_SEARCH = 40  # pgvector's default, a floor here: below k the index would return fewer than k rows
EF_SEARCH_LIMIT = 1000  # pgvector's own limit
CANDIDATES_PER_PASSAGE = 4  # each leg brings this many per passage asked for
CANDIDATES_LIMIT = 400

_COLUMNS = sql.SQL(
    "p.id, p.document_id, p.title, p.text, p.start_char, p.end_char, d.url, p.metadata, "
    "1 - ({distance}) AS cosine, ts_rank_cd(p.tsv, any_of_terms(%(text)s), 32) AS lexical"
)
_MATCHES = sql.SQL("p.dimensions = {length} AND p.collection_id = %(collection)s")
_FILTERS = sql.SQL(" AND p.metadata @> %(filters)s")
_DENSE = sql.SQL("SELECT p.id FROM passage p WHERE {matches} ORDER BY {order} LIMIT %(dense)s")
_LEXICAL = sql.SQL(
    "SELECT p.id FROM passage p WHERE {matches} AND p.tsv @@ any_of_terms(%(text)s) "
    "ORDER BY ts_rank_cd(p.tsv, any_of_terms(%(text)s), 32) DESC, p.id LIMIT %(lexical)s"
)
_SEARCH = sql.SQL(
    "WITH dense AS MATERIALIZED ({dense}), lexical AS MATERIALIZED ({lexical}) "
    "SELECT {columns} FROM passage p JOIN document d ON d.id = p.document_id "
    "WHERE p.id IN (SELECT id FROM dense UNION SELECT id FROM lexical)"
)


@dataclass(frozen=True, slots=True)
class _Row:
    id: str
    document_id: str
    title: str
    text: str
    start_char: int
    end_char: int
    url: str | None
    metadata: dict[str, Scalar]
    cosine: float
    lexical: float


class PostgresRetriever:
    """A Retriever: cosine nearest neighbours (`dense`), or these and full text fused (`hybrid`).

    The question is embedded before a connection is taken, and the connection is given back before `retrieve` returns. A question without
    content (its vector is all zeros) is near nothing: only the lexical leg can find passages for it.
    """

    def __init__(self, pool: Pool, embedder: Embedder, *, limit_s: float = LIMIT_S) -> None:
        """`limit_s` bounds the search in the database, waiting for a connection included; embedding is not part of it."""
        self._pool, self._embedder, self._limit_s = pool, embedder, limit_s

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        if query.k < 1:
            return ()
        text = storable(query.text)
        vector = await self._embed(text)
        search = _Search(query, text, vector, self._embedder, self._limit_s)
        rows = await self._pool.run(search.run, self._limit_s)
        return _ranked(rows, query)

    async def _embed(self, text: str) -> Vector:
        try:
            return await self._embedder.embed_query(text)
        except GatewayFault:
            raise
        except Exception as error:
            raise EmbeddingFailed("the question could not be embedded") from error


class _Search:
    """One search as one read-only transaction: both legs see the same snapshot."""

    def __init__(self, query: Query, text: str, vector: Vector, embedder: Embedder, limit_s: float) -> None:
        self._query, self._embedder, self._limit_s = query, embedder, limit_s
        self._hybrid = query.mode is SearchMode.HYBRID
        wanted = min(query.k * CANDIDATES_PER_PASSAGE, max(query.k, CANDIDATES_LIMIT)) if self._hybrid else query.k
        self._parameters: dict[str, Any] = {
            "text": text,
            "vector": checked(vector, embedder.dimensions),
            "filters": Jsonb(_storable_filters(query.filters)),
            "dense": 0 if is_blank(vector) else wanted,
            "lexical": wanted if self._hybrid else 0,
        }

    async def run(self, connection: Connection) -> list[_Row]:
        async with connection.transaction():
            await connection.execute(self._settings())
            collection = await self._collection(connection)
            if any(isinstance(value, float) and not math.isfinite(value) for value in self._query.filters.values()):
                return []  # no JSON number is NaN or infinite, so nothing stored equals it
            rows = await self._rows(connection, collection, exact=False)
            if self._parameters["dense"] and len(rows) < self._query.k:
                rows = await self._rows(connection, collection, exact=True)
            return rows

    def _settings(self) -> sql.Composed:
        """For this transaction only (`SET LOCAL`): behind a pooler the next one may be somebody else's.

        `iterative_scan` makes the index go on until enough rows pass the filters; the relaxed order finds more than the strict
        one (https://github.com/pgvector/pgvector#iterative-index-scans), and the rows are sorted again here anyway.
        """
        ef_search = min(max(EF_SEARCH, self._parameters["dense"]), EF_SEARCH_LIMIT)
        return sql.SQL(
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = {timeout_ms}; "
            "SET LOCAL hnsw.iterative_scan = relaxed_order; SET LOCAL hnsw.ef_search = {ef_search}"
        ).format(timeout_ms=sql.Literal(max(1, int(self._limit_s * 1000))), ef_search=sql.Literal(ef_search))

    async def _collection(self, connection: Connection) -> int:
        name, tenant = storable(self._query.collection), storable(self._query.tenant)
        found = await connection.execute(
            "SELECT id, model, dimensions FROM collection WHERE tenant = %s AND name = %s", (tenant, name)
        )
        row = await found.fetchone()
        if row is None:
            raise CollectionNotFound(f"there is no collection named {name!r}")
        require_fit(name, row[1], row[2], self._embedder)
        return int(row[0])

    async def _rows(self, connection: Connection, collection: int, *, exact: bool) -> list[_Row]:
        """The candidates, unordered. `exact` reads every match instead of the index, which gives up after `max_scan_tuples`."""
        length = self._embedder.dimensions
        near, matches = distance(length), _MATCHES.format(length=sql.Literal(length))
        if self._query.filters:
            matches += _FILTERS
        statement = _SEARCH.format(
            dense=_DENSE.format(matches=matches, order=sql.SQL("({}) + 0").format(near) if exact else near),
            lexical=_LEXICAL.format(matches=matches),
            columns=_COLUMNS.format(distance=near),
        )
        async with connection.cursor(row_factory=class_row(_Row)) as cursor:
            await cursor.execute(statement, {**self._parameters, "collection": collection})
            return await cursor.fetchall()


def _ranked(rows: list[_Row], query: Query) -> tuple[Passage, ...]:
    """The best `k`, best first; equal figures in the order of their ids, so that the same question gives the same set."""
    legs = [Legs(row.cosine if math.isfinite(row.cosine) else 0.0, row.lexical) for row in rows]
    passages = [_passage(row, leg) for row, leg in zip(rows, legs, strict=True)]
    if query.mode is SearchMode.HYBRID:
        passages = [one.scored("fused", score) for one, score in zip(passages, fuse(legs), strict=True)]
    return tuple(sorted(passages, key=lambda one: (-one.score, one.id))[: query.k])


def _passage(row: _Row, legs: Legs) -> Passage:
    return Passage(
        id=row.id,
        document_id=row.document_id,
        title=row.title,
        text=row.text,
        start=row.start_char,
        end=row.end_char,
        url=row.url,
        score=legs.cosine,
        scores={"cosine": legs.cosine, "lexical": legs.lexical},
        metadata=row.metadata,
    )


def _storable_filters(filters: Mapping[str, Scalar]) -> dict[str, Scalar]:
    finite = {name: value for name, value in filters.items() if not isinstance(value, float) or math.isfinite(value)}
    return {storable(name): storable(value) if isinstance(value, str) else value for name, value in finite.items()}
