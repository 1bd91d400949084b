"""One search in PostgreSQL: candidates by vectors, by words and by name, each with all its figures."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from retrieval.cleaning import storable
from retrieval.faults import CollectionNotFound
from retrieval.lexical import SIZE, TERMS, Size, Term, Weighed, weighed
from retrieval.passage import Scalar
from retrieval.pool import Connection
from retrieval.ports import Embedder, Query, SearchMode, Vector
from retrieval.store import require_fit
from retrieval.vectors import checked, distance, is_blank

# A floor: below k the index would return fewer than k rows. nDCG@10 of dense search on multihop and the server's time, with pgvector's
# default of 40 .716 and 3.1 ms, with 100 .732 and 3.9 ms, with 200 .736 and 5.6 ms.
EF_SEARCH = 200
EF_SEARCH_LIMIT = 1000  # pgvector's own limit
CANDIDATES_PER_PASSAGE = 4  # each leg brings this many per passage asked for
FEWEST_CANDIDATES = 40  # but no fewer: the fused ranking of ten needs what either leg has at its thirtieth place
CANDIDATES_LIMIT = 400

_COLUMNS = sql.SQL(
    "p.id, p.document_id, p.title, p.text, p.start_char, p.end_char, d.url, p.metadata, "
    "1 - ({distance}) AS cosine, {lexical} AS lexical"
)
_MATCHES = sql.SQL("p.dimensions = {length} AND p.collection_id = %(collection)s AND p.metadata @> %(filters)s")
_DENSE = sql.SQL("SELECT p.id FROM own_passage p WHERE {matches} ORDER BY {order} LIMIT %(dense)s")
_LEXICAL = sql.SQL(
    "SELECT p.id FROM own_passage p WHERE {matches} AND p.tsv @@ %(selecting)s::tsquery "
    "ORDER BY {lexical} DESC, p.id LIMIT %(lexical)s"
)
_NAMED = sql.SQL("SELECT p.id FROM own_passage p WHERE {matches} AND name_of(p.title) = ANY(%(names)s) LIMIT %(named)s")
_SEARCH = sql.SQL(
    "WITH dense AS MATERIALIZED ({dense}), lexical AS MATERIALIZED ({lexical}), named AS MATERIALIZED ({named}) "
    "SELECT {columns} FROM own_passage p JOIN document d ON d.id = p.document_id "
    "WHERE p.id IN (SELECT id FROM dense UNION SELECT id FROM lexical UNION SELECT id FROM named)"
)


@dataclass(frozen=True, slots=True)
class Row:
    """A candidate as stored, with its cosine and its BM25."""

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


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many candidates each way may bring; `names` are titles as `name_of` spells them."""

    dense: int = 0
    lexical: int = 0
    named: int = 0
    names: Sequence[str] = ()


def first_wanted(query: Query, names: Sequence[str]) -> Wanted:
    """What the first search of `query` wants, when it holds `names`."""
    wide = min(max(query.k * CANDIDATES_PER_PASSAGE, FEWEST_CANDIDATES), max(query.k, CANDIDATES_LIMIT))
    match query.mode:
        case SearchMode.DENSE:
            return Wanted(dense=query.k)
        case SearchMode.LEXICAL:
            return Wanted(lexical=query.k)
        case SearchMode.HYBRID | SearchMode.HOPS:
            return Wanted(wide, wide, wide, names)


class Search:
    """The statements of one search, on one connection inside one transaction: all see the same snapshot."""

    def __init__(self, connection: Connection, query: Query, vector: Vector, embedder: Embedder) -> None:
        self._connection, self._query, self._embedder = connection, query, embedder
        self._text = storable(query.text)
        self._is_blank = is_blank(vector)
        self._parameters: dict[str, Any] = {
            "text": self._text,
            "vector": checked(vector, embedder.dimensions),
            "filters": Jsonb(_storable_filters(query.filters)),
        }
        self._weighed = weighed((), Size(0, 0))

    async def begin(self, limit_s: float, widest: int) -> None:
        """Sets the transaction up and looks the collection up, with what the question's words weigh there.

        Raises CollectionNotFound and RetrievalMisconfigured.
        """
        await self._connection.execute(_settings(limit_s, widest))
        self._parameters["collection"] = await self._collection()
        terms = await self._connection.execute(TERMS, self._parameters)
        size = await (await self._connection.execute(SIZE, self._parameters)).fetchone()
        self._weighed = _weighed([Term(*term) for term in await terms.fetchall()], size)
        self._parameters |= self._weighed.parameters()

    async def candidates(self, wanted: Wanted) -> list[Row]:
        """The candidates, unordered, none twice; exact where the index cannot find enough that pass the filters."""
        if any(isinstance(value, float) and not math.isfinite(value) for value in self._query.filters.values()):
            return []  # no JSON number is NaN or infinite, so nothing stored equals it
        rows = await self._rows(wanted, exact=False)
        if wanted.dense and not self._is_blank and len(rows) < self._query.k:
            return await self._rows(wanted, exact=True)
        return rows

    async def _collection(self) -> int:
        name, tenant = storable(self._query.collection), storable(self._query.tenant)
        found = await self._connection.execute(
            "SELECT id, model, dimensions FROM collection WHERE tenant = %s AND name = %s", (tenant, name)
        )
        row = await found.fetchone()
        if row is None:
            raise CollectionNotFound(f"there is no collection named {name!r}")
        require_fit(name, row[1], row[2], self._embedder)
        return int(row[0])

    async def _rows(self, wanted: Wanted, *, exact: bool) -> list[Row]:
        """`exact` reads every match instead of the index, which gives up after `max_scan_tuples`."""
        length = self._embedder.dimensions
        near, matches = distance(length), _MATCHES.format(length=sql.Literal(length))
        lexical = self._weighed.figure()
        statement = _SEARCH.format(
            dense=_DENSE.format(matches=matches, order=sql.SQL("({}) + 0").format(near) if exact else near),
            lexical=_LEXICAL.format(matches=matches, lexical=lexical),
            named=_NAMED.format(matches=matches),
            columns=_COLUMNS.format(distance=near, lexical=lexical),
        )
        limits = {
            "dense": 0 if self._is_blank else wanted.dense,
            "lexical": 0 if self._weighed.is_blank else wanted.lexical,
            "named": wanted.named,
            "names": list(wanted.names),
        }
        async with self._connection.cursor(row_factory=class_row(Row)) as cursor:
            await cursor.execute(statement, self._parameters | limits)
            return await cursor.fetchall()


def _weighed(terms: list[Term], size: tuple[Any, ...] | None) -> Weighed:
    return weighed(terms, Size(*size) if size else Size(0, 0))


def _settings(limit_s: float, widest: int) -> sql.Composed:
    """For this transaction only (`SET LOCAL`): behind a pooler the next one may be somebody else's.

    `iterative_scan` makes the index go on until enough rows pass the filters; the relaxed order finds more than the strict
    one (https://github.com/pgvector/pgvector#iterative-index-scans), and the rows are sorted again anyway. A plan made without
    knowing the terms and the limits is no plan for them: left to itself the server took 76 ms where it now takes 40.
    """
    ef_search = min(max(EF_SEARCH, widest), EF_SEARCH_LIMIT)
    return sql.SQL(
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = {timeout_ms}; "
        "SET LOCAL hnsw.iterative_scan = relaxed_order; SET LOCAL hnsw.ef_search = {ef_search}; "
        "SET LOCAL plan_cache_mode = force_custom_plan"
    ).format(timeout_ms=sql.Literal(max(1, int(limit_s * 1000))), ef_search=sql.Literal(ef_search))


def _storable_filters(filters: Mapping[str, Scalar]) -> dict[str, Scalar]:
    finite = {name: value for name, value in filters.items() if not isinstance(value, float) or math.isfinite(value)}
    return {storable(name): storable(value) if isinstance(value, str) else value for name, value in finite.items()}
