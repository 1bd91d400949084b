"""A passage: a piece of a document, with where it came from and how it scored."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document.

    `start` and `end` are character offsets into the document's text. `score` is the figure the set is ordered by
    (higher is better; its unit is that of the last stage that ranked it); `scores` keeps every stage's own figure
    by name: `cosine` (0..1), `lexical` (BM25, near 1 when every term occurs), `fused`, `rerank` (logit).
    """

    id: str
    document_id: str
    title: str
    text: str
    start: int = 0
    end: int = 0
    url: str | None = None
    score: float = 0.0
    scores: Mapping[str, float] = field(default_factory=dict)
    metadata: Mapping[str, Scalar] = field(default_factory=dict)

    def scored(self, stage: str, score: float) -> "Passage":
        """The same passage ranked by `stage`: `score` becomes its figure, the earlier ones are kept in `scores`."""
        return replace(self, score=score, scores={**self.scores, stage: score})


def merge(first: "tuple[Passage, ...]", second: "tuple[Passage, ...]", limit: int) -> tuple[Passage, ...]:
    """Both sets without repeats, `first` before `second`, each in its own order, at most `limit` passages.

    A repeat is the same passage id, or the same text of the same document under another id.
    """
    merged: dict[tuple[str, str], Passage] = {}
    ids: set[str] = set()
    for passage in (*first, *second):
        key = (passage.document_id, passage.text)
        if passage.id not in ids and key not in merged:
            ids.add(passage.id)
            merged[key] = passage
    return tuple(merged.values())[:limit]
