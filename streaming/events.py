"""The events of an answer, in the words of the contract; how they look on a wire is said in wire/."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from retrieval.passage import Passage

Stage = Literal["retrieving", "grading", "correcting", "generating", "verifying"]


class Path(StrEnum):
    """How an answer ended; every path but CLEAN is the failure path."""

    CLEAN = "clean"
    RECOVERED = "recovered"
    REFUSED = "refused"
    FAILED = "failed"
    ABANDONED = "abandoned"


class Reason(StrEnum):
    """Why an answer was refused."""

    INSUFFICIENT_EVIDENCE = "insufficient_evidence"
    UNGROUNDED = "ungrounded"
    GRADER_UNAVAILABLE = "grader_unavailable"
    BUDGET_EXHAUSTED = "budget_exhausted"
    DECLINED = "declined"


@dataclass(frozen=True, slots=True)
class Started:
    answer_id: str
    trace_id: str
    question: str
    collection: str


@dataclass(frozen=True, slots=True)
class Status:
    attempt: int
    stage: Stage
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """Attempt `attempt` was discarded; the next begins, searching `query` by `correction`."""

    attempt: int
    verdict: str
    missing: str | None
    correction: str
    query: str


@dataclass(frozen=True, slots=True)
class Sources:
    """The passages the released answer may cite, with their numbers; never sent before `sufficient`."""

    attempt: int
    passages: tuple[tuple[int, Passage], ...]


@dataclass(frozen=True, slots=True)
class Token:
    text: str


@dataclass(frozen=True, slots=True)
class Citation:
    """Characters `start` to `end` of the answer rest on source `n`."""

    n: int
    start: int
    end: int
    quote: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """An honest answer. `searched` are the queries tried (`source: query` in a further one), `closest` passages, unconfirmed."""

    reason: Reason
    message: str
    missing: str | None
    searched: tuple[str, ...]
    gap_id: str | None
    closest: tuple[Passage, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    start: int
    end: int
    supported: bool
    sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Verification:
    grounded: bool
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """A fault after the stream began."""

    type: str
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class Done:
    """Always last. `finish_reason`: stop, length, refusal, error, budget. `usage` is the ledger."""

    path: Path
    finish_reason: str
    attempts: int
    usage: Mapping[str, int | bool]
    timings_ms: Mapping[str, float] = field(default_factory=dict)


Event = Started | Status | Retry | Sources | Token | Citation | Refusal | Verification | Failed | Done
