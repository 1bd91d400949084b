"""The metrics of a gateway, in one table: name, unit, what it counts, and the closed set of values of each label.

Ours are `gateway.*`. Where OpenTelemetry has a name for a thing, that name is used as well, and for the names that moved there is an
old and a new one, behind the setting GATEWAY_METRIC_NAMES. In the Prometheus text dots become underscores, and the unit and `_total`
are added as OpenTelemetry's compatibility rules say.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from math import prod
from typing import Final, Literal

from grading.correct import Strategy
from grading.grade import Verdict
from streaming.events import Path, Reason

# Seconds. Dense below 2 s, where first bytes are: within one bucket is then within a third of the value.
BUCKETS_S: Final = (
    0.05,
    0.1,
    0.15,
    0.2,
    0.3,
    0.4,
    0.5,
    0.75,
    1.0,
    1.5,
    2.0,
    3.0,
    4.0,
    5.0,
    7.5,
    10.0,
    15.0,
    20.0,
    30.0,
    45.0,
    60.0,
)

# Those that the conventions name: https://opentelemetry.io/docs/specs/semconv/database/database-metrics/ and the GenAI ones.
STATEMENT_BUCKETS_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
TOKEN_BUCKETS: Final = tuple(float(4**power) for power in range(14))

OTHER: Final = "other"  # a value that no set knows: never a series of its own
NONE: Final = "none"

Names = Literal["new", "old", "both"]


class Kind(Enum):
    """What a metric does."""

    HISTOGRAM = "histogram"
    COUNTER = "counter"
    GAUGE = "gauge"


class Stage:
    """Where an answer was when its client left."""

    QUEUED: Final = "queued"  # before the first search
    RETRIEVING: Final = "retrieving"
    GRADING: Final = "grading"
    GENERATING: Final = "generating"  # released: text goes out
    VERIFYING: Final = "verifying"
    CORRECTING: Final = "correcting"
    DONE: Final = "done"
    ALL: Final = frozenset({QUEUED, RETRIEVING, GRADING, GENERATING, VERIFYING, CORRECTING})


PATHS: Final = frozenset(str(path) for path in Path)
VERDICTS: Final = frozenset(str(verdict) for verdict in Verdict)
STRATEGIES: Final = frozenset(str(strategy) for strategy in Strategy)
REASONS: Final = frozenset(str(reason) for reason in Reason)
OUTCOMES: Final = frozenset({"released", "discarded", "refused", "failed", "client_gone", "timeout"})
MODEL: Final = "model"  # whatever a grader's model is called: which one it was is on the span
GRADERS: Final = frozenset({"score", "reader", "calibrated", "cascade", "empty", MODEL})
FAULTS: Final = frozenset(
    {
        "internal_error",
        "retrieval_unavailable",
        "retrieval_misconfigured",
        "collection_not_found",
        "embedding_failed",
        "generator_failed",
        "generator_overloaded",
        "generator_unavailable",
        "generator_misconfigured",
        "answer_incomplete",
        "grader_unavailable",
        "rewriter_unavailable",
        "verifier_unavailable",
        "shutting_down",
    }
)
SPECULATIONS: Final = frozenset({"now", "later", "wait"})
USES: Final = frozenset({"hit", "miss", "unused"})
BOTH: Final = frozenset({"true", "false"})
ROUTES: Final = frozenset(
    {"/v1/answers", "/v1/chat/completions", "/api/chat", "/v1/documents", "/v1/documents/{id}", "/v1/gaps"}
)
PROVIDERS: Final = frozenset({"anthropic", "local", "scripted"})
CHAT: Final = frozenset({"chat"})
CALL_FAULTS: Final = frozenset(
    {
        "",  # without a fault there is no label
        "answer_incomplete",
        "generator_failed",
        "generator_misconfigured",
        "generator_overloaded",
        "generator_unavailable",
        "grader_unavailable",
    }
)
STATEMENT_FAULTS: Final = frozenset({"", "collection_not_found", "retrieval_misconfigured", "retrieval_unavailable"})
STATUSES: Final = frozenset({"2xx", "3xx", "4xx", "5xx", NONE})
STATES: Final = frozenset({"used", "idle"})
UPSTREAM_ROLES: Final = frozenset(
    {"generator", "grader", "fallback_generator", "fallback_grader", "source", "embeddings"}
)
BREAKER_STATES: Final = frozenset({"closed", "half_open", "open"})
LOSSES: Final = frozenset({"queue_full", "not_delivered"})


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; `labels` are their names with the values that they may have (OTHER besides; "" is no label).

    `again` are labels that always say what another one says; `bounds` are a histogram's.
    """

    name: str
    kind: Kind
    unit: str
    about: str
    labels: Mapping[str, frozenset[str]] = field(default_factory=dict)
    bounds: tuple[float, ...] = BUCKETS_S
    again: frozenset[str] = frozenset()

    @property
    def series_limit(self) -> int:
        """More series than these cannot come of it."""
        return prod(len(values | {OTHER}) for label, values in self.labels.items() if label not in self.again)

    @property
    def samples_limit(self) -> int:
        """More samples than these are not in the text."""
        return self.series_limit * (len(self.bounds) + 3 if self.kind is Kind.HISTOGRAM else 1)

    def closed(self, labels: Mapping[str, str]) -> dict[str, str]:
        """`labels` with every value that its set does not know made OTHER, without those that are no label of it."""
        known = {name: labels[name] if labels[name] in values else OTHER for name, values in self.labels.items()}
        return {name: value for name, value in known.items() if value}

    @property
    def exposed(self) -> str:
        """The name in the Prometheus text, without the endings of its samples."""
        name = self.name.replace(".", "_")
        return f"{name}_seconds" if self.unit == "s" else f"{name}_bytes" if self.unit == "By" else name


def _histogram(name: str, about: str, **labels: frozenset[str]) -> Metric:
    return Metric(name, Kind.HISTOGRAM, "s", about, labels)


def _counter(name: str, unit: str, about: str, **labels: frozenset[str]) -> Metric:
    return Metric(name, Kind.COUNTER, unit, about, labels)


def _gauge(name: str, unit: str, about: str, **labels: frozenset[str]) -> Metric:
    return Metric(name, Kind.GAUGE, unit, about, labels)


FIRST_BYTE: Final = _histogram(
    "gateway.answer.first_byte", "From the request to its first answer byte handed to the client's socket", path=PATHS
)
TOTAL: Final = _histogram("gateway.answer.duration", "From the request until all of it is over", path=PATHS)
VERDICT_TO_RELEASE: Final = _histogram(
    "gateway.verdict_to_release", "From a sufficient verdict until the gate is open", path=PATHS
)
VERDICT_TO_CLOSE: Final = _histogram(
    "gateway.verdict_to_close", "From the decision to discard a draft until its upstream request is closed", path=PATHS
)
RETRIEVAL: Final = _histogram("gateway.retrieval.duration", "One search, whole", path=PATHS)
GRADE: Final = _histogram("gateway.grade.duration", "One verdict on a set", path=PATHS)
FIRST_TOKEN: Final = _histogram(
    "gateway.draft.first_token", "From the request to a model to its first text: not when a client sees it", path=PATHS
)

VERDICT_COUNT: Final = _counter("gateway.verdicts", "{verdict}", "Verdicts", verdict=VERDICTS, grader=GRADERS)
GRADER_FAULTS: Final = _counter("gateway.grader.faults", "{fault}", "Sets that nobody could grade", type=FAULTS)
CORRECTIONS: Final = _counter(
    "gateway.corrections",
    "{attempt}",
    "Searches done differently, and how they ended",
    strategy=STRATEGIES,
    result=OUTCOMES,
)
REFUSALS: Final = _counter("gateway.refusals", "{answer}", "Refusals", reason=REASONS)
FAILURES: Final = _counter("gateway.failures", "{answer}", "Answers that ended in a fault", type=FAULTS)
TOKENS: Final = _counter(
    "gateway.tokens",
    "{token}",
    "Output tokens of drafts, by what became of them",
    fate=frozenset({"released", "discarded"}),
    exact=BOTH,
)
SPECULATION: Final = _counter(
    "gateway.speculations",
    "{attempt}",
    "Attempts by whether a draft was begun before the verdict (now, later, wait), and whether it was used",
    decision=SPECULATIONS,
    use=USES,
)
LEAVES: Final = _counter("gateway.client.leaves", "{answer}", "Clients that left, and at which stage", stage=Stage.ALL)
GROUNDING: Final = _counter("gateway.answers.verified", "{answer}", "Answers that were checked", grounded=BOTH)
DUPLICATES: Final = _counter("gateway.evidence.duplicates", "{passage}", "Passages left out as repeats")
CONFLICTS: Final = _counter("gateway.evidence.conflicts", "{place}", "Places in which passages disagree")

OPEN: Final = _gauge("gateway.answers.open", "{answer}", "Answers that are open")
WAITING: Final = _gauge("gateway.answers.waiting", "{answer}", "Questions that wait for an answer to end")
HELD: Final = _gauge("gateway.held", "By", "Text that is held back until its verdict")
GRADER_LAG: Final = _gauge(
    "gateway.grader.lag", "s", "How long the oldest verdict that is waited for has been waited for"
)
POOL: Final = _gauge("gateway.pool.connections", "{connection}", "Connections to the database", state=STATES)
UPSTREAMS: Final = _gauge(
    "gateway.upstreams",
    "{upstream}",
    "Upstreams by the state of their circuit breaker: open ones are left alone",
    upstream=UPSTREAM_ROLES,
    state=BREAKER_STATES,
)
OPENINGS: Final = _counter(
    "gateway.upstream.openings", "{opening}", "How often the breaker of an upstream has opened", upstream=UPSTREAM_ROLES
)
SPANS_LOST: Final = _counter("gateway.telemetry.spans_lost", "{span}", "Spans that no collector got", reason=LOSSES)

# OpenTelemetry's own, new and old: https://opentelemetry.io/docs/specs/semconv/http/http-metrics/ and the GenAI conventions.
HTTP_NEW: Final = Metric(
    "http.server.request.duration",
    Kind.HISTOGRAM,
    "s",
    "Requests that no answer came of; a stream's life would hide them",
    {"http.route": ROUTES, "http.response.status_code": STATUSES},
)
HTTP_OLD: Final = replace(
    HTTP_NEW, name="http.server.duration", labels={"http.route": ROUTES, "http.status_code": STATUSES}
)
STATEMENT: Final = Metric(
    "db.client.operation.duration",
    Kind.HISTOGRAM,
    "s",
    "The database's part of a search, waiting for a connection included",
    {
        "db.system.name": frozenset({"postgresql"}),
        "db.operation.name": frozenset({"SELECT"}),
        "db.collection.name": frozenset({"passage"}),
        "error.type": STATEMENT_FAULTS,
    },
    STATEMENT_BUCKETS_S,
)
CALL: Final = Metric(
    "gen_ai.client.operation.duration",
    Kind.HISTOGRAM,
    "s",
    "From the request of a draft or a grade until it is over, cut ones included",
    {"gen_ai.operation.name": CHAT, "gen_ai.provider.name": PROVIDERS, "error.type": CALL_FAULTS},
)
USAGE: Final = Metric(
    "gen_ai.client.token.usage",
    Kind.HISTOGRAM,
    "{token}",
    "Tokens of a draft or a grade, where the service counted them",
    {
        "gen_ai.operation.name": CHAT,
        "gen_ai.provider.name": PROVIDERS,
        "gen_ai.token.type": frozenset({"input", "output"}),
    },
    TOKEN_BUCKETS,
)
CHUNK_NEW: Final = Metric(
    "gen_ai.client.operation.time_to_first_chunk",
    Kind.HISTOGRAM,
    "s",
    FIRST_TOKEN.about,
    {"gen_ai.operation.name": CHAT, "gen_ai.provider.name": PROVIDERS},
)
CHUNK_OLD: Final = replace(CHUNK_NEW, name="gen_ai.server.time_to_first_token")
PROVIDER_NEW, PROVIDER_OLD = (
    "gen_ai.provider.name",
    "gen_ai.system",
)  # of the GenAI conventions from 1.37 on, and before

OURS: Final = (
    FIRST_BYTE,
    TOTAL,
    VERDICT_TO_RELEASE,
    VERDICT_TO_CLOSE,
    RETRIEVAL,
    GRADE,
    FIRST_TOKEN,
    VERDICT_COUNT,
    GRADER_FAULTS,
    CORRECTIONS,
    REFUSALS,
    FAILURES,
    TOKENS,
    SPECULATION,
    LEAVES,
    GROUNDING,
    DUPLICATES,
    CONFLICTS,
    OPEN,
    WAITING,
    HELD,
    GRADER_LAG,
    POOL,
    UPSTREAMS,
    OPENINGS,
    SPANS_LOST,
)
BY_NAMES: Final[Mapping[Names, tuple[Metric, ...]]] = {
    "new": (HTTP_NEW, CHUNK_NEW),
    "old": (HTTP_OLD, CHUNK_OLD),
    "both": (HTTP_NEW, CHUNK_NEW, HTTP_OLD, CHUNK_OLD),
}
"""OpenTelemetry's metrics that moved; the others have kept their names."""


LOOKED_UP: Final = (SPANS_LOST, OPENINGS)  # counters that somebody else keeps
ALWAYS_SHOWN: Final = tuple(metric for metric in OURS if metric.kind is not Kind.GAUGE and metric not in LOOKED_UP)
"""Written at zero before they count anything."""


def chosen(names: Names) -> tuple[Metric, ...]:
    """The metrics of a gateway with the setting `names`."""
    return (*OURS, STATEMENT, *(_with_provider(metric, names) for metric in (CALL, USAGE, *BY_NAMES[names])))


def _with_provider(metric: Metric, names: Names) -> Metric:
    """The metric with the label of its provider as `names` says."""
    if names == "new" or PROVIDER_NEW not in metric.labels:
        return metric
    labels = {**metric.labels, PROVIDER_OLD: PROVIDERS}
    if names == "both":
        return replace(metric, labels=labels, again=frozenset({PROVIDER_OLD}))
    return replace(metric, labels={label: values for label, values in labels.items() if label != PROVIDER_NEW})
