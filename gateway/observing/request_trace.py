"""The trace of one request: its SERVER span, the answer under it, and the failure path beside it."""

import secrets
import time
from collections.abc import Callable

from opentelemetry.trace import Tracer

from gateway.decisions import Decision, Decisions, Folding, NoDecisions
from gateway.observing import conventions as names
from gateway.observing import request_log
from gateway.observing.answer_trace import OUTCOMES, AnswerTrace, Models
from gateway.observing.attempt_trace import DraftTrace, VerifyTrace
from gateway.observing.conventions import Outcome
from gateway.observing.metrics import AnswerMetrics, Metrics
from gateway.observing.spans import OpenSpan, Quiet, Work
from retrieval.ports import Query
from streaming.ask import Ask
from streaming.events import Path
from streaming.facts import Fact
from streaming.gate import text_bytes
from streaming.ports import Piece


class RequestTrace:
    """Spans of one request, the Observer of its answer, the source of its decisions. No method raises, waits or changes anything.

    Used from one event loop's thread. Whoever opened it calls `end` in a `finally`, after the answer has returned or was
    cancelled; until then the spans are open, after it every further call is ignored.
    """

    def __init__(
        self,
        tracer: Tracer,
        quiet: Quiet,
        root: OpenSpan,
        metrics: Metrics,
        method: str,
        route: str,
        *,
        records_text: bool = False,
    ) -> None:
        self.trace_id = root.trace_id or secrets.token_hex(16)
        self._root = root
        self._method, self._route = method, route
        self._metrics = metrics
        self._records_text = records_text
        self._counted: AnswerMetrics | None = None
        self._quiet = quiet
        self._idle = OpenSpan(tracer, quiet)
        self._began = time.perf_counter()
        self._first_byte_s: float | None = None
        self._answer: AnswerTrace | None = None
        self._folding: Folding | None = None
        self._decisions: Decisions = NoDecisions()
        self._over = False

    def begin_answer(
        self,
        ask: Ask,
        *,
        generator: str,
        grader: str,
        provider: str,
        grader_provider: str | None = None,
        decisions: Decisions | None = None,
    ) -> None:
        """Opens `invoke_agent gateway`, once. Names of models and providers, never text; `grader_provider` None is as `provider`.

        When the request ends, `decisions` are given those of the answer.
        """
        with self._quiet:
            if self._answer is None and not self._over:
                models = Models(generator, grader, provider, grader_provider or provider)
                self._answer = AnswerTrace(
                    self._root.child(names.INVOKE_AGENT), models, ask, records_text=self._records_text
                )
                self._folding, self._decisions = Folding(ask, generator), decisions or NoDecisions()
                self._counted = self._metrics.answer(self._root.context)

    def note(self, fact: Fact) -> None:
        """Folds a fact of the answer into its spans (streaming.ports.Observer)."""
        with self._quiet:
            if self._answer is not None and not self._over:
                self._answer.fold(fact)
                if self._folding is not None and self._counted is not None:
                    self._folding.note(fact)
                    self._counted.note(fact)

    def hold(self, pieces: tuple[Piece, ...]) -> None:
        """A draft brought `pieces`; until the verdict their text is held. After it this costs two looks."""
        counted = self._counted
        if counted is not None and not counted.moments.is_released:
            with self._quiet:
                counted.moments.hold(text_bytes(pieces))

    def first_answer_byte(self) -> None:
        """The first byte of answer text is handed to the client's connection now; later calls change nothing."""
        if self._first_byte_s is None:
            self._first_byte_s = time.perf_counter() - self._began

    def end(self, status_code: int | None) -> None:
        """Ends every span that is still open, once. `status_code` None: the client left before it was sent one."""
        if self._over:
            return
        self._over = True
        total_s = time.perf_counter() - self._began
        with self._quiet:
            if self._answer is not None:
                self._answer.end()
                self._failure_path(self._answer)
        with self._quiet:
            self._end_root(status_code)
        self._metrics.later.do(lambda: self._told(status_code, total_s))

    def _told(self, status_code: int | None, total_s: float) -> None:
        """To the log, the metrics and the decisions: 1 ms, for which neither the last byte waits nor the next question."""
        with self._quiet:
            self._count(self._folded(), status_code, total_s)
        # Whoever still holds this trace holds no answer.
        self._answer = self._folding = self._counted = None

    def _folded(self) -> tuple[Decision, ...]:
        return self._folding.decisions(self._first_byte_s) if self._folding is not None else ()

    def _count(self, decisions: tuple[Decision, ...], status_code: int | None, total_s: float) -> None:
        request_log.tell(
            trace_id=self.trace_id,
            method=self._method,
            route=self._route,
            status=status_code,
            total_s=total_s,
            answer=decisions,
        )
        if self._counted is None:
            self._metrics.request(self._root.context, self._route, status_code, total_s)
            return
        self._counted.end(decisions, total_s, self._answer.asked() if self._answer is not None else ())
        self._decisions.add(decisions)

    def retrieval(self, query: Query) -> Work:
        """The span around one search."""
        return self._work(lambda answer: answer.retrieval(query))

    def statement(self, search: OpenSpan) -> Work:
        """The span around what `search` asks of the database, waiting for a connection included."""
        return self._work(lambda answer: answer.statement(search))

    def reranking(self, candidates: int, k: int) -> Work:
        """The span around one reranking."""
        return self._work(lambda answer: answer.reranking(candidates, k))

    def grading(self, passages: int, grader: str | None = None) -> Work:
        """The span around one grade; `grader` is one of a cascade, else the one the answer began with."""
        return self._work(lambda answer: answer.grading(passages, grader))

    def rewriting(self, kind: str) -> Work:
        """The span around one way of saying the question differently."""
        return self._work(lambda answer: answer.rewriting(kind))

    def verifying(self, verifier: str) -> VerifyTrace:
        """The span around all checks of the latest attempt's answer, to be entered for each."""
        with self._quiet:
            if self._answer is not None and not self._over:
                return self._answer.verifying(verifier)
        return VerifyTrace(self._idle)

    def take_draft(self) -> DraftTrace | None:
        """The draft that the calling task has just told to have started; None where nobody told."""
        return self._answer.take_draft() if self._answer is not None else None

    def _work(self, open_part: Callable[[AnswerTrace], OpenSpan]) -> Work:
        span = self._idle
        with self._quiet:
            if self._answer is not None and not self._over:
                span = open_part(self._answer)
        return Work(span)

    def _failure_path(self, answer: AnswerTrace) -> None:
        """One more span over the whole request, by a fixed name: latency views group by service and span name alone."""
        if answer.path != Path.CLEAN:
            span = self._root.child(names.FAILURE_PATH, began_ns=self._root.began_ns)
            self._tell(span, answer)
            span.end(OUTCOMES.get(answer.path, Outcome.CLIENT_GONE))

    def _end_root(self, status_code: int | None) -> None:
        root, answer = self._root, self._answer
        root.set({names.HTTP_STATUS: status_code})
        if answer is not None:
            self._tell(root, answer)
            root.end(OUTCOMES.get(answer.path, Outcome.CLIENT_GONE))
        elif status_code is None:
            root.end(Outcome.CLIENT_GONE)
        elif status_code >= 500:
            root.fail(str(status_code))
            root.end(Outcome.FAILED)
        else:
            root.end(Outcome.REJECTED if status_code >= 400 else Outcome.OK)

    def _tell(self, span: OpenSpan, answer: AnswerTrace) -> None:
        span.set(
            {
                names.PATH: answer.path,
                names.VERDICT: answer.verdict,
                names.CORRECTION: answer.correction,
                names.REASON: answer.ended.reason if answer.ended else None,
                names.ATTEMPTS: answer.attempts,
                names.TTFT_DELIVERED_S: self._first_byte_s,
            }
        )
        if answer.fault is not None:
            span.fail(answer.fault)
