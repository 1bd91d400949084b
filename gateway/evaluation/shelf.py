"""A corpus put into a real collection, once: what is stored already, with its vector, is not embedded again."""

import hashlib
from collections.abc import Callable

from gateway.evaluation.questions import Entry, QuestionSet
from retrieval.chunk import Chunk, Chunking
from retrieval.ports import Embedder
from retrieval.store import Collection, Content, PassageStore, Source

TENANT = "evaluation"  # apart from whatever the same database serves
ROOT = "corpus"

Progress = Callable[[int, int], None]


def collection_of(questions: QuestionSet) -> str:
    """The name of the set's collection: another corpus under the same name goes to another collection."""
    return f"{questions.name}-{questions.version}"


async def shelve(
    questions: QuestionSet, store: PassageStore, embedder: Embedder, progress: Progress | None = None
) -> Collection:
    """The collection that holds exactly the set's corpus, each entry a document of one passage.

    Cancelled, it keeps what it stored; the next run goes on from there. Raises what the store and the embedder raise.
    """
    shelf = await store.open(embedder, Chunking(), collection_of(questions), TENANT)
    known = await store.known(shelf, ROOT)
    for done, entry in enumerate(questions.corpus):
        digest = hashlib.sha256(f"{entry.title}\0{entry.text}".encode()).hexdigest()
        if known.get(entry.id) != digest:
            await _put(shelf, entry, digest, store, embedder)
        if progress is not None:
            progress(done + 1, len(questions.corpus))
    return shelf


async def _put(shelf: Collection, entry: Entry, digest: str, store: PassageStore, embedder: Embedder) -> None:
    vectors = await embedder.embed_passages([entry.embedded])
    content = Content(
        entry.title, [Chunk(0, len(entry.text), entry.text)], vectors, {**entry.metadata, "source": entry.id}
    )
    await store.replace(shelf, f"{shelf.name}:{entry.id}", Source(ROOT, entry.id, digest), content)
