"""What a refusal says, in plain words. Pure."""

from streaming.events import Reason

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
