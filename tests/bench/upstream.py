"""The Messages server's log, read by question."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the Messages server's log (tests/support/messages_log.py says what it means)."""

    t: float
    event: str
    id: int
    connection: int
    kind: str
    model: str
    question: str
    attempt: int
    draft: int
    tokens: int


class Upstream:
    """The Messages server's log, by question."""

    def __init__(self, moments: Sequence[Moment]) -> None:
        self._at: dict[tuple[str, str, int, str], list[Moment]] = {}
        for moment in moments:
            self._at.setdefault((moment.question, moment.kind, moment.attempt, moment.event), []).append(moment)

    def at_s(self, question: str, kind: str, attempt: int, event: str) -> float | None:
        """When that last happened."""
        found = self._at.get((question, kind, attempt, event))
        return found[-1].t if found else None

    def drafts(self, question: str) -> list[Moment]:
        """The drafts that were requested for `question`, in order."""
        found = [
            moment
            for (asked, kind, _, event), moments in self._at.items()
            if (asked, kind, event) == (question, "generator", "request")
            for moment in moments
        ]
        return sorted(found, key=lambda moment: moment.t)

    def first_token_s(self, draft: Moment) -> float | None:
        """When that draft's first token was written."""
        return self.at_s(draft.question, "generator", draft.attempt, "first_token")
