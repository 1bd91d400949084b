"""A question is embedded once, whatever it is embedded for."""

import pytest

from retrieval.faults import EmbeddingFailed
from retrieval.ports import Vector
from retrieval.remembering import RememberingEmbedder
from tests.support.embedders import HashingEmbedder

pytestmark = pytest.mark.anyio


class Counting(HashingEmbedder):
    """Counts what it embeds; what is named in `broken` fails."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.broken: set[str] = set()

    async def embed_query(self, text: str) -> Vector:
        self.asked.append(text)
        if text in self.broken:
            raise EmbeddingFailed("no")
        return await super().embed_query(text)


async def test_the_same_question_is_embedded_once() -> None:
    inner = Counting()
    embedder = RememberingEmbedder(inner)
    first = await embedder.embed_query("How deep?")
    assert await embedder.embed_query("How deep?") == first == inner.vector("How deep?")
    assert await embedder.embed_query("how deep?") == inner.vector("how deep?")
    assert inner.asked == ["How deep?", "how deep?"]
    assert (embedder.model, embedder.dimensions) == (inner.model, inner.dimensions)
    assert await embedder.embed_passages(["How deep?"]) == [first]


async def test_the_question_that_was_asked_longest_ago_is_forgotten_first() -> None:
    inner = Counting()
    embedder = RememberingEmbedder(inner, remembered=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        await embedder.embed_query(text)
    assert inner.asked == ["a", "b", "c", "b"]


async def test_what_failed_is_asked_again() -> None:
    inner = Counting()
    embedder = RememberingEmbedder(inner)
    inner.broken = {"a"}
    with pytest.raises(EmbeddingFailed):
        await embedder.embed_query("a")
    inner.broken = set()
    assert await embedder.embed_query("a") == inner.vector("a")
    assert inner.asked == ["a", "a"]
