"""Decisions: what was decided for each attempt of an answer, folded from its facts into figures without words."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Protocol

from grading.correct import folded
from grading.evidence import piece
from grading.score import FREE_SIGNALS, measured_freely
from grading.signals import signals
from retrieval.passage import Passage
from streaming.ask import Ask
from streaming.events import Path
from streaming.facts import (
    AttemptBegan,
    AttemptEnded,
    DraftClosed,
    Ended,
    Fact,
    Judged,
    Retrieved,
    SpeculationDecided,
    Verified,
)

FROM_CACHE = "cache"  # the strategy of an answer that was kept
NONE = "none"  # of one that ended before its first search
DIGEST_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class Seen:
    """What an attempt saw: from it the free signals are measured when the decision is written, and then it is forgotten."""

    question: str
    passages: tuple[Passage, ...]

    def signals(self) -> dict[str, float]:
        """The free signals by name; about 4 ms for 900 words, too long for the event loop."""
        pieces = [piece(each.title, each.text) for each in self.passages]
        found = signals(self.question, pieces, measured_freely(self.passages))
        return dict(zip(FREE_SIGNALS, found.values(FREE_SIGNALS), strict=True))


@dataclass(frozen=True, slots=True)
class Decision:
    """One attempt of one answer: a row of the table `decision`, whose columns say what the fields mean. Times in seconds."""

    at: datetime
    tenant: str
    collection: str
    trace_id: str
    question: str
    attempts: int
    path: str
    reason: str | None
    first_byte_s: float | None
    total_s: float
    grounded: bool | None
    claims: int | None
    unsupported: int | None
    attempt: int
    strategy: str
    generator: str
    need: str | None = None
    outcome: str | None = None
    passages: int | None = None
    duplicates: int | None = None
    outdated: int | None = None
    outranked: int | None = None
    conflicts: int | None = None
    retrieval_s: float | None = None
    grader: str | None = None
    verdict: str | None = None
    p_sufficient: float | None = None
    grade_s: float | None = None
    grader_fault: str | None = None
    grade_input_tokens: int | None = None
    grade_output_tokens: int | None = None
    speculate: str | None = None
    speculate_p: float | None = None
    speculate_delay_s: float | None = None
    looks_ahead: bool | None = None
    drafts: int = 0
    first_token_s: float | None = None
    close_s: float | None = None
    input_tokens: int = 0
    released_tokens: int = 0
    discarded_tokens: int = 0
    exact: bool = True
    seen: Seen | None = field(default=None, repr=False)


class Decisions(Protocol):
    """Keeps decisions."""

    def add(self, decisions: tuple[Decision, ...]) -> None:
        """Takes them to be kept later; returns at once and never raises. What cannot be kept is dropped."""
        ...


class NoDecisions:
    """Keeps none (Decisions)."""

    def add(self, decisions: tuple[Decision, ...]) -> None:
        """Forgets them."""


@dataclass(slots=True)
class _Attempt:
    """One attempt as far as it is known."""

    began: AttemptBegan
    found: Retrieved | None = None
    judged: Judged | None = None
    speculated: SpeculationDecided | None = None
    drafts: list[DraftClosed] = field(default_factory=list)
    outcome: str | None = None


class Folding:
    """Folds the facts of one answer (streaming.ports.Observer) into its decisions."""

    def __init__(self, ask: Ask, generator: str, clock: Callable[[], float] = time.perf_counter) -> None:
        self._ask, self._generator, self._clock = ask, generator, clock
        self._began = clock()
        self._attempts: list[_Attempt] = []
        self._ended: Ended | None = None
        self._verified: Verified | None = None
        self._total_s: float | None = None

    def note(self, fact: Fact) -> None:
        """Facts may come in any order after their attempt began; those of no attempt are passed over."""
        match fact:
            case AttemptBegan():
                self._attempts.append(_Attempt(fact))
            case Ended():
                self._ended, self._total_s = fact, self._clock() - self._began
            case Verified():
                self._verified = fact
            case _ if 1 <= fact.attempt <= len(self._attempts):
                attempt = self._attempts[fact.attempt - 1]
                match fact:
                    case Retrieved():
                        attempt.found = fact
                    case Judged():
                        attempt.judged = fact
                    case SpeculationDecided():
                        attempt.speculated = fact
                    case DraftClosed():
                        attempt.drafts.append(fact)
                    case AttemptEnded(_, outcome):
                        attempt.outcome = outcome
                    case _:
                        pass
            case _:
                pass

    def decisions(self, first_byte_s: float | None = None) -> tuple[Decision, ...]:
        """A decision for each attempt, in order; for an answer without one a decision all the same."""
        whole = self._whole(first_byte_s)
        if not self._attempts:
            is_kept = self._ended is not None and self._ended.path == Path.CLEAN
            return (whole(0, FROM_CACHE if is_kept else NONE),)
        return tuple(self._decision(whole, attempt) for attempt in self._attempts)

    def _whole(self, first_byte_s: float | None) -> Callable[..., Decision]:
        """Makes decisions that agree on what is true of the whole answer."""
        ended, verified, ask = self._ended, self._verified, self._ask
        question = self._attempts[0].began.query if self._attempts else ask.question
        at, digest = datetime.now(UTC), digest_of(question)
        total_s = self._total_s if self._total_s is not None else self._clock() - self._began

        def make(attempt: int, strategy: str, **more: object) -> Decision:
            return Decision(
                at=at,
                tenant=ask.tenant,
                collection=ask.collection,
                trace_id=ask.trace_id,
                question=digest,
                attempts=len(self._attempts),
                path=str(ended.path if ended else Path.ABANDONED),
                reason=ended.reason if ended else None,
                first_byte_s=first_byte_s,
                total_s=total_s,
                grounded=verified.grounded if verified else None,
                claims=verified.claims if verified else None,
                unsupported=verified.unsupported if verified else None,
                attempt=attempt,
                strategy=strategy,
                generator=self._generator,
                **more,  # type: ignore[arg-type]
            )

        return make

    def _decision(self, whole: Callable[..., Decision], attempt: _Attempt) -> Decision:
        began = attempt.began
        return whole(
            began.attempt,
            began.strategy,
            need=began.need,
            outcome=attempt.outcome,
            **_found(attempt.found),
            **_judged(attempt.judged),
            **_speculated(attempt.speculated),
            **_drafted(attempt.drafts),
            seen=self._seen(attempt),
        )

    def _seen(self, attempt: _Attempt) -> Seen | None:
        """What the free signals are measured on; nothing where no verdict says what they were worth."""
        found, judged = attempt.found, attempt.judged
        if found is None or not found.found or judged is None or judged.grade is None:
            return None
        return Seen(self._attempts[0].began.query, found.found)


def digest_of(question: str) -> str:
    """The same for the same words, whatever their case and punctuation; not to be read back."""
    return sha256(folded(question).encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARACTERS]


def _found(fact: Retrieved | None) -> dict[str, object]:
    if fact is None:
        return {}
    names = ("passages", "duplicates", "outdated", "outranked", "conflicts")
    return {**{name: getattr(fact, name) for name in names}, "retrieval_s": fact.took_s}


def _judged(fact: Judged | None) -> dict[str, object]:
    if fact is None:
        return {}
    told: dict[str, object] = {"grade_s": fact.took_s, "grader_fault": fact.fault}
    grade = fact.grade
    if grade is not None:
        told |= {
            "grader": grade.grader,
            "verdict": str(grade.verdict),
            "p_sufficient": grade.p_sufficient,
            "grade_input_tokens": grade.input_tokens,
            "grade_output_tokens": grade.output_tokens,
        }
    return told


def _speculated(fact: SpeculationDecided | None) -> dict[str, object]:
    if fact is None:
        return {}
    told: dict[str, object] = {
        "speculate": fact.why,
        "speculate_p": fact.p_sufficient,
        "speculate_delay_s": fact.delay_s,
    }
    return told if fact.weighed is None else {**told, "looks_ahead": fact.weighed.looks_ahead}


def _drafted(drafts: list[DraftClosed]) -> dict[str, object]:
    discarded = sum(each.discarded_tokens for each in drafts)
    spoke = [each.first_text_s for each in drafts if each.first_text_s is not None]
    return {
        "drafts": len(drafts),
        "first_token_s": spoke[-1] if spoke else None,
        "close_s": max((each.close_s for each in drafts if each.outcome != "released"), default=None),
        "input_tokens": sum(each.input_tokens for each in drafts),
        "released_tokens": sum(each.output_tokens for each in drafts) - discarded,
        "discarded_tokens": discarded,
        "exact": all(each.exact for each in drafts),
    }
