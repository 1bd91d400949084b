"""What retrieval needs from others, and what it offers: Retriever, Embedder, Reranker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from retrieval.passage import Passage, Scalar

Vector = Sequence[float]


class SearchMode(StrEnum):
    """Which legs a search uses.

    `dense`: vectors alone. `lexical`: words alone (BM25). `hybrid`: both fused, passages whose title the question names among the
    candidates. `hops`: hybrid, then once more for what the best passages name, so that the second half of a chain is found.
    """

    DENSE = "dense"
    LEXICAL = "lexical"
    HYBRID = "hybrid"
    HOPS = "hops"


@dataclass(frozen=True, slots=True)
class Query:
    """What is sent to a retriever. `k` passages are wanted; `filters` are equalities on metadata fields.

    A retriever that does not know a mode may search as `dense`.
    """

    text: str
    collection: str = "default"
    k: int = 5
    mode: SearchMode = SearchMode.DENSE
    filters: Mapping[str, Scalar] = field(default_factory=dict)
    tenant: str = "default"


class Retriever(Protocol):
    """Finds passages. Implementations hold no connection after `retrieve` returns."""

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        """At most `query.k` passages, best first, no repeats; fewer only when the collection holds no more (`lexical`: no more
        that share a word with the question).

        Raises RetrievalUnavailable, RetrievalMisconfigured, CollectionNotFound or EmbeddingFailed. On cancellation the running statement is
        cancelled on the server, the connection goes back clean or is discarded, and nothing is left behind.
        """
        ...


class Embedder(Protocol):
    """Turns text into unit vectors. Never blocks the event loop."""

    @property
    def model(self) -> str:
        """The model's name, stored with each collection and compared at start."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of every vector."""
        ...

    async def embed_query(self, text: str) -> Vector:
        """One vector of `dimensions` finite floats, length 1 (or all zeros for text with no content).

        Raises EmbeddingFailed. On cancellation returns promptly; work already on a thread may finish unseen.
        """
        ...

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """One vector per text, in order; otherwise as `embed_query`."""
        ...


class Reranker(Protocol):
    """Reads question and passage together and ranks anew. Never blocks the event loop."""

    async def rerank(self, question: str, passages: tuple[Passage, ...], k: int) -> tuple[Passage, ...]:
        """The best `k` of `passages`, best first, each scored under `rerank` (a logit; comparable within one call).

        On cancellation as Embedder.
        """
        ...
