"""Metrics as text: OpenMetrics with exemplars for who asks for it, else the older Prometheus format without.

https://prometheus.io/docs/specs/om/open_metrics_spec/ ; names as OpenTelemetry's compatibility rules make them
(https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    Sum,
)

from gateway.observing.metric_names import Kind
from gateway.observing.metric_names import Metric as Known

OPENMETRICS = "application/openmetrics-text"
OPENMETRICS_TYPE = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"
PLAIN_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ENDINGS = {"s": "_seconds", "By": "_bytes"}

Point = HistogramDataPoint | NumberDataPoint
Seen = dict[tuple[str, str], Exemplar]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric as it is written: `samples` are lines."""

    name: str
    kind: str
    unit: str
    about: str
    samples: tuple[str, ...]


class MetricsText:
    """Writes metrics. It remembers the exemplars, because the SDK forgets them each time somebody asks, and several may ask.

    What is in `known` is written from the first time on, at zero: the first of a kind would else be no increase to Prometheus, which
    counts from the second sample, and a rate of what never happened would be no number.
    """

    def __init__(self, known: Iterable[Known] = ()) -> None:
        self._exemplars: Seen = {}
        self._known = tuple(known)

    def written(self, data: MetricsData | None, *, openmetrics: bool) -> str:
        """The whole text."""
        families = {
            family.name: family
            for metric in metrics_of(data)
            if (family := self._family(metric, openmetrics=openmetrics))
        }
        for known in self._known:
            families[known.exposed] = with_zeros(known, families.get(known.exposed))
        lines: list[str] = []
        for family in families.values():
            lines += written(family, openmetrics=openmetrics)
        if openmetrics:
            lines.append("# EOF")
        return "\n".join(lines) + "\n"

    def _family(self, metric: Metric, *, openmetrics: bool) -> Family | None:
        name = exposed(metric.name, metric.unit)
        unit = ENDINGS.get(metric.unit or "", "").removeprefix("_")
        data, samples = metric.data, list[str]()
        match data:
            case Histogram():
                kind = "histogram"
                for each in data.data_points:
                    samples += self._buckets(name, each, openmetrics=openmetrics)
            case Sum(is_monotonic=True):
                kind = "counter"
                samples += [self._number(f"{name}_total", each, openmetrics=openmetrics) for each in data.data_points]
            case _:
                kind = "gauge"
                points = [each for each in data.data_points if isinstance(each, NumberDataPoint)]
                samples += [f"{name}{braced(labels_of(each))} {number(each.value)}" for each in points]
        return Family(name, kind, unit, metric.description or "", tuple(samples)) if samples else None

    def _buckets(self, name: str, point: HistogramDataPoint, *, openmetrics: bool) -> Iterator[str]:
        labels = labels_of(point)
        fresh = {bisect_left(point.explicit_bounds, each.value): each for each in point.exemplars}
        total = 0
        for place, count in enumerate(point.bucket_counts):
            total += count
            bounds = point.explicit_bounds
            named = braced({**labels, "le": number(bounds[place]) if place < len(bounds) else "+Inf"})
            line = f"{name}_bucket{named} {total}"
            yield line + self._exemplar((name, named), fresh.get(place), openmetrics=openmetrics)
        yield f"{name}_count{braced(labels)} {point.count}"
        yield f"{name}_sum{braced(labels)} {number(point.sum)}"

    def _number(self, name: str, point: NumberDataPoint, *, openmetrics: bool) -> str:
        named = braced(labels_of(point))
        newest = max(point.exemplars, key=lambda each: each.time_unix_nano, default=None)
        return f"{name}{named} {number(point.value)}" + self._exemplar((name, named), newest, openmetrics=openmetrics)

    def _exemplar(self, series: tuple[str, str], fresh: Exemplar | None, *, openmetrics: bool) -> str:
        if fresh is not None and fresh.trace_id:
            self._exemplars[series] = fresh
        kept = self._exemplars.get(series)
        if kept is None or not openmetrics:
            return ""
        labels = braced({"trace_id": f"{kept.trace_id:032x}", "span_id": f"{kept.span_id or 0:016x}"})
        return f" # {labels} {number(kept.value)} {kept.time_unix_nano / 1e9:.3f}"


def with_zeros(known: Known, family: Family | None) -> Family:
    """The family with the series that it lacks, at zero."""
    unit = ENDINGS.get(known.unit, "").removeprefix("_")
    family = family or Family(known.exposed, known.kind.value, unit, known.about, ())
    there = {line.rsplit(" # ", 1)[0].rsplit(" ", 1)[0] for line in family.samples}
    lacking: list[str] = []
    for values in product(*(sorted(each) for each in known.labels.values())):
        labels = dict(sorted(zip(known.labels, values, strict=True)))
        lines = zeros_of(known, labels)
        if lines[-1].rsplit(" ", 1)[0] not in there:
            lacking += lines
    return replace(family, samples=(*family.samples, *lacking))


def zeros_of(known: Known, labels: Mapping[str, str]) -> list[str]:
    """A series at zero."""
    name, named = known.exposed, braced(labels)
    if known.kind is Kind.COUNTER:
        return [f"{name}_total{named} 0"]
    bounds = (*map(number, map(float, known.bounds)), "+Inf")
    buckets = [f"{name}_bucket{braced({**labels, 'le': bound})} 0" for bound in bounds]
    return [*buckets, f"{name}_count{named} 0", f"{name}_sum{named} 0.0"]


def metrics_of(data: MetricsData | None) -> Iterator[Metric]:
    """Every metric of the data."""
    for of_resource in data.resource_metrics if data is not None else ():
        for of_scope in of_resource.scope_metrics:
            yield from of_scope.metrics


def written(family: Family, *, openmetrics: bool) -> list[str]:
    """A family's lines."""
    name = f"{family.name}_total" if family.kind == "counter" and not openmetrics else family.name
    head = [f"# TYPE {name} {family.kind}"]
    if family.unit and openmetrics:
        head.append(f"# UNIT {name} {family.unit}")
    if family.about:
        head.append(f"# HELP {name} {escaped(family.about)}")
    return [*head, *family.samples]


def exposed(name: str, unit: str | None) -> str:
    """A metric's name in the text, without the endings of its samples."""
    return name.replace(".", "_") + ENDINGS.get(unit or "", "")


def labels_of(point: Point) -> dict[str, str]:
    """The labels of a point, in the order of their names."""
    attributes: Mapping[str, object] = point.attributes or {}
    return {name.replace(".", "_"): str(value) for name, value in sorted(attributes.items())}


def braced(labels: Mapping[str, str]) -> str:
    """`{a="b"}`; nothing for no labels."""
    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items()) + "}" if labels else ""


def escaped(text: str) -> str:
    """`text` inside a line."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def number(value: float) -> str:
    """A number: whole ones of a counter without a fraction, times with as many digits as they have."""
    return str(value) if isinstance(value, int) else repr(float(value))


def wants_openmetrics(accepts: str) -> bool:
    """Whether an `Accept` header names OpenMetrics."""
    return any(part.split(";")[0].strip().lower() == OPENMETRICS for part in accepts.split(","))


def parsed(text: str) -> Iterable[tuple[str, dict[str, str], float]]:
    """The samples of a text in either format: name, labels, value. Comments and exemplars are passed over."""
    for line in text.splitlines():
        if line and not line.startswith("#"):
            yield sample(line.split(" # ")[0])


def sample(line: str) -> tuple[str, dict[str, str], float]:
    """One sample without an exemplar. Raises ValueError for what is none."""
    named, value = line.rsplit(" ", 1)
    name, _, inside = named.partition("{")
    labels: dict[str, str] = {}
    for pair in filter(None, inside.removesuffix("}").split('",')):
        label, _, text = pair.partition('="')
        labels[label] = text.removesuffix('"').replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")
    return name, labels, float(value)
