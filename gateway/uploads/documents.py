"""Documents: what an upload brings goes into a collection, one after another; what is there is listed and removed."""

from collections.abc import Callable, Container
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

from anyio import to_thread

from gateway.uploads.upload import Incoming, Upload
from retrieval.faults import CollectionNotFound, DatabaseMissing, DocumentUnreadable, GatewayFault
from retrieval.ports import Embedder

if TYPE_CHECKING:
    from retrieval.chunk import Chunking
    from retrieval.intake import Intake
    from retrieval.store import PassageStore, StoredDocument

ROOT = "upload:"  # of documents that came over HTTP; no folder has this name, so no folder's ingest removes them
MANY_PASSAGES = 200  # from here on the planner is told at once; autovacuum sees to fewer
Before = tuple[datetime, str]


@dataclass(frozen=True, slots=True)
class Reading:
    """The document `name` is being read: `done` of `total` documents are finished, `embedded` of its `passages` have a vector."""

    name: str
    done: int
    total: int
    embedded: int = 0
    passages: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """What became of a document. One that could not be read has the `fault` and nothing else; what was stored of it before stays."""

    name: str
    status: Literal["added", "changed", "unchanged", "unreadable"]
    id: str | None = None
    title: str | None = None
    passages: int = 0
    fault: GatewayFault | None = None


Step = Reading | Finished


class Ingest(Protocol):
    """An ingest that is ready to run."""

    async def run(self, tell: Callable[[Step], None]) -> None:
        """Takes one document after another and tells of each: `Reading` while it is read, `Finished` once.

        Raises EmbeddingFailed, RetrievalUnavailable or RetrievalMisconfigured; what was told to be finished is stored, of the rest nothing
        is. The same holds on cancellation.
        """
        ...


class Documents(Protocol):
    """The documents of a gateway. All methods raise RetrievalUnavailable or RetrievalMisconfigured."""

    async def begin(self, upload: Upload, tenant: str) -> Ingest:
        """Makes the tenant's collection where it is absent. Raises also where it does not fit the embedder, or DatabaseMissing."""
        ...

    async def newest(
        self, limit: int, before: Before | None, collection: str, tenant: str
    ) -> "tuple[StoredDocument, ...]":
        """At most `limit` documents, newest first, those after `before`. Raises CollectionNotFound."""
        ...

    async def remove(self, document_id: str, tenant: str, within: Container[str] | None) -> bool:
        """Removes a document with its passages; whether the tenant had one, in a collection `within` (None: in any)."""
        ...


class StoredDocuments:
    """Documents in PostgreSQL (Documents)."""

    def __init__(self, store: "PassageStore", embedder: Embedder) -> None:
        self._store, self._embedder = store, embedder

    async def begin(self, upload: Upload, tenant: str) -> Ingest:
        intake, rules = await to_thread.run_sync(load_intake)
        collection = await self._store.open(self._embedder, rules, upload.collection, tenant)
        return _Ingest(self._store, intake(self._store, collection, self._embedder, rules, ROOT), upload.documents)

    async def newest(
        self, limit: int, before: Before | None, collection: str, tenant: str
    ) -> "tuple[StoredDocument, ...]":
        return await self._store.newest(limit, before, collection, tenant)

    async def remove(self, document_id: str, tenant: str, within: Container[str] | None) -> bool:
        return await self._store.remove(document_id, tenant, within)


def load_intake() -> "tuple[type[Intake], Chunking]":
    """What reads documents, imported when the first one comes: 0.3 s that are nobody else's wait on a worker thread."""
    from retrieval.chunk import Chunking
    from retrieval.intake import Intake

    return Intake, Chunking()


@dataclass(frozen=True, slots=True)
class _Ingest:
    store: "PassageStore"
    intake: "Intake"
    documents: tuple[Incoming, ...]

    async def run(self, tell: Callable[[Step], None]) -> None:
        stored = 0
        for done, document in enumerate(self.documents):
            finished = await self._one(document, done, tell)
            stored += finished.passages
            tell(finished)
        if stored >= MANY_PASSAGES:
            await self.store.refresh_statistics()

    async def _one(self, document: Incoming, done: int, tell: Callable[[Step], None]) -> Finished:
        name, total = document.name, len(self.documents)

        def embedded(count: int, passages: int) -> None:
            tell(Reading(name, done, total, count, passages))

        tell(Reading(name, done, total))
        try:
            raw = await to_thread.run_sync(document.load)
            known_hash = await self.store.content_hash(self.intake.id_of(name), self.intake.collection.tenant)
            taken = await self.intake.take(raw, known_hash, embedded)
        except DocumentUnreadable as fault:
            return Finished(name, "unreadable", fault=fault)
        return Finished(name, taken.outcome, taken.id, taken.title or None, taken.passages)


class NoDocuments:
    """A scripted search has no database, so there are no documents (Documents)."""

    async def begin(self, upload: Upload, tenant: str) -> Ingest:  # noqa: ARG002
        raise DatabaseMissing("this gateway has no database for documents: its search is scripted")

    async def newest(
        self,
        limit: int,  # noqa: ARG002
        before: Before | None,  # noqa: ARG002
        collection: str,  # noqa: ARG002
        tenant: str,  # noqa: ARG002
    ) -> "tuple[StoredDocument, ...]":
        raise CollectionNotFound("this gateway has no documents: its search is scripted")

    async def remove(self, document_id: str, tenant: str, within: Container[str] | None) -> bool:  # noqa: ARG002
        return False
