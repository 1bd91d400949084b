"""Embeddings from any server that speaks the OpenAI embeddings protocol."""

import math
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import httpx2

from gateway.observing import outgoing
from retrieval.faults import EmbeddingFailed
from retrieval.ports import Vector

CONNECT_LIMIT_S = 5.0
BUSY = frozenset({408, 425, 429})  # too much for now


class HttpEmbedder:
    """retrieval.ports.Embedder over `POST {base_url}/embeddings` (so `base_url` ends in `/v1`).

    Texts go out in batches of at most `batch`, one request after the other; `timeout_s` bounds each wait for the server,
    in seconds; nothing is retried. An async context manager: leaving it closes the connections.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        dimensions: int,
        *,
        api_key: str | None = None,
        timeout_s: float = 30.0,
        batch: int = 64,
    ) -> None:
        self.model = model
        self.dimensions = dimensions
        self._batch = batch
        self.timeout_s = timeout_s
        self._url = f"{base_url.rstrip('/')}/embeddings"
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        timeout = httpx2.Timeout(timeout_s, connect=min(timeout_s, CONNECT_LIMIT_S))
        self._client = httpx2.AsyncClient(headers=headers, timeout=timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections. Idempotent."""
        await self._client.aclose()

    async def embed_query(self, text: str) -> Vector:
        """As the port says; one request."""
        return (await self.embed_passages([text]))[0]

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """As the port says. Blank texts are not sent: their vectors are zeros."""
        vectors: list[Vector] = [[0.0] * self.dimensions for _ in texts]
        told = [index for index, text in enumerate(texts) if text.strip()]
        for start in range(0, len(told), self._batch):
            places = told[start : start + self._batch]
            for place, vector in zip(places, await self._asked([texts[each] for each in places]), strict=True):
                vectors[place] = vector
        return vectors

    async def _asked(self, texts: list[str]) -> list[Vector]:
        body = {"model": self.model, "input": texts, "encoding_format": "float"}
        try:
            response = await self._client.post(self._url, json=body, headers=outgoing.headers())
        except httpx2.TimeoutException as error:
            message = f"the embeddings server did not answer within {self.timeout_s:g} s"
            raise EmbeddingFailed(message, is_outage=True) from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise EmbeddingFailed("the embeddings server cannot be reached", is_outage=True) from error
        if response.status_code != 200:
            is_outage = response.status_code >= 500 or response.status_code in BUSY
            raise EmbeddingFailed(
                f"the embeddings server answered with status {response.status_code}", is_outage=is_outage
            )
        try:
            return self._read(response.json(), len(texts))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EmbeddingFailed("the embeddings server sent something that is no list of embeddings") from error

    def _read(self, body: Any, count: int) -> list[Vector]:
        """The vectors by their `index`, whatever their order in the body."""
        by_index = {int(item["index"]): item["embedding"] for item in body["data"]}
        if sorted(by_index) != list(range(count)) or len(body["data"]) != count:
            raise EmbeddingFailed(f"the embeddings server sent {len(body['data'])} embeddings for {count} texts")
        return [self._unit([float(each) for each in by_index[index]]) for index in range(count)]

    def _unit(self, vector: list[float]) -> Vector:
        if len(vector) != self.dimensions:
            raise EmbeddingFailed(
                f"the embeddings server sent {len(vector)} dimensions, {self.dimensions} were configured"
            )
        length = math.hypot(*vector)
        if not math.isfinite(length):
            raise EmbeddingFailed("the embeddings server sent a vector that is not finite")
        return [each / length for each in vector] if length else vector
