"""The library: the stored documents of this gateway, and who turns them into vectors."""

from dataclasses import dataclass, field
from typing import Protocol

from retrieval.faults import CollectionNotFound
from retrieval.ports import Embedder


class Store(Protocol):
    """What the edge asks of the store of passages."""

    async def check(self, embedder: Embedder, collection: str = "default", tenant: str = "default") -> bool:
        """Whether the collection exists; raises RetrievalMisconfigured when it was made with another model."""
        ...


@dataclass(frozen=True, slots=True)
class KnownCollections:
    """Collections that were found to exist. What exists is asked for once; what does not, each time (it may come)."""

    store: Store
    embedder: Embedder
    _known: set[tuple[str, str]] = field(default_factory=set)

    def knows(self, collection: str, tenant: str) -> bool:
        """As gateway.house.Collections promises."""
        return (collection, tenant) in self._known

    async def check(self, collection: str, tenant: str) -> None:
        """As gateway.house.Collections promises."""
        if self.knows(collection, tenant):
            return
        if not await self.store.check(self.embedder, collection, tenant):
            raise CollectionNotFound("no collection has this name: documents come in with `gateway ingest PATH`")
        self._known.add((collection, tenant))


class AnyCollection:
    """Lets every collection be asked: a scripted search has no store."""

    def knows(self, collection: str, tenant: str) -> bool:  # noqa: ARG002
        """Always."""
        return True

    async def check(self, collection: str, tenant: str) -> None:
        """Always returns."""
