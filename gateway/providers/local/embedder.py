"""Embeddings by a model of the BGE English family, in this process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gateway.providers.local.faults import LocalModelMissing, told
from gateway.providers.local.files import embedding_files
from gateway.providers.local.network import Network
from gateway.providers.local.slots import Slots, Urgency
from retrieval.faults import EmbeddingFailed
from retrieval.ports import Vector

# What the model was trained to see before a question, and only there: https://huggingface.co/BAAI/bge-small-en-v1.5#usage
QUERY_PREFIX = "Represent this sentence for searching relevant passages: "
MODEL = "bge-small-en-v1.5-int8"
DIMENSIONS = 384
LONGEST_TOKENS = 512  # the model has no positions beyond


class BgeEmbedder:
    """retrieval.ports.Embedder: the vector of the first token, scaled to length 1, as the model's card asks.

    `folder` names another model of the family (model.onnx, tokenizer.json, config.json); its name is the folder's.
    Text beyond 512 tokens is not seen.
    """

    def __init__(self, slots: Slots, folder: Path | None = None) -> None:
        self.model = MODEL if folder is None else folder.resolve().name
        self.dimensions = DIMENSIONS if folder is None else _hidden_size(folder)
        self.network = Network(partial(embedding_files, folder), LONGEST_TOKENS)
        self._slots = slots

    async def embed_query(self, text: str) -> Vector:
        """As the port says; one run of 2 to 10 ms, before whatever else waits for the CPU."""
        return await self._embed(QUERY_PREFIX, text, Urgency.VERDICT)

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """As the port says; one run per text (40 ms per 200 tokens), after whatever a person waits for."""
        vectors: list[Vector] = []
        for text in texts:
            vectors.append(await self._embed("", text, Urgency.INGEST))  # noqa: PERF401  one at a time, on purpose
        return vectors

    async def _embed(self, prefix: str, text: str, urgency: Urgency) -> Vector:
        if not text.strip():
            return [0.0] * self.dimensions
        try:
            vector = await self._slots.run(urgency, partial(self._vector, prefix + text))
        except Exception as error:
            message = f"the local embedding model failed on a text of {len(text)} characters"
            raise EmbeddingFailed(told(error, message)) from error
        if len(vector) != self.dimensions:
            raise EmbeddingFailed(
                f"the local embedding model gave {len(vector)} dimensions instead of {self.dimensions}"
            )
        return vector

    def _vector(self, text: str) -> list[float]:
        import numpy

        first = self.network.run(text)[0][0].astype(numpy.float64)
        length = float(numpy.linalg.norm(first))
        return [float(each) for each in first / length]


def _hidden_size(folder: Path) -> int:
    try:
        size = json.loads((folder / "config.json").read_text("utf-8"))["hidden_size"]
        return int(size)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LocalModelMissing(
            f"the embedding model folder {folder} needs model.onnx, tokenizer.json and a config.json with hidden_size"
        ) from error
