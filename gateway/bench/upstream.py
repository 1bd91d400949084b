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
    input_tokens: int = 0


@dataclass(slots=True)
class Exchange:
    """One request to the model's side: which draft of which attempt it was, and when each thing happened to it."""

    kind: str
    question: str
    attempt: int
    draft: int
    input_tokens: int = 0
    tokens: int = 0
    at_s: dict[str, float] = field(default_factory=dict)


class Upstream:
    """The exchanges of every question, in the order of their requests."""

    def __init__(self, moments: Sequence[Moment]) -> None:
        by_id: dict[int, Exchange] = {}
        self._of: dict[tuple[str, str], list[Exchange]] = {}
        self._all: dict[str, list[Exchange]] = {}
        for moment in moments:
            if moment.id not in by_id:
                exchange = Exchange(moment.kind, moment.question, moment.attempt, moment.draft, moment.input_tokens)
                by_id[moment.id] = exchange
                self._of.setdefault((moment.question, moment.kind), []).append(exchange)
                self._all.setdefault(moment.question, []).append(exchange)
            by_id[moment.id].at_s[moment.event] = moment.t
            by_id[moment.id].tokens = moment.tokens

    def of(self, question: str) -> list[Exchange]:
        """All of them."""
        return self._all.get(question, [])

    def drafts(self, question: str) -> list[Exchange]:
        return self._of.get((question, "generator"), [])

    def grades(self, question: str) -> list[Exchange]:
        return self._of.get((question, "grader"), [])
