"""An open span: explicit about its parent, ended exactly once with an outcome, unable to hurt the request it describes."""

import logging
import time
from types import TracebackType
from typing import Self

from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from gateway.cleaning import clean
from gateway.observing import conventions as names
from gateway.observing.conventions import Outcome
from retrieval.faults import GatewayFault

TEXT_LIMIT = 128  # characters of a name or value; what is longer is not a label of ours
WORDS_LIMIT = 1_000  # characters of a text that is recorded because a setting says so

log = logging.getLogger(__name__)

Told = str | bool | int | float | tuple[str, ...]
Value = Told | None

ERRORS = (Outcome.FAILED, Outcome.TIMEOUT)


class Quiet:
    """Keeps a fault of telemetry out of the request: `with quiet:` swallows any Exception and logs the first one.

    Cancellation is no Exception on either backend and passes.
    """

    def __init__(self) -> None:
        self._told = False

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False
        if not self._told:
            self._told = True
            log.error("telemetry failed; answers go on without it (logged once)", exc_info=error)
        return True


class OpenSpan:
    """A span from its start until `end`. Never made current: children name it as their parent (FIELD_REPORTS F2).

    `stop` fixes the end time where the work is over but its outcome is not known yet, `finish` the outcome too; `end` may then come
    later. Everything after `end` is ignored, and nothing raises.
    """

    def __init__(self, tracer: Tracer, quiet: Quiet, span: Span = INVALID_SPAN, began_ns: int = 0) -> None:
        self.began_ns = began_ns
        self.usage: tuple[int | None, int | None] = (None, None)
        """Input and output tokens as the service counted them."""
        self._tracer = tracer
        self._quiet = quiet
        self._span = span
        self._later: tuple[str, SpanKind, OpenSpan] | None = None
        self._records = span.is_recording()
        self._values: dict[str, Told] = {}
        self._events: list[tuple[str, dict[str, Told], int]] = []
        self._stopped_ns: int | None = None
        self._outcome: str | None = None
        self._error_type: str | None = None
        self._is_open = True

    @classmethod
    def under(
        cls, parent: Context, tracer: Tracer, quiet: Quiet, name: str, kind: SpanKind, began_ns: int | None = None
    ) -> Self:
        """Starts a span under what `parent` holds (an empty context starts a trace), now or back-dated (ns since the epoch)."""
        start_ns = time.time_ns() if began_ns is None else began_ns
        span: Span = INVALID_SPAN
        with quiet:
            span = tracer.start_span(plain(name), parent, kind, start_time=start_ns)
        return cls(tracer, quiet, span, start_ns)

    def child(self, name: str, kind: SpanKind = SpanKind.INTERNAL, began_ns: int | None = None) -> Self:
        """Starts a span under this one. Under one that is not recorded it is the same one: what is told of either goes nowhere."""
        if not self._records:
            return type(self)(self._tracer, self._quiet, self._span, time.time_ns() if began_ns is None else began_ns)
        return self.under(self.context, self._tracer, self._quiet, name, kind, began_ns)

    def part(self, name: str, kind: SpanKind) -> Self:
        """A child that becomes a span of its own when it ends, or when another service is told to go on under it; until then it may
        be folded into this one.
        """
        child = type(self)(self._tracer, self._quiet, INVALID_SPAN, time.time_ns())
        child._later, child._records = (name, kind, self), self._records
        return child

    @property
    def is_over(self) -> bool:
        return self._stopped_ns is not None

    @property
    def is_cut(self) -> bool:
        """Whether it is over without an outcome: it was cancelled."""
        return self.is_over and self._outcome is None

    @property
    def lasted_s(self) -> float:
        """From its start until it was over, or until now."""
        return ((self._stopped_ns or time.time_ns()) - self.began_ns) / 1e9

    @property
    def has_failed(self) -> bool:
        """Whether `fail` was called."""
        return self._error_type is not None

    @property
    def error_type(self) -> str | None:
        """The type of the error that it ended with; None where it has not ended, or without one."""
        return self._error_type if self._outcome in ERRORS else None

    @property
    def trace_id(self) -> str | None:
        """32 hex digits; None where OpenTelemetry is switched off and gives none."""
        context = self._span.get_span_context()
        return f"{context.trace_id:032x}" if context.is_valid else None

    @property
    def traceparent(self) -> str | None:
        """What tells another service to go on with the trace under this span; None where there is no trace."""
        self._begin()
        context = self._span.get_span_context()
        if not context.is_valid:
            return None
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"

    @property
    def context(self) -> Context:
        """A context that holds this span: for exemplars, and for who is asked to go on with the trace."""
        return set_span_in_context(self._span, Context())

    def set(self, values: dict[str, Value]) -> None:
        """Sets attributes; None is left out, text is made plain. The span gets them when it ends, all at once: a third of the cost."""
        if not self._is_open or not self._records:
            return
        with self._quiet:
            for name, value in values.items():
                if value is not None:
                    self._values[name] = plain(value) if isinstance(value, str) else value

    def set_words(self, name: str, text: str | None) -> None:
        """Sets text of people or documents, cleaned and cut to WORDS_LIMIT. Only for what an explicit setting lets be recorded."""
        with self._quiet:
            if text and self._is_open and self._records:
                self._values[name] = clean(text)[:WORDS_LIMIT]

    def use(self, input_tokens: int | None, output_tokens: int | None, *, exact: bool = True) -> None:
        """A model's tokens; `exact` where the service itself counted them."""
        self.set({names.INPUT_TOKENS: input_tokens, names.OUTPUT_TOKENS: output_tokens})
        if exact:
            self.usage = (input_tokens, output_tokens)

    def stop(self, ago_s: float = 0.0, *, again: bool = False) -> None:
        """The work is over now, or was `ago_s` seconds ago; the first time counts, with `again` the last."""
        if self._stopped_ns is None or again:
            self._stopped_ns = max(self.began_ns, time.time_ns() - int(ago_s * 1e9))

    def fail(self, error_type: str) -> None:
        """Should the outcome be a failure, this is its type; the first one counts. (A draft may also break while it is discarded.)"""
        self._error_type = self._error_type or error_type

    def finish(self, outcome: str) -> None:
        """The work is over now, and this came of it; whatever `end` says."""
        self.stop()
        self._outcome = self._outcome or outcome

    def end(self, outcome: str) -> None:
        """Ends the span, once. Only what has failed is an error: a discarded draft or a client that left is not."""
        if not self._is_open:
            return
        self.finish(outcome)
        if not self._records:
            self._is_open = False
            return
        self._begin()
        self.set(self._ending)
        self._is_open = False
        with self._quiet:
            for name, values, at_ns in self._events:
                self._span.add_event(name, values, at_ns)
            self._span.set_attributes(self._values)
        with self._quiet:
            if self.error_type is not None:
                self._span.set_status(Status(StatusCode.ERROR))
            self._span.end(self._stopped_ns)

    def fold(self, outcome: str) -> bool:
        """Ends it as an event of the span above it, which must be open; whether that could be: not where another service knows it."""
        if self._later is None or not self._is_open:
            return False
        name, _, above = self._later
        self.finish(outcome)
        self.set({**self._ending, names.FOLDED_S: self.lasted_s})
        self._is_open = False
        if self._records:
            above._events += [(plain(name), self._values, self.began_ns), *self._events]
        return True

    @property
    def _ending(self) -> dict[str, Value]:
        return {names.OUTCOME: self._outcome, names.ERROR_TYPE: self.error_type}

    def _begin(self) -> None:
        """Makes a part a span, if it is none yet."""
        if self._later is None:
            return
        (name, kind, above), self._later = self._later, None
        above._begin()
        if not self._records:
            self._span = above._span
            return
        with self._quiet:
            self._span = self._tracer.start_span(plain(name), above.context, kind, start_time=self.began_ns)


class Work:
    """One awaited call as a span: `with work:` around it. It ends with the answer; who cancelled a call is known only then."""

    def __init__(self, span: OpenSpan) -> None:
        self.span = span

    def __enter__(self) -> OpenSpan:
        return self.span

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self.span.finish(Outcome.OK)
        elif isinstance(error, Exception):
            self.span.fail(type_of(error))
            self.span.finish(Outcome.FAILED)
        else:
            self.span.stop()


def type_of(error: Exception) -> str:
    """A fault's stable type, or a foreign error's class name. Never its message, which may hold text."""
    return error.type if isinstance(error, GatewayFault) else type(error).__qualname__


def plain(text: str) -> str:
    """`text` as UTF-8 can carry it, at most TEXT_LIMIT characters.

    One lone surrogate in a span's name makes the exporter drop the whole batch (measured with the OTLP exporter 1.45.2).
    """
    return text[:TEXT_LIMIT].encode("utf-8", "replace").decode("utf-8")
