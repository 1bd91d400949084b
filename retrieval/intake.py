"""Intake: one document's bytes -> its passages in the store, whole or not at all."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from anyio import to_thread

from retrieval import reader
from retrieval.chunk import Chunk, Chunking, titled
from retrieval.cleaning import storable
from retrieval.faults import EmbeddingFailed, GatewayFault
from retrieval.ports import Embedder, Vector
from retrieval.raw import Raw
from retrieval.store import Collection, Content, PassageStore, Source

BATCH_PASSAGES = 32  # about a second of embedding: cancellation and progress are no slower than that

Outcome = Literal["added", "changed", "unchanged"]


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a document; `passages` are those stored now, none for one that has not changed."""

    id: str
    title: str
    outcome: Outcome
    passages: int


def _silent(done: int, total: int) -> None:
    """Reports to nobody."""


@dataclass(frozen=True, slots=True)
class Intake:
    """Takes documents of one `root` into one collection."""

    store: PassageStore
    collection: Collection
    embedder: Embedder
    chunking: Chunking
    root: str

    async def take(self, raw: Raw, known_hash: str | None, progress: Callable[[int, int], None] = _silent) -> Taken:
        """Stores `raw` in place of what its name stood for, in one transaction, unless `known_hash` says that it has not changed.

        `progress` is told how many of its passages are embedded. It is read elsewhere (retrieval.reader). Raises DocumentUnreadable,
        EmbeddingFailed, or as PassageStore.replace. Cancelled or failed, nothing of it is stored and what was stored before stays.
        """
        name = storable(raw.name)
        content_hash = await to_thread.run_sync(hash_of, raw)
        if content_hash == known_hash:
            return Taken(self.id_of(name), "", "unchanged", 0)
        read = await reader.read(name, raw.data, raw.kind, self.chunking)
        title = raw.title or read.document.title
        vectors = await self._embed(title, read.chunks, progress)
        metadata = {**raw.metadata, "source": name, "kind": read.document.kind}
        await self.store.replace(
            self.collection,
            self.id_of(name),
            Source(self.root, name, content_hash, raw.url),
            Content(title, read.chunks, vectors, metadata),
        )
        return Taken(self.id_of(name), title, "added" if known_hash is None else "changed", len(read.chunks))

    def id_of(self, name: str) -> str:
        """The same for the same name in the same collection, so that a changed document keeps its id."""
        key = "\0".join((self.collection.tenant, self.collection.name, self.root, storable(name)))
        return f"doc_{hashlib.sha256(key.encode()).hexdigest()[:20]}"

    async def _embed(self, title: str, chunks: tuple[Chunk, ...], progress: Callable[[int, int], None]) -> list[Vector]:
        """One vector per chunk, of its title and text: a section's heading says what its sentences leave out."""
        texts = [f"{titled(title, one.headings)}\n{one.text}" for one in chunks]
        vectors: list[Vector] = []
        for at in range(0, len(texts), BATCH_PASSAGES):
            progress(at, len(texts))
            try:
                vectors += await self.embedder.embed_passages(texts[at : at + BATCH_PASSAGES])
            except GatewayFault:
                raise
            except Exception as error:
                raise EmbeddingFailed(f"passages of {title!r} could not be embedded") from error
        progress(len(texts), len(texts))
        return vectors


def hash_of(raw: Raw) -> str:
    """The SHA-256 of the bytes, and of what was said beside them where something was: either, changed, makes a changed document."""
    digest = hashlib.sha256(raw.data)
    beside = (raw.kind, raw.title, raw.url, *sorted(raw.metadata.items()))
    if any(beside):
        digest.update(repr(beside).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
