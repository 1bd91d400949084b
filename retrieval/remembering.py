"""An embedder that remembers questions: one question is embedded once, for the cache, for its searches and for the gaps."""

from collections import OrderedDict
from collections.abc import Sequence

from retrieval.ports import Embedder, Vector

REMEMBERED = 128  # questions, more than are answered at once; 1.5 MB of vectors of 384 numbers


class RememberingEmbedder:
    """retrieval.ports.Embedder: `inner`, but for the questions that it was asked last. What failed is asked again."""

    def __init__(self, inner: Embedder, remembered: int = REMEMBERED) -> None:
        self._inner, self._most = inner, remembered
        self._vectors: OrderedDict[str, Vector] = OrderedDict()

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def dimensions(self) -> int:
        return self._inner.dimensions

    async def embed_query(self, text: str) -> Vector:
        """As the port says; at once where the text is remembered."""
        vector = self._vectors.get(text)
        if vector is None:
            vector = self._vectors[text] = await self._inner.embed_query(text)
        self._vectors.move_to_end(text)
        while len(self._vectors) > self._most:
            self._vectors.popitem(last=False)
        return vector

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """As the port says; nothing of them is remembered."""
        return await self._inner.embed_passages(texts)
