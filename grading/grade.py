"""A grade: whether a SET of passages supports an answer to the question, and what it lacks."""

from dataclasses import dataclass, replace
from enum import StrEnum

from retrieval.disagreement import Disagreement
from retrieval.passage import Passage


class Verdict(StrEnum):
    """sufficient, partial, insufficient; in the corrective-RAG paper's words correct, ambiguous, incorrect.

    Source: Yan et al., Corrective Retrieval Augmented Generation, arXiv:2401.15884.
    """

    SUFFICIENT = "sufficient"
    PARTIAL = "partial"
    INSUFFICIENT = "insufficient"


@dataclass(frozen=True, slots=True)
class RungJudged:
    """What one grader of a cascade said: a verdict with the probability it gave (None: it gives none), or the type of its fault."""

    grader: str
    verdict: Verdict | None
    p_sufficient: float | None
    took_s: float
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Grade:
    """The grade of a set. `relevant` holds passage numbers, counted from 1 in the order the set was given.

    `missing` says in words what the set lacks (None when nothing), `conflicts` where passages contradict each other.
    `grader` names who said so; `p_sufficient` (0..1) and its standard error `p_error` are given by graders that estimate one. `rungs` are
    the graders of a cascade that were asked, in order. A model's grade says what tokens it took; `cached_tokens` of what it read its
    service had kept from before.
    """

    verdict: Verdict
    missing: str | None = None
    relevant: tuple[int, ...] = ()
    conflicts: str | None = None
    grader: str = ""
    p_sufficient: float | None = None
    p_error: float | None = None
    rungs: tuple[RungJudged, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0

    @property
    def is_sufficient(self) -> bool:
        return self.verdict is Verdict.SUFFICIENT


def consistent(grade: Grade, passage_count: int) -> Grade:
    """The grade with its contradictions resolved against release.

    Numbers of passages that are not in the set are dropped, repeats too. A `sufficient` that also names something
    missing, names an unknown passage, or names no relevant passage at all is lowered to `partial` (to `insufficient`
    when nothing relevant is left): a verdict that contradicts itself never releases a draft.
    """
    known = tuple(dict.fromkeys(n for n in grade.relevant if 1 <= n <= passage_count))
    missing = (grade.missing or "").strip() or None
    contradicts = missing is not None or len(known) < len(set(grade.relevant)) or not known
    verdict = grade.verdict
    if verdict is Verdict.SUFFICIENT and contradicts:
        verdict = Verdict.PARTIAL if known else Verdict.INSUFFICIENT
    if (verdict, missing, known) == (grade.verdict, grade.missing, grade.relevant):
        return grade
    return replace(grade, verdict=verdict, missing=missing, relevant=known)


def settled(grade: Grade, passages: tuple[Passage, ...], seen: tuple[Disagreement, ...], *, refuses: bool) -> Grade:
    """The grade with the conflicts that were `seen` between relevant passages, where the grader named none of its own.

    With `refuses` a sufficient set whose passages contradict each other is only partial: which of them is right is still to be found.
    """
    relevant = {passages[n - 1].id for n in grade.relevant}
    between = [each.words for each in seen if each.one.id in relevant and each.other.id in relevant]
    grade = replace(grade, conflicts=grade.conflicts or "; ".join(between) or None)
    if refuses and grade.conflicts and grade.is_sufficient:
        return replace(grade, verdict=Verdict.PARTIAL)
    return grade
