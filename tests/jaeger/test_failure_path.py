"""The failure path as the real Jaeger shows it: 1,000 answers at 20 a second, every number from four places. Run by `make test-jaeger`."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from math import inf
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from gateway.observing.answer_trace import SPANS
from gateway.observing.metric_names import BUCKETS_S
from gateway.observing.openmetrics import OPENMETRICS, parsed
from gateway.reporting.from_prometheus import seen_in
from gateway.reporting.report import FAILURE_PATH, Report
from tests.support.clients import client
from tests.support.gateway_process import ROOT, gateway_process
from tests.support.jaeger_stack import Stack, free_port, stack
from tests.support.precise_client import measured_apart
from tests.support.trace_picture import trace_png

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif("TEST_JAEGER" not in os.environ, reason="Jaeger is built for it: run `make test-jaeger`"),
]

ANSWERS = int(os.environ.get("TEST_JAEGER_ANSWERS", "1000"))
RATE = 20.0
MIX = (
    (0.85, "clean", ""),
    (0.92, "recovered", "[[verdict=partial,sufficient]]"),
    (0.97, "recovered", "[[verdict=insufficient,sufficient]]"),
    (1.0, "refused", "[[verdict=insufficient]]"),
)
SCRIPT = "[[retrieve_ms=20 grade_ms=250 ttft_ms=400 tps=200 tokens=40 jitter=0.4]]"
SETTLE_LIMIT_S = 60.0
CLOSE_S = 0.005  # what a client may measure beside the server, at the median
QUIET_S = 0.002
PICTURES = os.environ.get("TEST_JAEGER_PICTURES")  # a folder for those of docs/tracing.md


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def questions() -> list[str]:
    chance = random.Random(1)
    drawn = [chance.random() for _ in range(ANSWERS)]
    return [f"Question {n}? {next(mark for share, _, mark in MIX if x <= share)}" for n, x in enumerate(drawn)]


async def settled(running: Stack, failures: int) -> list[dict[str, Any]]:
    """The traces of the failure path, once Jaeger has all: its sampling waits for late spans."""
    found: list[dict[str, Any]] = []
    with anyio.move_on_after(SETTLE_LIMIT_S):
        while len(found) < failures:
            await anyio.sleep(1)
            found = await to_thread.run_sync(lambda: failure_traces(running))
    return found


def failure_traces(running: Stack) -> list[dict[str, Any]]:
    """Found by what their spans carry, one path after the other."""
    return [
        trace
        for path in ("recovered", "refused", "failed", "abandoned")
        for trace in running.traces(
            service="optimistic-gateway",
            operation="failure_path",
            tags=json.dumps({"gateway.path": path}),
            limit="1500",
            lookback="1h",
        )
    ]


def assert_whole(trace: dict[str, Any], path: str) -> float:
    """No orphan, the parents that the design says, inside its root; returns the root's seconds."""
    spans = {span["spanID"]: span for span in trace["spans"]}
    parents = {
        span["spanID"]: next((r["spanID"] for r in span["references"] if r["refType"] == "CHILD_OF"), None)
        for span in spans.values()
    }
    roots = [spans[own] for own, parent in parents.items() if parent is None]
    assert [root["operationName"] for root in roots] == ["POST /v1/answers"]
    assert all(parent is None or parent in spans for parent in parents.values()), "an orphan"
    named = {own: span["operationName"] for own, span in spans.items()}
    kinds = Counter(named.values())
    assert kinds["failure_path"] == kinds["invoke_agent gateway"] == 1
    assert kinds["attempt"] == 2
    assert len(spans) <= SPANS
    for own, span in spans.items():
        above = named.get(parents[own] or "")
        assert (span["operationName"].split()[0], above) in PARENTS, (span["operationName"], above)
        assert roots[0]["startTime"] <= span["startTime"]
        assert span["startTime"] + span["duration"] <= roots[0]["startTime"] + roots[0]["duration"] + 1
    (failure,) = [span for span in spans.values() if span["operationName"] == "failure_path"]
    assert {tag["key"]: tag["value"] for tag in failure["tags"]}["gateway.path"] == path
    return float(roots[0]["duration"]) / 1e6


PARENTS = {
    ("POST", None),
    ("invoke_agent", "POST /v1/answers"),
    ("failure_path", "POST /v1/answers"),
    ("attempt", "invoke_agent gateway"),
    ("retrieval", "attempt"),
    ("rerank", "attempt"),
    ("rewrite", "attempt"),
    ("chat", "attempt"),
}


def agree(one: float, other: float) -> bool:
    """Within one bucket, or 5 %."""
    places = [next(n for n, bound in enumerate((*BUCKETS_S, inf)) if value <= bound) for value in (one, other)]
    return abs(places[0] - places[1]) <= 1 or abs(one - other) <= 0.05 * max(one, other)


def reported(*arguments: str) -> dict[str, Any]:
    """What `gateway report` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "report", "--json", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return dict(json.loads(done.stdout))


async def test_jaeger_metrics_report_and_clients_agree_on_the_failure_path(tmp_path: Path) -> None:
    port = free_port()
    with stack((f"127.0.0.1:{port}",)) as running:
        async with gateway_process(
            tmp_path,
            "--port",
            str(port),
            GATEWAY_SCRIPT=SCRIPT,
            OTEL_EXPORTER_OTLP_ENDPOINT=running.otlp,
            OTEL_METRICS_EXPORTER="none",
            OTEL_BSP_SCHEDULE_DELAY="500",
            OTEL_BSP_MAX_QUEUE_SIZE="20000",
        ) as gateway:
            measured = await to_thread.run_sync(measured_apart, port, questions(), RATE)
            failures = {trace: path for trace, path in measured.paths.items() if path != "clean"}
            traces = await settled(running, len(failures))
            async with client(gateway.base_url) as http:
                text = (await http.get("/metrics", headers={"accept": OPENMETRICS})).text
            lookback_s = ANSWERS / RATE + SETTLE_LIMIT_S
            p99 = {
                "clients": sorted(measured.total_s[trace] for trace in failures)[int(0.99 * len(failures))],
                "/metrics": Report(seen_in(parsed(text), "")).spread("total", FAILURE_PATH).p99,
                "Jaeger": await to_thread.run_sync(
                    lambda: running.latency_s("failure_path", 0.99, lookback_s, spanKind="internal")
                ),
            }
            for name, arguments in (
                ("report of the gateway", ("--gateway", gateway.base_url)),
                ("report of Prometheus", ("--prometheus", running.prometheus, "--since", f"{int(lookback_s)}s")),
            ):
                body = await to_thread.run_sync(reported, *arguments)
                p99[name] = body["seconds"]["total"][FAILURE_PATH]["p99"]
    print(f"\n{len(measured.paths)} answers: {dict(Counter(measured.paths.values()))}")
    print("p99 of the failure path in seconds:", {name: round(value, 3) for name, value in p99.items()})

    assert len(measured.paths) == ANSWERS
    found = {trace["traceID"]: trace for trace in traces}
    assert found.keys() == failures.keys(), "every trace of the failure path, and no other"
    signed_s = sorted(measured.total_s[trace] - assert_whole(whole, failures[trace]) for trace, whole in found.items())
    apart_s = sorted(map(abs, signed_s))
    lag_s = sorted(measured.lags_s)[int(0.9 * len(measured.lags_s))]
    middle_s, late_s = apart_s[len(apart_s) // 2], apart_s[int(0.95 * len(apart_s))]
    close = sum(each <= CLOSE_S for each in apart_s) / len(apart_s)
    print(
        f"client against root span: p50 {middle_s * 1e3:.2f} ms, p95 {late_s * 1e3:.2f} ms,"
        f" from {signed_s[0] * 1e3:.2f} to {signed_s[-1] * 1e3:.2f} ms;"
        f" {close:.1%} within {CLOSE_S * 1e3:g} ms; the client's own lag {lag_s * 1e3:.2f} ms (p90),"
        f" {measured.stamped} of {ANSWERS} ends stamped by the kernel"
    )
    if lag_s <= QUIET_S:  # a process that is woken later than that has neighbours, and so has the gateway's
        assert middle_s <= CLOSE_S
    else:
        print("too busy a machine to hold the clients' times against the spans'")
    if PICTURES:
        slowest = max(traces, key=lambda trace: len(trace["spans"]) * 1e9 + trace["spans"][0]["duration"])
        await anyio.Path(PICTURES, "trace.png").write_bytes(trace_png(slowest))
    clients_s = p99.pop("clients")
    assert all(agree(clients_s, value) for value in p99.values()), (clients_s, p99)
