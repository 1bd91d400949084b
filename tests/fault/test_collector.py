"""The collector: spans reach it where it is set, nothing is sent where it is not, and a dead one is in nobody's way."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import anyio
import pytest

from gateway.telemetry import Telemetry
from retrieval.sources import house
from streaming.answer import Parts
from streaming.budget import Limits
from streaming.events import Event, Path
from streaming.speculate import Always
from tests.support.fakes import FakeGenerator, FakeGrader, FakeRetriever, MemoryGaps, passages
from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver
from tests.support.span_trees import ROUTE, ask, observed_answer
from tests.unit.test_telemetry_trees import ANSWER, GOOD, PARTIAL

pytestmark = pytest.mark.anyio
CLOSE_LIMIT_S = 3.0


@pytest.fixture
def anyio_backend() -> str:
    """The one the server runs on; closing is the same few lines on both."""
    return "asyncio"


def parts() -> Parts:
    return Parts(
        house(FakeRetriever([(0, passages(2))])),
        None,
        FakeGrader([(0, PARTIAL), (0, GOOD)]),
        FakeGenerator([ANSWER]),
        Always(),
        MemoryGaps(),
    )


async def answered(telemetry: Telemetry) -> Path:
    events: list[Event] = []
    trace = telemetry.request({}, "POST", ROUTE)
    try:
        return await observed_answer(trace, parts(), Limits(), events, ask())
    finally:
        trace.end(200)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpReceiver]:
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
        yield receiver


@pytest.fixture(params=["refuses", "silent"])
def dead_collector(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A port where nobody listens, or a server that takes every export and never answers; closing gives it half a second.

    How long it is given where nobody says so is seen by the tests of whole processes.
    """
    monkeypatch.setattr("gateway.telemetry.FLUSH_LIMIT_S", 0.5)
    if request.param == "refuses":
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{taken.getsockname()[1]}")
            yield
    else:
        with otlp_receiver(silent=True) as receiver:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
            yield


async def test_the_whole_tree_arrives_over_http(receiver: OtlpReceiver) -> None:
    telemetry = Telemetry.start(service_version="7", export=True)
    assert await answered(telemetry) is Path.RECOVERED
    await telemetry.aclose()

    spans = receiver.wait_until(lambda spans: len(spans) >= 11)
    assert sorted(span.name for span in spans) == sorted(
        ["POST /v1/answers", "invoke_agent gateway", "failure_path"]
        + 2 * ["attempt", "retrieval docs", "chat judge", "chat writer"]
    )
    ids = {span.span_id for span in spans}
    assert len(ids) == 11
    assert len({span.trace_id for span in spans}) == 1
    assert [span.name for span in spans if span.parent_id not in ids] == ["POST /v1/answers"]
    assert all(span.start_ns <= span.end_ns and span.attributes["gateway.outcome"] for span in spans)
    assert spans[0].resource.items() >= {"service.name": "optimistic-gateway", "service.version": "7"}.items()


async def test_spans_are_sent_while_the_server_runs_and_not_only_at_its_end(
    receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    telemetry = Telemetry.start(service_version="1", export=True)
    await answered(telemetry)

    await anyio.to_thread.run_sync(receiver.wait_until, lambda spans: len(spans) >= 11)
    await telemetry.aclose()


async def test_a_dead_collector_costs_requests_nothing_and_closing_little(
    dead_collector: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "64")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "32")
    telemetry = Telemetry.start(service_version="1", export=True)
    began = time.monotonic()
    with anyio.fail_after(20):
        paths = [await answered(telemetry) for _ in range(4)]
        for _ in range(300):  # far more than the queue takes
            telemetry.request({}, "GET", "/readyz").end(200)
    assert paths == [Path.RECOVERED] * 4
    assert time.monotonic() - began < 20

    began = time.monotonic()
    await telemetry.aclose()
    assert time.monotonic() - began <= CLOSE_LIMIT_S


async def test_closing_is_bounded_also_when_it_is_cancelled(dead_collector: None) -> None:
    telemetry = Telemetry.start(service_version="1", export=True)
    telemetry.request({}, "POST", ROUTE).end(200)

    began = time.monotonic()
    with anyio.move_on_after(0.01):
        await telemetry.aclose()
    assert time.monotonic() - began <= CLOSE_LIMIT_S


async def test_the_event_loop_runs_on_while_a_dead_collector_is_closed(dead_collector: None) -> None:
    telemetry = Telemetry.start(service_version="1", export=True)
    telemetry.request({}, "POST", ROUTE).end(200)
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await anyio.sleep(0.01)
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turn)
        await telemetry.aclose()
        tasks.cancel_scope.cancel()
    assert turns >= 10  # of about 50; a blocked loop would have made none


PROGRAM = """
import anyio, os, sys
calls = []
sys.addaudithook(lambda event, args: calls.append(event) if event in ("socket.connect", "socket.getaddrinfo") else None)
from gateway.telemetry import Telemetry, exports_traces
def main():
    export = exports_traces(os.environ)
    telemetry = Telemetry.start(service_version="1", export=export)
    for _ in range(20):
        trace = telemetry.request({}, "POST", "/v1/answers")
        trace.end(200)
    anyio.run(telemetry.aclose)
"""


def run(program: str, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM + program],
        env={**kept, **environ},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_without_an_endpoint_no_connection_is_even_tried(receiver: OtlpReceiver) -> None:
    report = "main()\nprint(calls, 'requests' in sys.modules)"

    silent = run(report)
    assert (silent.returncode, silent.stderr, silent.stdout) == (0, "", "[] False\n")
    sent = run(report, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint)  # the same program does connect with one
    assert "socket.connect" in sent.stdout, sent.stderr
    assert len(receiver.wait_until(lambda spans: len(spans) >= 20)) == 20


def test_a_process_with_a_dead_collector_exits_soon(dead_collector: None) -> None:
    began = time.monotonic()
    ended = run("main()", OTEL_EXPORTER_OTLP_ENDPOINT=os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"])

    assert ended.returncode == 0
    assert time.monotonic() - began < 15  # the SDK's own shutdown takes 30 s


def test_each_forked_worker_sends_its_own_spans(receiver: OtlpReceiver) -> None:
    workers = (
        "children = []\n"
        "for _ in range(2):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        main()\n"
        "        os._exit(0)\n"
        "    children.append(child)\n"
        "sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))\n"
    )
    ended = run(workers, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(receiver.wait_until(lambda spans: len(spans) >= 40)) == 40
