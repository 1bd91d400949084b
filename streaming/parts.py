"""The parts of an answer: everyone that it works with."""

from dataclasses import dataclass, field

from grading.correct import DEFAULT_POLICY, Fields, Policy, Similarity
from grading.ports import Grader, Rewriter, Verifier
from grading.routing import Router, adaptive
from retrieval.ports import Reranker
from retrieval.sources import Source
from streaming.ports import AnswerCache, GapLog, Generator, Speculator


@dataclass(frozen=True, slots=True)
class Parts:
    """The collaborators of an answer. What is None is done without."""

    sources: tuple[Source, ...]
    reranker: Reranker | None
    grader: Grader
    generator: Generator
    speculator: Speculator
    gaps: GapLog
    rewriter: Rewriter | None = None
    verifier: Verifier | None = None
    fields: Fields | None = None
    similarity: Similarity | None = None
    cache: AnswerCache | None = None
    policy: Policy = field(default_factory=lambda: DEFAULT_POLICY)
    router: Router = adaptive
    fallback: Generator | None = None
    """Who drafts after the generator has failed in a way that may pass."""
