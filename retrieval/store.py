"""The store of documents: collections, documents and their passages, written in whole documents."""

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from anyio import to_thread
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from retrieval.chunk import Chunk, Chunking, metadata_of, titled
from retrieval.cleaning import storable
from retrieval.faults import CollectionNotFound, RetrievalMisconfigured
from retrieval.passage import Scalar
from retrieval.pool import Connection, Pool
from retrieval.ports import Embedder, Vector
from retrieval.vectors import all_checked, is_indexed

WRITE_LIMIT_S = 60.0  # a book of 3,000 passages and its index entries take about 10 s
ROWS_AT_ONCE = 256  # 1 MB of vectors: a few milliseconds, between which the event loop turns
LOCK_KEY = 7_236_115_010  # one collection is created at a time

_Row = tuple[str, int, int, int, str, str, str, str]  # id, ordinal, start, end, title, text, metadata, vector


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection as stored, checked to fit the embedder and chunking at hand."""

    id: int
    name: str
    tenant: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Source:
    """Where a document comes from: `name` is its path below `root`, a folder; together they are its identity in a collection."""

    root: str
    name: str
    content_hash: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """A document to be stored: its title, its passages and one vector for each."""

    title: str
    chunks: Sequence[Chunk]
    vectors: Sequence[Vector]
    metadata: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as listed."""

    id: str
    source: str
    title: str
    url: str | None
    passages: int
    ingested_at: datetime


@dataclass(frozen=True, slots=True)
class StoredPassage:
    """A passage as it is read by a person."""

    id: str
    document_id: str
    title: str
    url: str | None
    text: str
    collection: str


def require_fit(name: str, model: str, dimensions: int, embedder: Embedder) -> None:
    """Raises RetrievalMisconfigured unless a collection's vectors and `embedder`'s can be compared."""
    if (model, dimensions) != (embedder.model, embedder.dimensions):
        raise RetrievalMisconfigured(
            f"collection {name!r} was embedded with {model} ({dimensions} dimensions), but the embedder is {embedder.model} "
            f"({embedder.dimensions}): set the embedder back, or ingest into another collection"
        )


class PassageStore:
    """Collections and documents in PostgreSQL. Every write is one transaction that can be repeated.

    All methods raise RetrievalUnavailable or RetrievalMisconfigured as Pool.run does.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def check(self, embedder: Embedder, collection: str = "default", tenant: str = "default") -> bool:
        """Whether `collection` exists and fits `embedder`; False when it is still to be created.

        Raises RetrievalMisconfigured when it exists and does not fit.
        """

        async def find(connection: Connection) -> bool:
            row = await _find(connection, collection, tenant)
            if row is not None:
                require_fit(collection, row[1], row[2], embedder)
            return row is not None

        return await self._pool.run_for(tenant, find)

    async def open(self, embedder: Embedder, chunking: Chunking, collection: str, tenant: str) -> Collection:
        """The collection, made if it is absent, its index with it.

        Raises RetrievalMisconfigured unless model, dimensions and chunking are those it was made with.
        """
        collection, tenant = storable(collection), storable(tenant)

        async def make(connection: Connection) -> Collection:
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK_KEY,))
            row = await _find(connection, collection, tenant)
            if row is None:
                row = await _create(connection, embedder, chunking, collection, tenant)
            require_fit(collection, row[1], row[2], embedder)
            _require_chunking(collection, row[3], chunking)
            return Collection(row[0], collection, tenant, row[2])

        return await self._pool.run_for(tenant, make, WRITE_LIMIT_S)

    async def known(self, collection: Collection, root: str) -> dict[str, str]:
        """The content hash of every document of `root`, by name."""

        async def read(connection: Connection) -> dict[str, str]:
            found = await connection.execute(
                "SELECT source, content_hash FROM document WHERE collection_id = %s AND root = %s",
                (collection.id, root),
            )
            return dict(await found.fetchall())

        return await self._pool.run_for(collection.tenant, read)

    async def replace(self, collection: Collection, document_id: str, source: Source, content: Content) -> None:
        """Stores a document in place of the one of the same id: a reader sees the old one or the new one, whole.

        Raises EmbeddingFailed when the vectors do not fit the passages or the collection, CollectionNotFound when it has been removed.
        """
        rows = await to_thread.run_sync(_rows, collection, document_id, content, abandon_on_cancel=True)

        async def write(connection: Connection) -> None:
            await _require_present(connection, collection)
            await _write_document(connection, collection, document_id, source, content)
            await connection.execute("DELETE FROM own_passage WHERE document_id = %s", (document_id,))
            await _write_passages(connection, collection, document_id, rows)

        await self._pool.run_for(collection.tenant, write, WRITE_LIMIT_S)

    async def forget(self, collection: Collection, root: str, names: Sequence[str]) -> int:
        """Removes the named documents of `root`; how many there were."""

        async def delete(connection: Connection) -> int:
            gone = await connection.execute(
                "DELETE FROM document WHERE collection_id = %s AND root = %s AND source = ANY(%s)",
                (collection.id, root, list(names)),
            )
            return gone.rowcount

        return await self._pool.run_for(collection.tenant, delete, WRITE_LIMIT_S) if names else 0

    async def refresh_statistics(self) -> None:
        """Has the planner know how much there is: the choice between index and scan hangs on it, and autovacuum comes late."""

        async def analyze(connection: Connection) -> None:
            await connection.execute("SELECT refresh_statistics()")

        await self._pool.run(analyze, WRITE_LIMIT_S)

    async def remove(self, document_id: str, tenant: str = "default", within: Container[str] | None = None) -> bool:
        """Removes one document of `tenant` with its passages; whether there was one, in a collection `within`."""

        async def delete(connection: Connection) -> bool:
            found = await (
                await connection.execute(_COLLECTION_OF, (storable(document_id), storable(tenant)))
            ).fetchone()
            if found is None or (within is not None and found[0] not in within):
                return False
            await connection.execute("DELETE FROM document WHERE id = %s", (storable(document_id),))
            return True

        return await self._pool.run_for(tenant, delete, WRITE_LIMIT_S)

    async def collections(self, tenant: str = "default") -> tuple[str, ...]:
        """The names of the tenant's collections, in order."""

        async def read(connection: Connection) -> tuple[str, ...]:
            found = await connection.execute(
                "SELECT name FROM collection WHERE tenant = %s ORDER BY name", (storable(tenant),)
            )
            return tuple(str(name) for (name,) in await found.fetchall())

        return await self._pool.run_for(tenant, read)

    async def documents(self, collection: str = "default", tenant: str = "default") -> tuple[StoredDocument, ...]:
        """Every document of the collection, by source. Raises CollectionNotFound when there is no such collection."""

        async def read(connection: Connection) -> tuple[StoredDocument, ...]:
            row = await _find(connection, collection, tenant)
            if row is None:
                raise CollectionNotFound(f"there is no collection named {collection!r}")
            async with connection.cursor(row_factory=class_row(StoredDocument)) as cursor:
                await cursor.execute(_LIST, (row[0],))
                return tuple(await cursor.fetchall())

        return await self._pool.run_for(tenant, read)

    async def passage(self, passage_id: str, tenant: str = "default") -> StoredPassage | None:
        """One passage of `tenant`; None where there is none."""

        async def read(connection: Connection) -> StoredPassage | None:
            async with connection.cursor(row_factory=class_row(StoredPassage)) as cursor:
                await cursor.execute(_PASSAGE, (storable(passage_id), storable(tenant)))
                return await cursor.fetchone()

        return await self._pool.run_for(tenant, read)

    async def content_hash(self, document_id: str, tenant: str = "default") -> str | None:
        """The content hash of one document of `tenant`; None where there is none."""

        async def read(connection: Connection) -> str | None:
            found = await connection.execute("SELECT content_hash FROM document WHERE id = %s", (document_id,))
            row = await found.fetchone()
            return None if row is None else str(row[0])

        return await self._pool.run_for(tenant, read)

    async def newest(
        self, limit: int, before: tuple[datetime, str] | None, collection: str = "default", tenant: str = "default"
    ) -> tuple[StoredDocument, ...]:
        """At most `limit` documents, the newest first, those after the one that `before` (its `ingested_at` and id) names.

        Raises CollectionNotFound when there is no such collection.
        """
        at, after_id = before or (datetime.max.replace(tzinfo=UTC), "")

        async def read(connection: Connection) -> tuple[StoredDocument, ...]:
            row = await _find(connection, collection, tenant)
            if row is None:
                raise CollectionNotFound(f"there is no collection named {collection!r}")
            async with connection.cursor(row_factory=class_row(StoredDocument)) as cursor:
                await cursor.execute(_NEWEST, (row[0], at, storable(after_id), limit))
                return tuple(await cursor.fetchall())

        return await self._pool.run_for(tenant, read)


_COLLECTION_OF = (
    "SELECT c.name FROM document d JOIN collection c ON c.id = d.collection_id WHERE d.id = %s AND c.tenant = %s"
)
_PASSAGE = """
SELECT p.id, p.document_id, p.title, d.url, p.text, c.name AS collection
FROM own_passage p JOIN document d ON d.id = p.document_id JOIN collection c ON c.id = p.collection_id
WHERE p.id = %s AND c.tenant = %s
"""
_NEWEST = """
SELECT d.id, d.source, d.title, d.url, d.ingested_at,
       (SELECT count(*) FROM own_passage p WHERE p.document_id = d.id) AS passages
FROM document d WHERE d.collection_id = %s AND (d.ingested_at, d.id) < (%s, %s)
ORDER BY d.ingested_at DESC, d.id DESC LIMIT %s
"""
_LIST = """
SELECT d.id, d.source, d.title, d.url, d.ingested_at,
       (SELECT count(*) FROM own_passage p WHERE p.document_id = d.id) AS passages
FROM document d WHERE d.collection_id = %s ORDER BY d.source, d.root
"""


async def _find(connection: Connection, name: str, tenant: str) -> tuple[Any, ...] | None:
    """Id, model, dimensions and chunking of a collection."""
    found = await connection.execute(
        "SELECT id, model, dimensions, chunking FROM collection WHERE tenant = %s AND name = %s",
        (storable(tenant), storable(name)),
    )
    return await found.fetchone()


async def _create(
    connection: Connection, embedder: Embedder, chunking: Chunking, name: str, tenant: str
) -> tuple[Any, ...]:
    if is_indexed(embedder.dimensions):
        await connection.execute("SELECT index_passages(%s)", (embedder.dimensions,))
    made = await connection.execute(
        "INSERT INTO collection (tenant, name, model, dimensions, chunking) VALUES (%s, %s, %s, %s, %s) "
        "RETURNING id, model, dimensions, chunking",
        (tenant, name, embedder.model, embedder.dimensions, Jsonb(chunking.as_json())),
    )
    row = await made.fetchone()
    assert row is not None
    return row


def _require_chunking(name: str, stored: dict[str, Scalar], chunking: Chunking) -> None:
    if stored != chunking.as_json():
        raise RetrievalMisconfigured(
            f"collection {name!r} was cut into passages by other rules ({stored}, now {chunking.as_json()}): "
            "set them back, or ingest into another collection"
        )


async def _require_present(connection: Connection, collection: Collection) -> None:
    found = await connection.execute("SELECT 1 FROM collection WHERE id = %s FOR SHARE", (collection.id,))
    if await found.fetchone() is None:
        raise CollectionNotFound(f"collection {collection.name!r} was removed meanwhile")


async def _write_document(
    connection: Connection, collection: Collection, document_id: str, source: Source, content: Content
) -> None:
    await connection.execute(
        "INSERT INTO document (id, collection_id, root, source, url, title, content_hash, metadata) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET url = excluded.url, title = excluded.title, "
        "content_hash = excluded.content_hash, metadata = excluded.metadata, ingested_at = now()",
        (
            document_id,
            collection.id,
            source.root,
            source.name,
            source.url,
            storable(content.title),
            source.content_hash,
            Jsonb(dict(content.metadata)),
        ),
    )


def _rows(collection: Collection, document_id: str, content: Content) -> list[_Row]:
    """A row for each passage, its vector written out: of a book this takes a second, in which no event loop should stand still.

    Raises EmbeddingFailed.
    """
    vectors = all_checked(content.vectors, collection.dimensions, len(content.chunks))
    return [
        (
            f"{document_id}:{ordinal}",
            ordinal,
            chunk.start,
            chunk.end,
            storable(titled(content.title, chunk.headings)),
            chunk.text,
            json.dumps(metadata_of(content.metadata, chunk.headings)),
            vector.to_text(),
        )
        for ordinal, (chunk, vector) in enumerate(zip(content.chunks, vectors, strict=True))
    ]


async def _write_passages(
    connection: Connection, collection: Collection, document_id: str, rows: Sequence[_Row]
) -> None:
    """Many rows to a statement, for each of which the terms are counted once; COPY is not to be had under row-level security."""
    for at in range(0, len(rows), ROWS_AT_ONCE):
        columns = map(list, zip(*rows[at : at + ROWS_AT_ONCE], strict=True))
        await connection.execute(_WRITE_PASSAGES, (document_id, collection.id, collection.dimensions, *columns))


_WRITE_PASSAGES = """
INSERT INTO passage (document_id, collection_id, dimensions, id, ordinal, start_char, end_char, title, text, metadata, embedding)
SELECT %s, %s, %s, row.id, row.ordinal, row.start_char, row.end_char, row.title, row.text, row.metadata::jsonb, row.embedding::vector
FROM unnest(%s::text[], %s::integer[], %s::integer[], %s::integer[], %s::text[], %s::text[], %s::text[], %s::text[])
    AS row (id, ordinal, start_char, end_char, title, text, metadata, embedding)
"""
