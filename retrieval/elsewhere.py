"""A retriever that looks elsewhere: in another collection than the one that is asked, or in another database."""

from dataclasses import replace

from retrieval.passage import Passage
from retrieval.ports import Query, Retriever


class Elsewhere:
    """A Retriever over `inner` that searches `collection` whatever collection is asked (None: the one that is asked).

    With a `prefix` the ids of passages and documents begin with it, so that they are no ids of the house's own database.
    """

    def __init__(self, inner: Retriever, *, collection: str | None = None, prefix: str | None = None) -> None:
        self._inner, self._collection, self._prefix = inner, collection, prefix

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        """As `inner` does."""
        found = await self._inner.retrieve(replace(query, collection=self._collection or query.collection))
        if self._prefix is None:
            return found
        at = f"{self._prefix}:"
        return tuple(replace(p, id=at + p.id, document_id=at + p.document_id) for p in found)
