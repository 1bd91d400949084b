"""The Messages server's log, read by question."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the log (gateway/bench/messages_log.py says what it means)."""

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


@dataclass(slots=True)
class Exchange:
    """One request to the model's side: which draft of which attempt it was, and when each thing happened to it."""

    kind: str
    question: str
    attempt: int
    draft: int
    at_s: dict[str, float] = field(default_factory=dict)


class Upstream:
    """The exchanges of every question, in the order of their requests."""

    def __init__(self, moments: Sequence[Moment]) -> None:
        by_id: dict[int, Exchange] = {}
        self._of: dict[tuple[str, str], list[Exchange]] = {}
        for moment in moments:
            if moment.id not in by_id:
                exchange = Exchange(moment.kind, moment.question, moment.attempt, moment.draft)
                by_id[moment.id] = exchange
                self._of.setdefault((moment.question, moment.kind), []).append(exchange)
            by_id[moment.id].at_s[moment.event] = moment.t

    def drafts(self, question: str) -> list[Exchange]:
        return self._of.get((question, "generator"), [])

    def grades(self, question: str) -> list[Exchange]:
        return self._of.get((question, "grader"), [])
