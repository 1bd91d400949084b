"""What happened inside one answer, for whoever observes it: telemetry folds these into spans and counters.

Facts are told to the Observer; events (events.py) are sent to the client. A fact may hold text (queries, what is missing): what is
recorded of it is the observer's decision.
"""

from dataclasses import dataclass

from grading.grade import Grade
from retrieval.passage import Passage


@dataclass(frozen=True, slots=True)
class AttemptBegan:
    """Attempt `attempt` (from 1) begins; `correction` names how it searches differently (None for attempt 1).

    `mode` is the SearchMode of its queries, `need` why attempt 1 searches in it (retrieval.router.Need; None for later ones).
    `similarity` is that of a query in other words to the question.
    """

    attempt: int
    correction: str | None
    query: str
    mode: str = "dense"
    need: str | None = None
    similarity: float | None = None

    @property
    def strategy(self) -> str:
        """How it searches, in one word of a closed set: the correction, for attempt 1 the mode."""
        return self.correction or self.mode


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A set was found: so many `passages`, after what `evidence` left out. `found` are the passages themselves."""

    attempt: int
    passages: int
    took_s: float
    duplicates: int = 0
    outdated: int = 0
    outranked: int = 0
    conflicts: int = 0
    found: tuple[Passage, ...] = ()


@dataclass(frozen=True, slots=True)
class Weighed:
    """What a decision to draft weighed: the expected times of a grade and of a first text, and from which p(sufficient) on a draft pays.

    Below `ahead_p` a wider set pays that is prepared beside this one; `looks_ahead` says that one was begun.
    """

    grade_s: float
    first_text_s: float
    least_p: float
    ahead_p: float = 0.0
    looks_ahead: bool = False


@dataclass(frozen=True, slots=True)
class SpeculationDecided:
    """Whether to draft before the verdict, with what was weighed (streaming.ports.Decision)."""

    attempt: int
    delay_s: float | None
    why: str
    p_sufficient: float | None
    hold_tokens: int | None = None
    weighed: Weighed | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """A usable verdict arrived (`grade`), or none could be had (`fault` is its type)."""

    attempt: int
    grade: Grade | None
    took_s: float
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class DraftStarted:
    """The `draft`-th draft of this attempt starts (more than one after a fault that no one saw).

    Above 0, `ago_s` is how long ago it did: nobody knew then whether its attempt would be one. `stands_in` names the model that drafts in
    place of the generator.
    """

    attempt: int
    draft: int
    ago_s: float = 0.0
    stands_in: str | None = None


@dataclass(frozen=True, slots=True)
class Released:
    """The verdict is `sufficient` and the gate is open; `held_bytes` of text waited for it."""

    attempt: int
    held_bytes: int


@dataclass(frozen=True, slots=True)
class DraftClosed:
    """A draft's upstream request is over and what became of it is known. `outcome`: released, discarded, failed,
    client_gone, timeout.

    Tokens are exact when the service counted them, else estimated from the text. `close_s` is from the decision to
    close until closed (0 for a draft that was over before its verdict); it was over `closed_ago_s` before this is told.
    `first_text_s` is from the request to the first answer text out of the model, `text_s` from there to its last (None: there was none).
    `is_sent` says that something of it was sent, also when a fault, the deadline or the client's leaving ended it later;
    `withheld_tokens` are then those that were not, because a sentence was not supported or not yet checked.
    `stands_in` names the model that drafted in place of the generator.
    """

    attempt: int
    draft: int
    outcome: str
    input_tokens: int
    output_tokens: int
    exact: bool
    close_s: float
    closed_ago_s: float = 0.0
    first_text_s: float | None = None
    text_s: float | None = None
    is_sent: bool = False
    stands_in: str | None = None
    withheld_tokens: int = 0

    @property
    def discarded_tokens(self) -> int:
        """Output tokens that nobody was sent."""
        return self.withheld_tokens if self.is_sent or self.outcome == "released" else self.output_tokens


@dataclass(frozen=True, slots=True)
class Verified:
    """The released answer was checked: how many `claims` it makes, and how many of them nothing supports."""

    attempt: int
    grounded: bool
    claims: int
    unsupported: int


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """`outcome`: released, discarded, refused, failed, client_gone, timeout."""

    attempt: int
    outcome: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The answer is over. `path`: clean, recovered, refused, failed, abandoned; `reason` a refusal's reason or a fault's type."""

    path: str
    attempts: int
    reason: str | None = None


Fact = (
    AttemptBegan
    | Retrieved
    | SpeculationDecided
    | Judged
    | DraftStarted
    | Released
    | DraftClosed
    | Verified
    | AttemptEnded
    | Ended
)

RaceFact = SpeculationDecided | Judged | DraftStarted | Released | DraftClosed
"""What a race tells."""
