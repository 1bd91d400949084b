"""A named read-only view as a source: full-text search over whatever tables a database owner chose to show."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from retrieval.cleaning import storable
from retrieval.faults import RetrievalMisconfigured, RetrievalUnavailable
from retrieval.passage import Passage, Scalar
from retrieval.pool import LIMIT_S, Connection, Pool
from retrieval.ports import Query

TEXT_LIMIT = 8_000  # characters of one row: a row is a passage and is not cut further
LANGUAGE = "english"

# Any of the question's words; `numnode` of a question without words is 0.
_ASKED = sql.SQL(
    "SELECT coalesce(string_agg('''' || replace(replace(term, '\\', '\\\\'), '''', '''''') || '''', ' | '), '')::tsquery AS terms "
    "FROM unnest(tsvector_to_array(to_tsvector(%(language)s::regconfig, %(text)s))) AS term"
)
_WORDS = sql.SQL(
    "to_tsvector(%(language)s::regconfig, coalesce(v.title::text, '') || ' ' || coalesce(v.text::text, ''))"
)
_SEARCH = sql.SQL(
    "SELECT v.id::text AS id, coalesce(v.title::text, '') AS title, left(v.text::text, %(longest)s) AS text, v.url::text AS url, "
    "coalesce(v.metadata::jsonb, '{{}}') AS metadata, ts_rank_cd({words}, asked.terms) AS lexical "
    "FROM {view} AS v, ({asked}) AS asked "
    "WHERE numnode(asked.terms) > 0 AND {words} @@ asked.terms AND coalesce(v.metadata::jsonb, '{{}}') @> %(filters)s {mine} "
    "ORDER BY lexical DESC, id LIMIT %(k)s"
)
_MINE: LiteralString = "AND v.{column} = %(tenant)s"
_BOUNDS = sql.SQL("SET TRANSACTION READ ONLY; SET LOCAL statement_timeout = {timeout_ms}")


@dataclass(frozen=True, slots=True)
class View:
    """Which view: `name` may be `schema.view`. Its columns are `id`, `title`, `text`, `url` and `metadata` (a JSON object).

    `words` names a tsvector column, which an index may serve; without one each row's words are counted at every search.
    `tenant` names a column that says whose a row is; without one every tenant sees every row.
    """

    name: str
    language: str = LANGUAGE
    words: str | None = None
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    id: str | None
    title: str
    text: str | None
    url: str | None
    metadata: Any
    lexical: float


class ViewRetriever:
    """A Retriever: rows that share a word with the question, by `ts_rank_cd`; every mode is lexical.

    Each search is one read-only transaction whose statement ends by itself after `limit_s` seconds. Names are quoted as identifiers,
    everything of a question is a parameter. The collection asked for does not matter. Rows without id or text are passed over.
    """

    def __init__(self, pool: Pool, view: View, source: str, *, limit_s: float = LIMIT_S) -> None:
        """`source` goes before the id of each passage, so that no id of another source is the same."""
        self._pool, self._view, self._source, self._limit_s = pool, view, source, limit_s
        self._statement = _statement(view)

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        """As the port promises; raises RetrievalMisconfigured also when the view is missing or of another shape."""
        if query.k < 1 or any(isinstance(v, float) and not math.isfinite(v) for v in query.filters.values()):
            return ()  # no JSON number is NaN or infinite, so nothing stored equals it
        parameters = self._parameters(query)

        async def search(connection: Connection) -> list[_Row]:
            await connection.execute(_BOUNDS.format(timeout_ms=sql.Literal(max(1, int(self._limit_s * 1000)))))
            async with connection.cursor(row_factory=class_row(_Row)) as cursor:
                await cursor.execute(self._statement, parameters)
                return await cursor.fetchall()

        try:
            rows = await self._pool.run_for(query.tenant, search, self._limit_s)
        except (psycopg.DataError, psycopg.ProgrammingError, psycopg.NotSupportedError, psycopg.InternalError) as error:
            raise self._misconfigured() from error
        except RetrievalMisconfigured as error:
            raise self._misconfigured() from error
        except RetrievalUnavailable as error:
            if isinstance(error.__cause__, psycopg.errors.ReadOnlySqlTransaction):  # a view that writes
                raise self._misconfigured() from error
            raise
        return tuple({row.id: self._passage(row) for row in reversed(rows) if row.id and row.text}.values())[::-1]

    def _parameters(self, query: Query) -> Mapping[str, Any]:
        filters = {storable(name): storable(v) if isinstance(v, str) else v for name, v in query.filters.items()}
        return {
            "text": storable(query.text),
            "language": self._view.language,
            "filters": Jsonb(filters),
            "tenant": storable(query.tenant),
            "longest": TEXT_LIMIT,
            "k": query.k,
        }

    def _passage(self, row: _Row) -> Passage:
        identity, text = f"{self._source}:{row.id}", row.text or ""
        metadata = scalars(row.metadata)
        return Passage(identity, identity, row.title, text, 0, len(text), row.url, metadata=metadata).scored(
            "lexical", row.lexical
        )

    def _misconfigured(self) -> RetrievalMisconfigured:
        return RetrievalMisconfigured(
            f"the view {self._view.name!r} cannot be searched: it must exist, be readable, and have the columns "
            "id, title, text, url and metadata (jsonb)"
        )


def scalars(metadata: Any) -> dict[str, Scalar]:
    """The fields of a JSON object whose values a filter can name."""
    if not isinstance(metadata, dict):
        return {}
    return {str(name): value for name, value in metadata.items() if isinstance(value, str | int | float | bool)}


def _statement(view: View) -> sql.Composed:
    words = _WORDS if view.words is None else sql.SQL("v.{}").format(sql.Identifier(view.words))
    mine = sql.SQL("") if view.tenant is None else sql.SQL(_MINE).format(column=sql.Identifier(view.tenant))
    return _SEARCH.format(words=words, view=sql.Identifier(*view.name.split(".", 1)), asked=_ASKED, mine=mine)
