"""One attempt as spans: what it did, its drafts and the checks of what it said."""

import time
from itertools import chain
from types import TracebackType

from gateway.observing import conventions as names
from gateway.observing.conventions import Outcome
from gateway.observing.spans import OpenSpan, Value, type_of
from streaming.facts import (
    DraftClosed,
    Judged,
    Retrieved,
    SpeculationDecided,
)
from streaming.ports import Stopped


class DraftTrace:
    """A draft's span: from the request to the model's service until its upstream connection is closed."""

    def __init__(self, span: OpenSpan, number: int, ago_s: float = 0.0) -> None:
        self.span = span
        self.number = number
        self.closed: DraftClosed | None = None
        self._began = time.perf_counter() - ago_s
        self.has_spoken = False

    def first_text(self) -> None:
        """The first answer text came from upstream just now (which says nothing of when a client sees it: FIELD_REPORTS F1)."""
        self.has_spoken = True
        self.span.set({names.FIRST_CHUNK_S: time.perf_counter() - self._began})

    def stopped(self, stop: Stopped) -> None:
        self.span.set({names.FINISH_REASONS: (stop.reason.value,)})

    def close(self, fact: DraftClosed) -> None:
        self.closed = fact
        self.span.stop(fact.closed_ago_s)
        self.span.set(
            {
                names.GENERATION_S: max(0.0, time.perf_counter() - self._began - fact.closed_ago_s),
                names.USAGE_EXACT: fact.exact,
                names.DRAFT_CLOSE_S: fact.close_s,
            }
        )
        self.span.use(fact.input_tokens, fact.output_tokens, exact=fact.exact)

    def end(self, attempt_outcome: str, is_last: bool) -> int:
        """Ends the span; returns how many tokens were thrown away."""
        told, discarded = (self.closed.outcome, self.closed.discarded_tokens) if self.closed else ("", 0)
        outcome = draft_outcome(told, attempt_outcome, is_last)
        self.span.set({names.DISCARDED_TOKENS: discarded})
        if outcome == Outcome.FAILED:
            self.span.fail("generator_failed")
        self.span.end(outcome)
        return discarded


class VerifyTrace:
    """The span `verify` over all checks of one attempt's answer: from the first one's start to the last one's end.

    `with verify:` around each check; several may run side by side.
    """

    def __init__(self, span: OpenSpan) -> None:
        self.span = span
        self._calls = 0
        self._is_cut = False
        self._is_told = False

    def __enter__(self) -> None:
        self._calls += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, Exception):
            self.span.fail(type_of(error))
        elif error is not None:
            self._is_cut = True  # by whom, the answer's end tells
        self.span.stop(again=True)

    def tell(self, values: dict[str, Value]) -> None:
        """What came of the checks. One that was cut short before then had met its own time limit."""
        self.span.set(values)
        self._is_told = True

    def end(self, outcome: str) -> None:
        """Ends the span; `outcome` is the whole answer's."""
        self.span.set({names.VERIFY_CALLS: self._calls})
        if self._is_cut and self._is_told and not self.span.has_failed:
            self.span.fail("timeout")
            self.span.end(Outcome.TIMEOUT)
            return
        if self.span.has_failed:
            self.span.end(Outcome.FAILED)
        elif self._is_cut:
            self.span.end(outcome if outcome == Outcome.CLIENT_GONE else Outcome.DISCARDED)
        else:
            self.span.end(Outcome.OK)


class AttemptTrace:
    """An attempt's span with what runs under it."""

    def __init__(self, span: OpenSpan) -> None:
        self.span = span
        self.outcome: str | None = None
        self.drafts: list[DraftTrace] = []
        self.parts: list[OpenSpan] = []  # searches, statements, rerankings, grades, rewrites
        self.statements: list[OpenSpan] = []
        self.rerankings: list[OpenSpan] = []
        self.searches: list[OpenSpan] = []
        self.grades: list[OpenSpan] = []
        self.grading: OpenSpan | None = None
        """The grade whose verdict is waited for."""

    def found(self, fact: Retrieved) -> None:
        self.span.set(
            {
                names.PASSAGES: fact.passages,
                names.DUPLICATES: fact.duplicates,
                names.OUTDATED: fact.outdated,
                names.OUTRANKED: fact.outranked,
                names.DISAGREEMENTS: fact.conflicts,
                names.RETRIEVAL_S: fact.took_s,
            }
        )

    def decide(self, fact: SpeculationDecided) -> None:
        self.span.set(
            {
                names.SPECULATE: fact.why,
                names.SPECULATE_DELAY_S: fact.delay_s,
                names.SPECULATE_P: fact.p_sufficient,
                names.SPECULATE_HOLD: fact.hold_tokens,
            }
        )
        if (weighed := fact.weighed) is not None:
            self.span.set(
                {
                    names.SPECULATE_GRADE_S: weighed.grade_s,
                    names.SPECULATE_TEXT_S: weighed.first_text_s,
                    names.SPECULATE_LEAST_P: weighed.least_p,
                    names.SPECULATE_AHEAD_P: weighed.ahead_p,
                    names.SPECULATE_AHEAD: weighed.looks_ahead,
                }
            )

    def judge(self, fact: Judged) -> None:
        grade = fact.grade
        if grade is not None:
            self.span.set(
                {
                    names.VERDICT: grade.verdict.value,
                    names.RELEVANT: len(grade.relevant),
                    names.MISSING: grade.missing is not None,
                    names.CONFLICTS: grade.conflicts is not None,
                    names.GRADER: grade.grader or None,
                    names.P_SUFFICIENT: grade.p_sufficient,
                }
            )
        self.span.set({names.GRADER_FAULT: fact.fault, names.GRADE_S: fact.took_s})
        if fact.fault is not None and self.grading is not None and self.grading.is_cut:
            self.grading.fail(
                fact.fault
            )  # cancelled by its own time limit: the only cancelled grade that is still told
            self.grading.finish(Outcome.TIMEOUT)

    @property
    def spans(self) -> int:
        """So many are of this attempt."""
        return 1 + len(self.parts) + len(self.drafts)

    def details(self) -> tuple[list[OpenSpan], ...]:
        """What may be folded, least of use first; of its searches and grades one stays."""
        others = [grade for grade in self.grades if grade is not self.grading]
        return self.statements, self.rerankings, self.searches[1:], others

    def end(self, outcome: str, fault: str | None, folds: int = 0) -> int:
        """Ends everything of this attempt, leaves first, its first `folds` kinds of details as events; returns the tokens thrown away."""
        cut = outcome if outcome in (Outcome.TIMEOUT, Outcome.CLIENT_GONE) else Outcome.DISCARDED
        for detail in chain.from_iterable(self.details()[:folds]):
            detail.fold(cut)
        for part in self.parts:
            part.end(cut)
        last = self.drafts[-1] if self.drafts else None
        discarded = sum(draft.end(outcome, draft is last) for draft in self.drafts)
        self.span.set({names.DISCARDED_TOKENS: discarded})
        if outcome == Outcome.FAILED:
            self.span.fail(fault or "internal_error")
        self.span.end(outcome)
        return discarded


def draft_outcome(told: str, attempt_outcome: str, is_last: bool) -> str:
    """What became of a draft: as told, or, of one that never told its close, as its attempt."""
    if told in (Outcome.RELEASED, Outcome.DISCARDED, Outcome.FAILED, Outcome.CLIENT_GONE, Outcome.TIMEOUT):
        return told
    if attempt_outcome in (Outcome.CLIENT_GONE, Outcome.TIMEOUT):
        return attempt_outcome
    return Outcome.RELEASED if is_last and attempt_outcome == Outcome.RELEASED else Outcome.DISCARDED
