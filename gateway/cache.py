"""The cache of verified answers in PostgreSQL: by the meaning of their question, for as long as their documents stay as they were."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import anyio
from pgvector import Vector as PgVector
from psycopg.types.json import Jsonb

from gateway.sameness import is_same_question
from retrieval.cleaning import storable
from retrieval.passage import Passage
from retrieval.pool import Connection, Pool
from retrieval.ports import Embedder
from retrieval.vectors import checked
from streaming.ports import Cited, Kept

T = TypeVar("T")

FIND_LIMIT_S = (
    0.1  # a lookup takes about 10 ms, half of it the embedding; one that takes this long has cost more than it saves
)
KEEP_LIMIT_S = 2.0  # after the answer has been sent, before its stream ends
COSINE_LEAST = (
    0.95  # finds candidates only; every pair that `is_same_question` takes in its measurement has .958 or more
)
CANDIDATES = 5
AGE_LIMIT_S = 86_400.0  # documents that were added since may answer better: nothing is kept longer than a day
SIZE_LIMIT = 1_000  # answers of one tenant and collection; read one by one, which takes the server 4 ms

_FIND = """
SELECT a.question, a.answer FROM (
    SELECT id, question, answer,
           CASE WHEN model = %(model)s AND vector_dims(embedding) = %(dimensions)s
                THEN 1 - (embedding <=> %(vector)s::vector) END AS cosine
    FROM kept_answer
    WHERE tenant = %(tenant)s AND collection = %(collection)s AND made_by = %(made_by)s
      AND kept_at > now() - %(age_s)s * interval '1 second'
) AS a
WHERE a.cosine >= %(least)s AND NOT EXISTS (
    SELECT FROM kept_answer_document AS k LEFT JOIN document AS d ON (d.id, d.content_hash) = (k.document_id, k.content_hash)
    LEFT JOIN collection AS c ON c.id = d.collection_id
    WHERE k.answer_id = a.id AND (c.name = ANY(%(collections)s)) IS NOT true
)
ORDER BY a.cosine DESC, a.id DESC LIMIT %(candidates)s
"""
_SEEN = """
SELECT p.id, p.text, d.id, d.content_hash FROM own_passage AS p
JOIN document AS d ON d.id = p.document_id JOIN collection AS c ON c.id = d.collection_id
WHERE p.id = ANY(%(passages)s) AND c.tenant = %(tenant)s
"""
_KEEP = """
INSERT INTO kept_answer (tenant, collection, made_by, model, question, embedding, answer)
VALUES (%(tenant)s, %(collection)s, %(made_by)s, %(model)s, %(question)s, %(vector)s, %(answer)s) RETURNING id
"""
_REST_ON = "INSERT INTO kept_answer_document (answer_id, document_id, content_hash) SELECT %s, * FROM unnest(%s::text[], %s::text[])"
_TIDY = """
DELETE FROM kept_answer WHERE id IN (
    SELECT id FROM kept_answer AS a WHERE kept_at <= now() - %(age_s)s * interval '1 second' OR (
        tenant = %(tenant)s AND collection = %(collection)s AND (
            id <= (SELECT id FROM kept_answer WHERE tenant = %(tenant)s AND collection = %(collection)s
                   ORDER BY id DESC OFFSET %(size)s LIMIT 1)
            OR EXISTS (
                SELECT FROM kept_answer_document AS k
                LEFT JOIN document AS d ON (d.id, d.content_hash) = (k.document_id, k.content_hash)
                WHERE k.answer_id = a.id AND d.id IS NULL
            )
        )
    ) FOR UPDATE SKIP LOCKED
)
"""

_log = logging.getLogger(__name__)


class PostgresCache:
    """A streaming.ports.AnswerCache.

    A kept answer is found when its question is the same one (`gateway.sameness`), when it was made by the generator `made_by` no
    more than `age_s` seconds ago, and when every document among its passages is stored with the content it had, in the collection that is
    asked or in one of `collections`: those that are searched besides, which were others when it was kept. An answer that rests
    on a passage which is not in this database, or not any more as it was read, is not kept. Nothing raises but cancellation: what
    goes wrong, or takes too long, is a miss.
    """

    def __init__(
        self,
        pool: Pool,
        embedder: Embedder,
        made_by: str,
        *,
        collections: Sequence[str] = (),
        age_s: float = AGE_LIMIT_S,
        size: int = SIZE_LIMIT,
        find_limit_s: float = FIND_LIMIT_S,
    ) -> None:
        self._pool, self._embedder = pool, embedder
        self._made_by, self._age_s, self._size = made_by, age_s, size
        self._collections, self._find_limit_s = collections, find_limit_s

    async def find(self, question: str, collection: str, tenant: str) -> Kept | None:
        """As the port promises; None after `find_limit_s` seconds."""
        return await _quietly("found", self._find_limit_s, lambda: self._find(question, collection, tenant))

    async def keep(self, question: str, collection: str, tenant: str, answer: Kept) -> None:
        """As the port promises; an answer without passages is not kept. Forgets what is too old, too much or overtaken."""
        if answer.text and answer.passages:
            await _quietly("kept", KEEP_LIMIT_S, lambda: self._keep(question, collection, tenant, answer))

    async def _find(self, question: str, collection: str, tenant: str) -> Kept | None:
        row = await self._row(question, collection, tenant)
        limits = {
            "least": COSINE_LEAST,
            "candidates": CANDIDATES,
            "collections": [storable(name) for name in (collection, *self._collections)],
        }

        async def select(connection: Connection) -> Sequence[tuple[str, Any]]:
            return await (await connection.execute(_FIND, row | limits)).fetchall()

        for asked, answer in await self._pool.run_for(tenant, select, self._find_limit_s):
            if is_same_question(asked, question):
                return kept_of(answer)
        return None

    async def _keep(self, question: str, collection: str, tenant: str, answer: Kept) -> None:
        row = await self._row(question, collection, tenant)
        passages = {passage.id: passage.text for _, passage in answer.passages}

        async def insert(connection: Connection) -> None:
            seen = await (await connection.execute(_SEEN, row | {"passages": list(passages)})).fetchall()
            if {passage_id: text for passage_id, text, _, _ in seen} != passages:
                return
            documents = {document_id: content_hash for _, _, document_id, content_hash in seen}
            made = await connection.execute(_KEEP, row | {"answer": Jsonb(asdict(answer))})
            made_row = await made.fetchone()
            assert made_row is not None
            await connection.execute(_REST_ON, (made_row[0], list(documents), list(documents.values())))
            await connection.execute(_TIDY, row)

        await self._pool.run_for(tenant, insert, KEEP_LIMIT_S)

    async def _row(self, question: str, collection: str, tenant: str) -> dict[str, Any]:
        text = storable(question)
        vector: PgVector = checked(await self._embedder.embed_query(text), self._embedder.dimensions)
        return {
            "question": text,
            "collection": storable(collection),
            "tenant": storable(tenant),
            "made_by": self._made_by,
            "model": self._embedder.model,
            "dimensions": self._embedder.dimensions,
            "vector": vector,
            "age_s": self._age_s,
            "size": self._size,
        }


async def _quietly(done: str, limit_s: float, work: Callable[[], Awaitable[T]]) -> T | None:
    """The result of `work`; None when it fails or takes longer than `limit_s` seconds."""
    try:
        with anyio.move_on_after(limit_s):
            return await work()
        _log.warning("no answer could be %s in the cache within %g s", done, limit_s)
    except Exception as error:
        _log.warning("no answer could be %s in the cache: %s", done, type(error).__name__)
    return None


def kept_of(stored: Any) -> Kept:
    """The kept answer that `asdict` turned into JSON."""
    return Kept(
        text=stored["text"],
        citations=tuple(Cited(**each) for each in stored["citations"]),
        passages=tuple((number, Passage(**passage)) for number, passage in stored["passages"]),
    )
