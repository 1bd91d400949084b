"""The retriever over PostgreSQL and pgvector."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from retrieval.cleaning import storable
from retrieval.faults import EmbeddingFailed, GatewayFault
from retrieval.fusion import Legs, fuse
from retrieval.hops import HOP_CANDIDATES, HOP_SOURCES, Gains, Link, link, wanted
from retrieval.names import name_of, names_in, words_of
from retrieval.passage import Passage
from retrieval.pool import LIMIT_S, Connection, Pool
from retrieval.ports import Embedder, Query, SearchMode, Vector
from retrieval.search import Row, Search, Wanted, first_wanted


class PostgresRetriever:
    """A Retriever: cosine nearest neighbours, BM25, both fused, or both with a second hop (SearchMode).

    The question is embedded before a connection is taken, and the connection is given back before `retrieve` returns. A question without
    content (its vector is all zeros) is near nothing: only words and names can find passages for it.
    """

    def __init__(self, pool: Pool, embedder: Embedder, *, limit_s: float = LIMIT_S) -> None:
        """`limit_s` bounds the search in the database, waiting for a connection included; embedding is not part of it."""
        self._pool, self._embedder, self._limit_s = pool, embedder, limit_s

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        if query.k < 1:
            return ()
        vector = await self._embed(storable(query.text))

        async def search(connection: Connection) -> list[_Candidate]:
            return await self._candidates(Search(connection, query, vector, self._embedder), query)

        return _ranked(await self._pool.run_for(query.tenant, search, self._limit_s), query)

    async def _candidates(self, search: Search, query: Query) -> list["_Candidate"]:
        names = names_in(query.text)
        first = first_wanted(query, names)
        await search.begin(self._limit_s, first.dense)
        rows = await search.candidates(first)
        candidates = _fused(rows, names)
        if query.mode is not SearchMode.HOPS or not rows:
            return candidates
        best = sorted(candidates, key=_order)[:HOP_SOURCES]
        links = [link(one.row.title, one.row.text, one.figure) for one in best]
        linked = await search.candidates(Wanted(named=HOP_CANDIDATES, names=wanted(links)))
        return _hopped(candidates, linked, links, query.text)

    async def _embed(self, text: str) -> Vector:
        try:
            return await self._embedder.embed_query(text)
        except GatewayFault:
            raise
        except Exception as error:
            raise EmbeddingFailed("the question could not be embedded") from error


@dataclass(frozen=True, slots=True)
class _Candidate:
    row: Row
    legs: Legs
    figure: float


def _order(candidate: _Candidate) -> tuple[float, str]:
    """Best first; equal figures in the order of their ids, so that the same question gives the same set."""
    return (-candidate.figure, candidate.row.id)


def _fused(rows: Sequence[Row], names: Sequence[str]) -> list[_Candidate]:
    asked = frozenset(names)
    legs = [
        Legs(row.cosine if math.isfinite(row.cosine) else 0.0, row.lexical, name_of(row.title) in asked) for row in rows
    ]
    return [_Candidate(*each) for each in zip(rows, legs, fuse(legs), strict=True)]


def _hopped(first: Sequence[_Candidate], linked: Sequence[Row], links: Sequence[Link], text: str) -> list[_Candidate]:
    """All candidates of both hops with figures of one scale; what a link names gains by it."""
    known = {one.row.id for one in first}
    both = _fused([one.row for one in first] + [row for row in linked if row.id not in known], names_in(text))
    gains = Gains(links, [one.row.title for one in both], words_of(text))
    return [replace(one, figure=one.figure + gains.of(one.row.title)) for one in both]


def _ranked(candidates: Sequence[_Candidate], query: Query) -> tuple[Passage, ...]:
    """The best `k`, best first, scored by the last stage of the query's mode."""
    match query.mode:
        case SearchMode.DENSE:
            scored = [_passage(one).scored("cosine", one.legs.cosine) for one in candidates]
        case SearchMode.LEXICAL:
            scored = [_passage(one).scored("lexical", one.legs.lexical) for one in candidates]
        case SearchMode.HYBRID | SearchMode.HOPS:
            scored = [_passage(one).scored("fused", one.figure) for one in candidates]
    return tuple(sorted(scored, key=lambda one: (-one.score, one.id))[: query.k])


def _passage(candidate: _Candidate) -> Passage:
    row, legs = candidate.row, candidate.legs
    return Passage(
        id=row.id,
        document_id=row.document_id,
        title=row.title,
        text=row.text,
        start=row.start_char,
        end=row.end_char,
        url=row.url,
        scores={"cosine": legs.cosine, "lexical": legs.lexical},
        metadata=row.metadata,
    )
