"""Metrics of one process: what the answers came to, counted once per answer, and what is open now, looked up when somebody asks.

No call here is made per token, and none before the first answer byte: an answer is counted when it is over.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Self

from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import AlwaysOnExemplarFilter, Counter, Histogram, Meter, MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricReader, MetricsData
from opentelemetry.sdk.resources import Resource

from gateway.decisions import Decision
from gateway.observing import metric_names as table
from gateway.observing.answer_moments import Moments
from gateway.observing.asked import Asked
from gateway.observing.later import Later
from gateway.observing.metric_names import Kind, Metric, Names
from gateway.observing.slow_answers import SlowAnswer, SlowAnswers
from gateway.observing.spans import Quiet
from streaming.events import Path
from streaming.facts import Fact

log = logging.getLogger(__name__)

Count = Callable[[], Iterable[tuple[float, dict[str, str]]]]
"""What a gauge shows: values with their labels, looked up when somebody asks."""


class Metrics:
    """Instruments, and who reads them: the Prometheus text here, an OTLP collector where one is set."""

    def __init__(self, provider: MeterProvider, reader: InMemoryMetricReader, names: Names = "new") -> None:
        self._provider = provider
        self._reader = reader
        self._meter: Meter = provider.get_meter("gateway")  # type: ignore[assignment]  # of the SDK
        self._histograms: dict[str, Histogram] = {}
        self._counters: dict[str, Counter] = {}
        self._open: set[AnswerMetrics] = set()
        self.slow = SlowAnswers(time.monotonic)
        self.quiet = Quiet()
        self.later = Later()
        self.chosen = table.chosen(names)
        self._known = {metric.name: metric for metric in self.chosen}
        for metric in self.chosen:
            self._create(metric)
        self.observe(table.OPEN, lambda: ((len(self._open), {}),))
        self.observe(table.HELD, lambda: ((sum(each.held_bytes() for each in tuple(self._open)), {}),))
        self.observe(table.GRADER_LAG, lambda: ((max((a.waiting_s() for a in tuple(self._open)), default=0.0), {}),))

    @classmethod
    def start(
        cls, resource: Resource | None = None, readers: Sequence[MetricReader] = (), names: Names = "new"
    ) -> Self:
        """Started in each worker, after any fork: a reader that sends by itself owns a thread."""
        here = InMemoryMetricReader()
        provider = MeterProvider(
            metric_readers=(here, *readers),
            resource=resource,
            exemplar_filter=AlwaysOnExemplarFilter(),  # every request has a trace id, also where no span is recorded
            shutdown_on_exit=False,
        )
        return cls(provider, here, names)

    @property
    def open_answers(self) -> int:
        """Answers that are not over."""
        return len(self._open)

    def collect(self) -> MetricsData | None:
        """Everything as it is now, with the exemplars since the last time."""
        self.later.catch_up()
        return self._reader.get_metrics_data()

    def slowest(self) -> list[dict[str, object]]:
        """The slowest answers of the last hour, for JSON."""
        self.later.catch_up()
        return self.slow.slowest()

    def observe(self, metric: Metric, count: Count) -> None:
        """Shows what `count` returns, whenever somebody asks."""

        def look(options: CallbackOptions) -> Iterator[Observation]:  # noqa: ARG001
            with self.quiet:
                yield from [Observation(value, metric.closed(labels)) for value, labels in count()]

        if metric.kind is Kind.COUNTER:
            self._meter.create_observable_counter(metric.name, [look], metric.unit, metric.about)
        else:
            self._meter.create_observable_gauge(metric.name, [look], metric.unit, metric.about)

    def answer(self, context: Context) -> "AnswerMetrics":
        """Counts an answer as open until its `end`; exemplars name the trace of the span in `context`."""
        one = AnswerMetrics(self, context)
        self._open.add(one)
        return one

    def closed(self, one: "AnswerMetrics") -> None:
        self._open.discard(one)

    def request(self, context: Context, route: str, status: int | None, took_s: float) -> None:
        """A request that no answer came of; one that follows an answer lives as long as that, and is not counted."""
        if route not in table.ROUTES:
            return
        group = table.NONE if status is None else f"{status // 100}xx"
        labels = {"http.route": route, "http.response.status_code": group, "http.status_code": group}
        for metric in (table.HTTP_NEW, table.HTTP_OLD):
            self.record(metric, took_s, context, labels)

    def time(self, metric: Metric, seconds: float | None, context: Context, **labels: str) -> None:
        """Records a duration, as `record` does."""
        self.record(metric, seconds, context, labels)

    def record(self, metric: Metric, value: float | None, context: Context, labels: Mapping[str, str]) -> None:
        """Records a duration or an amount; None is none, and a metric that is not chosen is passed over.

        `labels` may be more than those that the metric has.
        """
        if value is not None and metric.name in self._histograms:
            labels = self._known[metric.name].closed(labels)
            self._histograms[metric.name].record(max(0.0, value), labels, context)

    def count(self, metric: Metric, amount: int, context: Context, **labels: str) -> None:
        """Adds; nothing is added for 0, so that what never happened has no series."""
        instrument = self._counters.get(metric.name)
        if instrument is not None and amount > 0:
            instrument.add(amount, metric.closed(labels), context)

    def shut_down(self, limit_s: float) -> None:
        """Sends what an OTLP reader has, for at most `limit_s` seconds. Blocks."""
        self._provider.shutdown(timeout_millis=limit_s * 1000)

    def _create(self, metric: Metric) -> None:
        match metric.kind:
            case Kind.HISTOGRAM:
                self._histograms[metric.name] = self._meter.create_histogram(  # type: ignore[assignment]
                    metric.name, metric.unit, metric.about, explicit_bucket_boundaries_advisory=metric.bounds
                )
            case Kind.COUNTER if metric not in table.LOOKED_UP:
                self._counters[metric.name] = self._meter.create_counter(metric.name, metric.unit, metric.about)  # type: ignore[assignment]
            case _:
                pass  # looked up: see `observe`


class AnswerMetrics:
    """One answer while it runs, and its figures when it is over. Used from one event loop's thread; nothing here raises."""

    def __init__(self, metrics: Metrics, context: Context) -> None:
        self._metrics = metrics
        self._context = context
        self.moments = Moments(time.perf_counter)

    def note(self, fact: Fact) -> None:
        """Folds a fact (streaming.ports.Observer)."""
        with self._metrics.quiet:
            self.moments.note(fact)

    def held_bytes(self) -> int:
        """The text that waits for a verdict."""
        return self.moments.held_bytes

    def waiting_s(self) -> float:
        """How long a verdict has been waited for; 0 where none is."""
        return self.moments.waiting_s()

    def end(self, decisions: Sequence[Decision], total_s: float, asked: Iterable[Asked] = ()) -> None:
        """Counts the answer, once: `decisions` are its attempts, at least one; `asked` are others' parts in it."""
        self._metrics.closed(self)
        with self._metrics.quiet:
            self._whole(decisions[-1], total_s)
            for decision in decisions:
                self._attempt(decision)
            for each in asked:
                self._asked(each)

    def _whole(self, last: Decision, total_s: float) -> None:
        time_, count, context, path = self._metrics.time, self._metrics.count, self._context, last.path
        time_(table.FIRST_BYTE, last.first_byte_s, context, path=path)
        time_(table.TOTAL, total_s, context, path=path)
        self._metrics.slow.add(SlowAnswer(last.trace_id, path, total_s, last.first_byte_s, tuple(self.moments.parts)))
        for seconds in self.moments.releases_s:
            time_(table.VERDICT_TO_RELEASE, seconds, context, path=path)
        match path:
            case Path.REFUSED:
                count(table.REFUSALS, 1, context, reason=last.reason or table.OTHER)
            case Path.FAILED:
                count(table.FAILURES, 1, context, type=last.reason or table.OTHER)
            case Path.ABANDONED:
                count(table.LEAVES, 1, context, stage=self.moments.stage)
            case _:
                pass
        if last.grounded is not None:
            count(table.GROUNDING, 1, context, grounded=str(last.grounded).lower())

    def _attempt(self, row: Decision) -> None:
        time_, count, context, path = self._metrics.time, self._metrics.count, self._context, row.path
        time_(table.RETRIEVAL, row.retrieval_s, context, path=path)
        time_(table.GRADE, row.grade_s, context, path=path)
        time_(table.VERDICT_TO_CLOSE, row.close_s, context, path=path)
        time_(table.FIRST_TOKEN, row.first_token_s, context, path=path)
        if row.verdict is not None:
            grader = row.grader if row.grader in table.GRADERS else table.MODEL
            count(table.VERDICT_COUNT, 1, context, verdict=row.verdict, grader=grader or table.MODEL)
        if row.grader_fault is not None:
            count(table.GRADER_FAULTS, 1, context, type=row.grader_fault)
        if row.attempt > 1:
            count(table.CORRECTIONS, 1, context, strategy=row.strategy, result=row.outcome or table.OTHER)
        if row.speculate is not None:
            count(table.SPECULATION, 1, context, **speculation(row))
        exact = str(row.exact).lower()
        count(table.TOKENS, row.released_tokens, context, fate="released", exact=exact)
        count(table.TOKENS, row.discarded_tokens, context, fate="discarded", exact=exact)
        count(table.DUPLICATES, row.duplicates or 0, context)
        count(table.CONFLICTS, row.conflicts or 0, context)

    def _asked(self, asked: Asked) -> None:
        """By OpenTelemetry's conventions."""
        record, context, labels = self._metrics.record, self._context, asked.labels()
        if asked.provider is None:
            record(table.STATEMENT, asked.took_s, context, labels)
            return
        record(table.CALL, asked.took_s, context, labels)
        for metric in (table.CHUNK_NEW, table.CHUNK_OLD):
            record(metric, asked.first_chunk_s, context, labels)
        for kind, tokens in (("input", asked.input_tokens), ("output", asked.output_tokens)):
            record(table.USAGE, tokens, context, {**labels, "gen_ai.token.type": kind})


def speculation(row: Decision) -> dict[str, str]:
    """Whether a draft was begun before the verdict, and whether it was used."""
    if row.speculate_delay_s is None:
        return {"decision": "wait", "use": "unused"}
    decision = "now" if row.speculate_delay_s == 0 else "later"
    if not row.drafts:
        return {"decision": decision, "use": "unused"}
    return {"decision": decision, "use": "hit" if row.outcome == "released" else "miss"}
