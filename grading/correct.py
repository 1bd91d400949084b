"""How the next attempt searches differently: do not merely retry, correct the reason it failed."""

from dataclasses import dataclass, replace

from grading.grade import Grade, Verdict
from retrieval.passage import Passage, merge
from retrieval.ports import Query, SearchMode

BROADEN_FACTOR = 4  # k 5 -> 20 candidates, reranked back to 5


@dataclass(frozen=True, slots=True)
class Correction:
    """The next search. `rerank` asks for `k` best of a wider set; `keep` are passages of the last set to put first."""

    name: str
    query: Query
    k: int
    rerank: bool = False
    keep: tuple[Passage, ...] = ()

    def joined(self, found: tuple[Passage, ...]) -> tuple[Passage, ...]:
        """The set to grade next: what is kept, then what was found, without repeats, with room for k new ones."""
        return merge(self.keep, found, limit=len(self.keep) + self.k)


def correct(question: str, grade: Grade, passages: tuple[Passage, ...], last: Query, k: int) -> Correction:
    """The correction for a set graded `partial` (search for the gap and merge) or `insufficient` (search wider and replace).

    Source: the ambiguous and incorrect branches of corrective RAG, arXiv:2401.15884, section 4.
    """
    if grade.verdict is Verdict.PARTIAL and grade.missing:
        keep = tuple(passages[n - 1] for n in grade.relevant) or passages
        query = replace(last, text=f"{question} {grade.missing}", k=k)
        return Correction("gap_query", query, k, keep=keep)
    return Correction(
        "broaden", replace(last, text=question, k=k * BROADEN_FACTOR, mode=SearchMode.HYBRID), k, rerank=True
    )
