"""The budget of one answer: attempts, time, tokens. Every bound is hard."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from retrieval.passage import Passage
from streaming.ledger import CHARACTERS_PER_TOKEN, Ledger
from streaming.room import HOLD_LIMIT_BYTES

MAX_RETRIES = 2  # more than two corrections cost more time than they recover answers


class Verify(StrEnum):
    """Whether the sentences of a released answer are checked against the passages they rest on.

    OFF: no. ANNOTATE: after the last token. GATE: each before it is sent.
    """

    OFF = "off"
    ANNOTATE = "annotate"
    GATE = "gate"


class Conflicts(StrEnum):
    """What becomes of an answer whose relevant passages contradict each other.

    NAME: it is given, and ends with where they do. REFUSE: it is not; the search is corrected, and the refusal says so.
    """

    NAME = "name"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one answer. `max_retries` corrections follow the first attempt at most; times in seconds.

    `output_tokens` are one draft's at most; the totals are of all drafts together, discarded ones too.
    `silence_s` is the longest that a model may keep a draft waiting. `external_searches` are searches of sources outside the house.
    """

    max_retries: int = 1
    deadline_s: float = 60.0
    grade_timeout_s: float = 10.0
    silence_s: float = 20.0
    output_tokens: int = 1024
    total_output_tokens: int = 4_096
    total_input_tokens: int = 200_000
    external_searches: int = 2
    hold_bytes: int = HOLD_LIMIT_BYTES
    redrafts: int = 1
    k: int = 5
    strict_subset: bool = False
    verify: Verify = Verify.OFF
    conflicts: Conflicts = Conflicts.NAME

    def __post_init__(self) -> None:
        if not 0 <= self.max_retries <= MAX_RETRIES:
            raise ValueError(f"max_retries is {self.max_retries}; it must be between 0 and {MAX_RETRIES}")

    def allows_retry_after(self, attempt: int) -> bool:
        """Whether another attempt may follow attempt number `attempt`."""
        return attempt <= self.max_retries

    def draft_tokens(
        self, ledger: Ledger, passages: Sequence[Passage], besides: Sequence[Passage] | None = None
    ) -> int:
        """How many output tokens a draft over `passages` may have; 0 when what is spent leaves no room for one.

        What drafts that run may come to have is spent. Given `besides`, a draft is allowed in full or not at all, and only if another one,
        over those, may follow in full.
        """
        asked = input_tokens_of(passages) + input_tokens_of(besides or ())
        if ledger.committed_input + asked > self.total_input_tokens:
            return 0
        left = self.total_output_tokens - ledger.committed_output
        if besides is not None and left < 2 * self.output_tokens:
            return 0
        return max(0, min(self.output_tokens, left))


def input_tokens_of(passages: Sequence[Passage]) -> int:
    """An estimate of what a request over `passages` holds."""
    return sum(len(p.title) + len(p.text) for p in passages) // CHARACTERS_PER_TOKEN
