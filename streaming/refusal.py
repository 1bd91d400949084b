"""A refusal: an honest answer. What it says, in plain words, and its record as a coverage gap."""

import anyio

from grading.grade import Grade
from retrieval.passage import Passage
from streaming.events import Reason, Refusal
from streaming.ports import Gap, GapLog

GAP_LIMIT_S = 1.0  # a refusal waits no longer than this for its record
CLOSEST = 3  # nearest passages that a refusal offers

_OPENINGS = {
    Reason.INSUFFICIENT_EVIDENCE: "I searched, and what I found does not answer this.",
    Reason.UNGROUNDED: "I stopped: part of the answer was not supported by the sources.",
    Reason.GRADER_UNAVAILABLE: "I could not check whether the sources answer this, so I do not answer.",
    Reason.BUDGET_EXHAUSTED: "I ran out of the time or tokens allowed for this answer.",
    Reason.DECLINED: "The model declined to answer this.",
}


def message_for(reason: Reason, missing: str | None) -> str:
    """One or two sentences for the person who asked."""
    opening = _OPENINGS[reason]
    return f"{opening} Missing: {missing}" if missing and reason is Reason.INSUFFICIENT_EVIDENCE else opening


def disagreement(conflicts: str) -> str:
    """A grade's `conflicts` as a sentence for the person who asked."""
    return f"The sources disagree: {conflicts}"


def missing_of(grade: Grade | None) -> str | None:
    """What a grade says is missing: which of two contradicting sources is right, where it names nothing else."""
    if grade is None:
        return None
    return grade.missing or (disagreement(grade.conflicts) if grade.conflicts else None)


async def refusal(reason: Reason, gap: Gap, gaps: GapLog, passages: tuple[Passage, ...]) -> Refusal:
    """The refusal, with its gap recorded; without a gap id when that takes longer than a second. Raises nothing."""
    gap_id = None
    with anyio.move_on_after(GAP_LIMIT_S):
        gap_id = await gaps.record(gap)
    return Refusal(reason, message_for(reason, gap.missing), gap.missing, gap.searched, gap_id, passages[:CLOSEST])
