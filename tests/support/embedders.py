"""A deterministic embedder that needs no model: words hashed into a vector."""

import hashlib
import math
import re
from collections.abc import Sequence

from anyio.lowlevel import checkpoint

from retrieval.ports import Vector


class HashingEmbedder:
    """Texts that share words are near each other; the same text gives the same vector in every process."""

    def __init__(self, dimensions: int = 32, model: str = "hashing") -> None:
        self._dimensions, self._model = dimensions, model

    @property
    def model(self) -> str:
        return self._model

    @property
    def dimensions(self) -> int:
        return self._dimensions

    async def embed_query(self, text: str) -> Vector:
        await checkpoint()
        return self.vector(text)

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        await checkpoint()
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> list[float]:
        """The sum of one pseudo-random direction per word, at length 1; all zeros for text without words."""
        total = [0.0] * self._dimensions
        for word in re.findall(r"\w+", text.lower()):
            for at, number in enumerate(self._direction(word)):
                total[at] += number
        length = math.sqrt(sum(number * number for number in total))
        return [number / length for number in total] if length else total

    def _direction(self, word: str) -> list[float]:
        digest = hashlib.shake_256(word.encode("utf-8", "replace")).digest(self._dimensions)
        return [byte / 127.5 - 1 for byte in digest]
