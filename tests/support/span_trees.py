"""Answers observed: runs the real race over fakes with telemetry that keeps its spans, and reads them as a tree."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gateway.observing.conventions import FAILURE_PATH, OUTCOME, Outcome
from gateway.observing.request_trace import RequestTrace
from gateway.telemetry import Telemetry
from gateway.traced import traced
from streaming.answer import Parts, answer
from streaming.ask import Ask
from streaming.budget import Limits
from streaming.events import Event, Path, Token
from tests.support.clock import run_virtual

ROUTE = "/v1/answers"


class Register(SpanProcessor):
    """Counts every start and every end of every span."""

    def __init__(self) -> None:
        self.order: list[int] = []
        self.ends: Counter[int] = Counter()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.order.append(_id(span))

    def on_end(self, span: ReadableSpan) -> None:
        self.ends[_id(span)] += 1


@dataclass(slots=True)
class Recording:
    """Telemetry whose spans stay here."""

    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    register: Register = field(default_factory=Register)

    def start(self) -> Telemetry:
        return Telemetry.start(
            service_version="1", export=False, processors=(self.register, SimpleSpanProcessor(self.exporter))
        )

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """Every ended span, in the order of their starts, which may have been told later; the back-dated `failure_path` last."""
        order = {span_id: n for n, span_id in enumerate(self.register.order)}
        spans = self.exporter.get_finished_spans()
        return sorted(spans, key=lambda span: (span.name == FAILURE_PATH, begun(span), order[_id(span)]))

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def tree(self) -> str:
        """One line per span, `name outcome`, indented under its parent; roots (and orphans) at the margin.

        In the order of their start, but racing `chat` spans by name: who starts first is the scheduler's choice.
        """
        spans = sorted(self.spans, key=lambda span: span.name if span.name.startswith("chat ") else "")
        known = {_id(span) for span in self.spans}
        lines: list[str] = []

        def put(parent: int | None, depth: int) -> None:
            for span in spans:
                of = span.parent.span_id if span.parent and span.parent.span_id in known else None
                if of == parent:
                    lines.append(f"{'  ' * depth}{span.name} {attributes(span).get(OUTCOME)}")
                    put(_id(span), depth + 1)

        put(None, 0)
        return "\n".join(lines)

    def assert_sound(self) -> None:
        """Every span started was ended, once, with an outcome; one tree with one root; no child ends after the root or starts before it."""
        spans = self.spans
        assert set(self.register.order) == set(self.register.ends), "a span was never ended"
        assert set(self.register.ends.values()) <= {1}, "a span was ended twice"
        assert {attributes(span).get(OUTCOME) for span in spans} <= Outcome.ALL
        by_id = {_id(span): span for span in spans}
        roots = [span for span in spans if span.parent is None]
        assert len(roots) == 1
        assert all(span.parent is None or span.parent.span_id in by_id for span in spans), "an orphan"
        assert len({span.context.trace_id for span in spans if span.context}) == 1
        assert all(begun(roots[0]) <= begun(span) <= ended(span) <= ended(roots[0]) for span in spans)


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def begun(span: ReadableSpan) -> int:
    assert span.start_time is not None
    return span.start_time


def ended(span: ReadableSpan) -> int:
    assert span.end_time is not None
    return span.end_time


def ask(question: str = "why?", collection: str = "docs") -> Ask:
    return Ask(answer_id="a1", trace_id="", question=question, collection=collection)


@dataclass(slots=True)
class Observed:
    """What one request led to: its path (None when it was cancelled), its events, its spans."""

    path: Path | None
    events: list[Event]
    recording: Recording


def observe(
    backend: str, parts: Parts, limits: Limits, *, leave_after_s: float | None = None, question: Ask | None = None
) -> Observed:
    """Answers one question in virtual time as the edge does; the client leaves after `leave_after_s` seconds if it is given."""
    observed = Observed(None, [], Recording())
    telemetry = observed.recording.start()

    async def request() -> None:
        trace = telemetry.request({}, "POST", ROUTE)
        try:
            with anyio.move_on_after(leave_after_s if leave_after_s is not None else float("inf")):
                observed.path = await observed_answer(trace, parts, limits, observed.events, question or ask())
        finally:
            trace.end(200)

    run_virtual(backend, request)
    return observed


async def observed_answer(
    trace: RequestTrace, parts: Parts, limits: Limits, events: list[Event], question: Ask
) -> Path:
    """The edge's part of an answer, with a writer that is always ready."""

    async def emit(batch: tuple[Event, ...]) -> None:
        await anyio.lowlevel.checkpoint()
        for event in batch:
            if isinstance(event, Token):
                trace.first_answer_byte()
            events.append(event)

    trace.begin_answer(question, generator="writer", grader="judge", provider="scripted")
    return await answer(question, traced(parts, trace), limits, emit, trace)


def _id(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)
