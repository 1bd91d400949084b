"""The report's figures from metrics: from a Prometheus server over a range of time, or from one gateway's `/metrics` since its start."""

from collections.abc import Iterable, Iterator, Mapping
from math import inf, isnan

import httpx2

from gateway.observing import metric_names as table
from gateway.observing.metric_names import Kind, Metric
from gateway.observing.openmetrics import parsed
from gateway.reporting.report import FAILURE_PATH, PATHS, Seen, Spread
from retrieval.faults import GatewayFault

LIMIT_S = 30.0
STAGES: Mapping[str, Metric] = {
    "first_byte": table.FIRST_BYTE,
    "total": table.TOTAL,
    "retrieval": table.RETRIEVAL,
    "grade": table.GRADE,
    "verdict_to_close": table.VERDICT_TO_CLOSE,
}
COUNTERS = (
    table.REFUSALS,
    table.TOKENS,
    table.GROUNDING,
    table.CORRECTIONS,
    table.SPECULATION,
    table.DUPLICATES,
    table.CONFLICTS,
)

Sample = tuple[str, Mapping[str, str], float]


class MetricsUnreadable(GatewayFault):
    """Raised when an address gives no metrics: not reached, not in time, or not what was expected."""

    type = "metrics_unreadable"


async def seen_by_prometheus(url: str, since_s: float) -> Seen:
    """What a Prometheus server knows of the last `since_s` seconds, of all gateways together. Raises MetricsUnreadable."""
    samples: list[Sample] = []
    async with httpx2.AsyncClient(timeout=LIMIT_S) as client:
        for metric in (*STAGES.values(), *COUNTERS):
            name = sample_name(metric)
            by = ", ".join((*metric.labels, *(("le",) if metric.kind is Kind.HISTOGRAM else ())))
            query = f"sum by ({by}) (increase({name}[{max(1, round(since_s))}s]))"
            samples += [(name, labels, value) for labels, value in await _asked(client, url, query)]
    return seen_in(samples, f"Prometheus at {url}")


async def seen_at_gateway(url: str) -> Seen:
    """What one gateway counted since its start. Raises MetricsUnreadable."""
    async with httpx2.AsyncClient(timeout=LIMIT_S) as client:
        text = (await _got(client, f"{url.rstrip('/')}/metrics", {})).text
    try:
        return seen_in(parsed(text), f"the gateway at {url}")
    except (KeyError, ValueError) as error:
        raise MetricsUnreadable(f"what answers at {url} is no gateway") from error


def seen_in(samples: Iterable[Sample], source: str) -> Seen:
    """The figures in samples; those of several gateways are added up."""
    buckets: dict[tuple[str, str], dict[float, float]] = {}
    counted: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    stages = {sample_name(metric): stage for stage, metric in STAGES.items()}
    for name, labels, value in samples:
        if name in stages:
            for path in (labels["path"], *((FAILURE_PATH,) if labels["path"] != "clean" else ())):
                of = buckets.setdefault((stages[name], path), {})
                bound = float(labels["le"].replace("+Inf", "inf"))
                of[bound] = of.get(bound, 0.0) + value
        else:
            counted.setdefault(name, []).append((labels, value))
    return Seen(
        source=source,
        spreads={place: _spread(of) for place, of in buckets.items() if place[1] in (*PATHS, FAILURE_PATH)},
        refusals=_by(counted, table.REFUSALS, "reason"),
        tokens=_by(counted, table.TOKENS, "fate"),
        grounded=_by(counted, table.GROUNDING, "grounded"),
        strategies=_strategies(counted.get(sample_name(table.CORRECTIONS), [])),
        speculation=_by(counted, table.SPECULATION, "use"),
        corrected=_corrected(counted.get(sample_name(table.CORRECTIONS), [])),
        duplicates=sum(value for _, value in counted.get(sample_name(table.DUPLICATES), [])),
        conflicts=sum(value for _, value in counted.get(sample_name(table.CONFLICTS), [])),
    )


def sample_name(metric: Metric) -> str:
    """What the samples that are read of it are called."""
    return metric.exposed + ("_bucket" if metric.kind is Kind.HISTOGRAM else "_total")


def _spread(of: Mapping[float, float]) -> Spread:
    bounds = sorted(of)
    return Spread.in_buckets(bounds, [of[bound] for bound in bounds]) if inf in of else Spread.of(())


def _by(counted: Mapping[str, list[tuple[Mapping[str, str], float]]], metric: Metric, label: str) -> dict[str, float]:
    sums: dict[str, float] = {}
    for labels, value in counted.get(sample_name(metric), []):
        if value:
            sums[labels[label]] = sums.get(labels[label], 0.0) + value
    return sums


def _strategies(found: Iterable[tuple[Mapping[str, str], float]]) -> dict[str, dict[str, float]]:
    sums: dict[str, dict[str, float]] = {}
    for labels, value in found:
        if value:
            of = sums.setdefault(labels["strategy"], {})
            of[labels["result"]] = of.get(labels["result"], 0.0) + value
    return sums


def _corrected(found: Iterable[tuple[Mapping[str, str], float]]) -> float:
    """Answers with a correction: each ends with one that is not discarded for a further one."""
    return sum(value for labels, value in found if labels["result"] != "discarded")


async def _asked(client: httpx2.AsyncClient, url: str, query: str) -> list[tuple[Mapping[str, str], float]]:
    response = await _got(client, f"{url.rstrip('/')}/api/v1/query", {"query": query})
    try:
        return list(_vector(response.json()))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise MetricsUnreadable(f"what answers at {url} is no Prometheus server") from error


def _vector(body: object) -> Iterator[tuple[Mapping[str, str], float]]:
    for each in body["data"]["result"]:  # type: ignore[index]
        value = float(each["value"][1])
        yield each["metric"], 0.0 if isnan(value) else value


def reason_of(error: Exception) -> str:
    """Why nothing came, in words."""
    match error:
        case httpx2.TimeoutException():
            return f"no answer within {LIMIT_S:g} s"
        case httpx2.ConnectError():
            return "nothing listens there, or its name is not known"
        case httpx2.InvalidURL() | httpx2.UnsupportedProtocol():
            return "it is no address"
        case _:
            return "the connection broke"


async def _got(client: httpx2.AsyncClient, url: str, parameters: Mapping[str, str]) -> httpx2.Response:
    try:
        response = await client.get(url, params=dict(parameters))
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise MetricsUnreadable(f"{url} cannot be reached: {reason_of(error)}") from error
    if response.status_code != 200:
        raise MetricsUnreadable(f"{url} answered {response.status_code}")
    return response
