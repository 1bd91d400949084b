"""Fusion: one ranking from the figures that a search has of each candidate. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from retrieval.passage import Passage

# Of 0, .3, .5, .6, .7, .8, .9 and 1 the best mean nDCG@10 over mtrag_cloud, govt, wiki and fiqa (dense alone .53, words alone .44,
# 0.7: .56) and, within .002, on multihop; the same weight is best whichever of the five sets is left out of the choice.
DENSE_WEIGHT = 0.7
NAMED_WEIGHT = 0.2  # for a passage whose title the question names; multihop: 0 .755, .1 .762, .2 .764, .4 .759

# Of a cross-encoder's logit, added to the fused figure of the best six. nDCG@10 on mtrag_wiki, govt and fiqa: fused .587, .689, .413; with
# .02 x logit .602, .698, .408; with .05 .599, .699, .404; by the logit alone .586, .700, .397, so that a first search does without.
RERANK_WEIGHT = 0.02


@dataclass(frozen=True, slots=True)
class Legs:
    """What is known of one candidate: cosine (-1..1), BM25 (0 when it shares no term), and whether the question names its title."""

    cosine: float
    lexical: float
    named: bool = False


def fuse(
    candidates: Sequence[Legs], dense_weight: float = DENSE_WEIGHT, named_weight: float = NAMED_WEIGHT
) -> list[float]:
    """One figure per candidate, in their order: `dense_weight` x cosine + the rest x lexical, + `named_weight` where named; 0 or more.

    Each leg is first brought to 0..1 over these candidates: cosine from its least to its greatest, lexical from 0 to its greatest. A
    convex combination of scores, not of ranks: a rank forgets by how much the best passage leads, and reciprocal-rank
    fusion puts what is middling in both legs above what is best in one. Source: Bruch, Gai and Ingber, "An Analysis of Fusion Functions for
    Hybrid Retrieval", arXiv:2210.11934, section 4. Every candidate has both figures, because the store computes both for all.
    """
    if not candidates:
        return []
    least = min(one.cosine for one in candidates)
    spread = max(one.cosine for one in candidates) - least
    greatest = max(one.lexical for one in candidates)
    return [
        dense_weight * ((one.cosine - least) / spread if spread else 1.0)
        + (1 - dense_weight) * (one.lexical / greatest if greatest else 0.0)
        + named_weight * one.named
        for one in candidates
    ]


def blended(reranked: Sequence[Passage], rest: Sequence[Passage] = ()) -> tuple[Passage, ...]:
    """Passages that a cross-encoder has read, best first by fused figure and logit together, then the `rest` in its order.

    A passage without a fused figure (another source's) counts as fused 0.
    """
    scored = [
        one.scored("blended", one.scores.get("fused", 0.0) + RERANK_WEIGHT * one.scores.get("rerank", 0.0))
        for one in reranked
    ]
    return (*sorted(scored, key=lambda one: (-one.score, one.id)), *rest)
