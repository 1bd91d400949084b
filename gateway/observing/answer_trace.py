"""One answer as spans: folds the facts of streaming/facts.py into `invoke_agent`, its attempts and their drafts."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from operator import sub

from opentelemetry.trace import SpanKind

from gateway.observing import conventions as names
from gateway.observing.asked import STATEMENT, Asked
from gateway.observing.attempt_trace import AttemptTrace, DraftTrace, VerifyTrace
from gateway.observing.conventions import Outcome
from gateway.observing.metric_names import GRADERS, MODEL
from gateway.observing.spans import OpenSpan, Value
from retrieval.ports import Query
from streaming.ask import Ask
from streaming.events import Path
from streaming.facts import (
    AttemptBegan,
    AttemptEnded,
    DraftClosed,
    DraftStarted,
    Ended,
    Fact,
    Judged,
    Released,
    Retrieved,
    SpeculationDecided,
    Verified,
)

LOCAL = "local"  # the provider of a grader that is no service
SPANS = 15  # of a request: above it what is least of use is folded into the span above it, as far as that goes

OUTCOMES = {
    Path.CLEAN.value: Outcome.RELEASED,
    Path.RECOVERED.value: Outcome.RELEASED,
    Path.REFUSED.value: Outcome.REFUSED,
    Path.FAILED.value: Outcome.FAILED,
    Path.ABANDONED.value: Outcome.CLIENT_GONE,
}


@dataclass(frozen=True, slots=True)
class Models:
    """Who answers and who grades, by name and provider."""

    generator: str
    grader: str
    provider: str
    grader_provider: str


Among = Callable[[AttemptTrace], list[OpenSpan]]


class AnswerTrace:
    """The span `invoke_agent gateway` and all below it, held open until `end`: facts may come in any order, outcomes come last."""

    def __init__(self, span: OpenSpan, models: Models, ask: Ask, *, records_text: bool = False) -> None:
        self.ended: Ended | None = None
        self.verdict: str | None = None
        """The last one."""
        self.correction: str | None = None
        """How the last attempt searched differently."""
        self._records_text = records_text
        self._span = span
        self._models = models
        self._attempts: dict[int, AttemptTrace] = {}
        self._opened: DraftTrace | None = None
        self._early: list[OpenSpan] = []  # before the first attempt
        self._checks: dict[int, VerifyTrace] = {}
        self._grades: list[tuple[OpenSpan, str]] = []  # each with its provider
        span.set(
            {
                names.OPERATION: "invoke_agent",
                names.AGENT_NAME: "gateway",
                names.PROVIDER: models.provider,
                names.REQUEST_MODEL: models.generator,
                names.ANSWER_ID: ask.answer_id,
            }
        )
        if records_text:
            span.set_words(names.QUESTION_TEXT, ask.question)

    @property
    def attempts(self) -> int:
        return len(self._attempts)

    @property
    def path(self) -> str:
        """The path taken; an answer that never told its end was abandoned."""
        return self.ended.path if self.ended else Path.ABANDONED.value

    @property
    def fault(self) -> str | None:
        """The type of the fault that ended the answer."""
        return self.ended.reason if self.ended and self.path == Path.FAILED else None

    def fold(self, fact: Fact) -> None:
        match fact:
            case AttemptBegan():
                self._begin_attempt(fact)
            case Ended():
                self.ended = fact
                self._span.stop()
            case _:
                if (attempt_trace := self._attempts.get(fact.attempt)) is not None:
                    self._fold(attempt_trace, fact)

    def retrieval(self, query: Query) -> OpenSpan:
        span = self._part(f"{names.RETRIEVAL} {query.collection}", SpanKind.CLIENT, lambda attempt: attempt.searches)
        span.set(
            {
                names.OPERATION: "retrieval",
                names.DATA_SOURCE: query.collection,
                names.SEARCH_MODE: query.mode.value,
                names.SEARCH_K: query.k,
                names.SEARCH_FILTERS: len(query.filters),
            }
        )
        return span

    def statement(self, search: OpenSpan) -> OpenSpan:
        span = search.part(names.STATEMENT, SpanKind.CLIENT)
        span.set({**STATEMENT})
        return self._kept(span, lambda attempt: attempt.statements)

    def reranking(self, candidates: int, k: int) -> OpenSpan:
        span = self._part(names.RERANK, SpanKind.INTERNAL, lambda attempt: attempt.rerankings)
        span.set({names.CANDIDATES: candidates, names.SEARCH_K: k})
        return span

    def rewriting(self, kind: str) -> OpenSpan:
        span = self._part(names.REWRITE, SpanKind.INTERNAL)
        span.set({names.REWRITE_KIND: kind})
        return span

    def verifying(self, verifier: str) -> VerifyTrace:
        """The one span over the checks of the latest attempt's answer; under the answer's own, because the attempt may be over."""
        attempt = self.attempts
        if attempt not in self._checks:
            span = self._span.child(names.VERIFY)
            span.set({names.VERIFIER: verifier, names.ATTEMPT_NUMBER: attempt})
            self._checks[attempt] = VerifyTrace(span)
        return self._checks[attempt]

    def grading(self, passages: int, grader: str | None = None) -> OpenSpan:
        grader = grader or self._models.grader
        provider = LOCAL if grader in GRADERS and grader != MODEL else self._models.grader_provider
        span = self._part(f"{names.CHAT} {grader}", SpanKind.CLIENT, lambda attempt: attempt.grades)
        self._grades.append((span, provider))
        span.set(
            {
                names.OPERATION: "chat",
                names.PROVIDER: provider,
                names.REQUEST_MODEL: grader,
                names.PASSAGES: passages,
            }
        )
        attempt = self._latest
        if attempt is not None and (attempt.grading is None or attempt.grading.is_over):
            attempt.grading = span  # else it is of a wider set, which is graded beside this one
        return span

    def take_draft(self) -> DraftTrace | None:
        """The draft whose DraftStarted was told last: the same task tells it and then opens the draft, with no await between."""
        opened, self._opened = self._opened, None
        return opened

    def end(self) -> None:
        """Ends whatever is still open, once, leaves first."""
        ended, discarded = self.ended, 0
        drafts = [draft for attempt in self._attempts.values() for draft in attempt.drafts]
        closed = [draft.closed for draft in drafts if draft.closed]
        unclosed = len(drafts) - len(closed)
        input_tokens = sum(draft.input_tokens for draft in closed)
        output_tokens = sum(draft.output_tokens for draft in closed)
        whole = OUTCOMES.get(self.path, Outcome.CLIENT_GONE)
        folds = self._folds()
        for early in self._early:
            early.end(Outcome.CLIENT_GONE if whole == Outcome.CLIENT_GONE else Outcome.TIMEOUT)
        for checks in self._checks.values():
            checks.end(whole)
        for attempt in self._attempts.values():
            outcome = attempt.outcome or whole
            discarded += attempt.end(outcome, self.fault, folds)
        self._span.set(
            {
                names.PATH: self.path,
                names.REASON: ended.reason if ended else None,
                names.ATTEMPTS: self.attempts,
                names.INPUT_TOKENS: input_tokens,
                names.OUTPUT_TOKENS: output_tokens,
                names.RELEASED_TOKENS: output_tokens - discarded,
                names.DISCARDED_TOKENS: discarded,
                names.STILL_BILLING: unclosed,
                names.USAGE_EXACT: all(draft.exact for draft in closed) if closed else None,
            }
        )
        if self.fault is not None:
            self._span.fail(self.fault)
        self._span.end(whole)

    def asked(self) -> Iterator[Asked]:
        """What was asked of models and of the database; once all has ended."""
        for attempt in self._attempts.values():
            for draft in attempt.drafts:
                first_s = draft.closed.first_text_s if draft.closed else None
                yield Asked.by(draft.span, self._models.provider, first_s)
            for statement in attempt.statements:
                yield Asked.by(statement)
        for grade, provider in self._grades:
            yield Asked.by(grade, provider)

    @property
    def _latest(self) -> AttemptTrace | None:
        return next(reversed(self._attempts.values()), None)

    def _begin_attempt(self, fact: AttemptBegan) -> None:
        span = self._span.child(names.ATTEMPT)
        span.set(
            {
                names.ATTEMPT_NUMBER: fact.attempt,
                names.CORRECTION: fact.correction,
                names.STRATEGY: fact.strategy,
                names.NEED: fact.need,
                names.SIMILARITY: fact.similarity,
            }
        )
        self.correction = fact.correction
        if self._records_text:
            span.set_words(names.QUERY_TEXT, fact.query)
        self._attempts[fact.attempt] = AttemptTrace(span)

    def _fold(
        self,
        attempt: AttemptTrace,
        fact: Retrieved | SpeculationDecided | Judged | DraftStarted | Released | DraftClosed | Verified | AttemptEnded,
    ) -> None:
        match fact:
            case Retrieved():
                attempt.found(fact)
            case SpeculationDecided():
                attempt.decide(fact)
            case Judged():
                attempt.judge(fact)
                if fact.grade is not None:
                    self.verdict = fact.grade.verdict.value
                    if self._records_text:
                        attempt.span.set_words(names.MISSING_TEXT, fact.grade.missing)
            case DraftStarted(_, number, ago_s):
                begun = self._begin_draft(attempt, number, ago_s, fact.stands_in or self._models.generator)
                if not ago_s:  # else whoever opened it has done so, unseen
                    self._opened = begun
            case Released(_, held_bytes):
                attempt.span.set({names.HELD_BYTES: held_bytes})
            case DraftClosed(_, number):
                for draft in _numbered(attempt, number):
                    draft.close(fact)
            case Verified(_, grounded, claims, unsupported):
                told: dict[str, Value] = {
                    names.GROUNDED: grounded,
                    names.CLAIMS: claims,
                    names.UNSUPPORTED: unsupported,
                }
                self._span.set(told)
                if (checks := self._checks.get(fact.attempt)) is not None:
                    checks.tell(told)
            case AttemptEnded(_, outcome):
                attempt.outcome = outcome
                attempt.span.stop()

    def _begin_draft(self, attempt: AttemptTrace, number: int, ago_s: float, model: str) -> DraftTrace:
        models = self._models
        began_ns = max(self._span.began_ns, time.time_ns() - round(ago_s * 1e9)) if ago_s else None
        span = attempt.span.child(f"{names.CHAT} {model}", SpanKind.CLIENT, began_ns)
        span.set(
            {
                names.OPERATION: "chat",
                names.PROVIDER: models.provider,
                names.REQUEST_MODEL: model,
                names.REQUEST_STREAM: True,
                names.DRAFT: number,
            }
        )
        attempt.drafts.append(DraftTrace(span, number, ago_s))
        return attempt.drafts[-1]

    def _folds(self) -> int:
        """How many kinds of details are to be folded, in all attempts, so that the request has not many more spans than SPANS."""
        attempts = self._attempts.values()
        besides = 2 + (self.path != Path.CLEAN)  # the request, the answer, the failure path
        spans = besides + len(self._early) + len(self._checks) + sum(attempt.spans for attempt in attempts)
        kinds = [sum(map(len, of)) for of in zip(*(attempt.details() for attempt in attempts), strict=True)]
        left = accumulate(kinds, sub, initial=spans)
        return next((folds for folds, count in enumerate(left) if count <= SPANS), len(kinds))

    def _part(self, name: str, kind: SpanKind, among: Among | None = None) -> OpenSpan:
        attempt = self._latest
        return self._kept((attempt.span if attempt else self._span).part(name, kind), among)

    def _kept(self, span: OpenSpan, among: Among | None) -> OpenSpan:
        """`span`, which the latest attempt ends, among its details of one kind; before the first one the answer does."""
        attempt = self._latest
        if attempt is None:
            self._early.append(span)
            return span
        attempt.parts.append(span)
        if among is not None:
            among(attempt).append(span)
        return span


def _numbered(attempt: AttemptTrace, number: int) -> Iterator[DraftTrace]:
    return (draft for draft in attempt.drafts if draft.number == number and draft.closed is None)
