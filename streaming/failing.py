"""Failing: what the next search has to correct after an attempt that did not do, and why there is no answer after the last one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from grading.correct import Failure
from grading.grade import Grade, Verdict
from retrieval.evidence import Cleaned
from retrieval.searcher import Search
from streaming.ask import Ask
from streaming.events import Reason
from streaming.gate import Discarded, Ungrounded
from streaming.ports import Gap
from streaming.refusal import missing_of


@dataclass(frozen=True, slots=True)
class Refused:
    """No answer, and why; `grade` explains it where there was one."""

    reason: Reason
    grade: Grade | None = None


def failure_of(ending: Discarded | Ungrounded, question: str, found: Cleaned, search: Search) -> Failure:
    """What the next search has to correct; after an ungrounded answer, that its unsupported sentence be supported."""
    if isinstance(ending, Discarded):
        return Failure(question, ending.grade, found.kept, search)
    grade = replace(ending.grade, verdict=Verdict.PARTIAL, missing=ending.sentence)
    return Failure(question, grade, found.kept, search, is_ungrounded=True)


def refused(ending: Discarded | Ungrounded) -> Refused:
    """Why there is no answer after the last attempt ended so."""
    ungrounded = isinstance(ending, Ungrounded)
    return Refused(Reason.UNGROUNDED if ungrounded else Reason.INSUFFICIENT_EVIDENCE, ending.grade)


def gap_of(refused: Refused, ask: Ask, question: str, searched: Sequence[str], attempts: int) -> Gap:
    """The record of a refusal; each search once."""
    return Gap(
        question=question,
        missing=missing_of(refused.grade),
        reason=refused.reason,
        searched=tuple(dict.fromkeys(searched)),
        attempts=attempts,
        collection=ask.collection,
        tenant=ask.tenant,
        answer_id=ask.answer_id,
    )
