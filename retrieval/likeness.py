"""Likeness: how near two texts are in meaning."""

from math import fsum

from retrieval.faults import EmbeddingFailed, GatewayFault
from retrieval.ports import Embedder


class Likeness:
    """The cosine of two texts by an embedder, both embedded as questions. 1 for the same, 0 where one has no content."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def __call__(self, one: str, other: str) -> float:
        """Raises EmbeddingFailed; on cancellation as Embedder.embed_query."""
        try:
            first = await self._embedder.embed_query(one)
            second = await self._embedder.embed_query(other)
        except GatewayFault:
            raise
        except Exception as error:
            raise EmbeddingFailed("two queries could not be compared") from error
        return fsum(a * b for a, b in zip(first, second, strict=True))
