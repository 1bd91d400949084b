"""FIELD_REPORTS area (f): what broke telemetry elsewhere. F1 and F6 are in tests/http/test_metrics.py; each other row is a test here."""

import logging
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator

import anyio
import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider

from gateway.observing.openmetrics import MetricsText, parsed
from gateway.telemetry import Telemetry
from streaming.ask import Ask
from streaming.facts import AttemptBegan, AttemptEnded, DraftClosed, DraftStarted, Ended, Fact
from tests.support.clients import ask
from tests.support.gateway_app import Spans, eventually, running, scripted_house
from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver
from tests.support.raw_client import read_until, request_bytes, reset_on_close
from tests.support.span_trees import ROUTE

pytestmark = pytest.mark.anyio

LEAVERS = 40
CLOSE_LIMIT_S = 3.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpReceiver]:
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
        yield receiver


def samples(telemetry: Telemetry) -> dict[tuple[str, str], float]:
    """The samples with one label, by its value."""
    text = MetricsText().written(telemetry.metrics.collect(), openmetrics=True)
    return {(name, next(iter(labels.values()), "")): value for name, labels, value in parsed(text)}


async def test_f2_clients_that_leave_between_events_leave_whole_trees_and_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A span of the reader's own, open across events, is nobody's parent here, and nothing says "different Context"."""
    spans = Spans()
    foreign = TracerProvider(shutdown_on_exit=False).get_tracer("a reader")
    async with running(scripted_house(processors=[spans])) as server:

        async def leave() -> None:
            with foreign.start_as_current_span("reading"):
                async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
                    await stream.send(request_bytes("Is it? [[grade_ms=1 ttft_ms=1 tps=20 tokens=5000]]"))
                    await read_until(stream, b"event: token")
                    reset_on_close(stream)

        async with anyio.create_task_group() as tasks:
            for _ in range(LEAVERS):
                tasks.start_soon(leave)
        await eventually(lambda: not spans.open, 20)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
    ids = {span.context.span_id for span in spans.ended if span.context}
    roots = [span for span in spans.ended if span.parent is None]
    assert len(roots) == len({span.context.trace_id for span in roots if span.context}) == LEAVERS
    assert all(span.parent is None or span.parent.span_id in ids for span in spans.ended)
    assert otel.get_current_span() is otel.INVALID_SPAN


async def test_f3_what_is_cancelled_says_by_whom_and_is_no_error() -> None:
    spans = Spans()
    async with running(scripted_house(processors=[spans])) as server:
        await ask(server.base_url, "Is it? [[verdict=partial,sufficient ttft_ms=1 tokens=400 grade_ms=100]]")
        async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
            await stream.send(request_bytes("Is it? [[grade_ms=60000 ttft_ms=1 tokens=3]]"))
            await read_until(stream, b'"grading"')
        await eventually(lambda: not spans.open)
    outcomes = Counter(
        (span.attributes or {}).get("gateway.outcome") for span in spans.ended if span.name.startswith("chat")
    )
    assert outcomes["discarded"] >= 1
    assert outcomes["client_gone"] >= 1
    assert all(span.status.is_unset for span in spans.ended)


async def test_f4_spans_that_nobody_took_are_counted_and_closing_is_bounded_with_metrics_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{taken.getsockname()[1]}")
        monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "16")
        monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "16")
        telemetry = Telemetry.start(service_version="1", export=True, export_metrics=True)
        for _ in range(200):
            telemetry.request({}, "GET", "/readyz").end(200)
        lost = samples(telemetry)
        began = time.monotonic()
        await telemetry.aclose()
        took_s = time.monotonic() - began
    assert lost["gateway_telemetry_spans_lost_total", "queue_full"] >= 200 - 16 - 2 * 16
    assert took_s <= CLOSE_LIMIT_S


async def test_spans_that_arrive_are_not_counted_as_lost(receiver: OtlpReceiver) -> None:
    telemetry = Telemetry.start(service_version="1", export=True)
    for _ in range(20):
        telemetry.request({}, "GET", "/readyz").end(200)
    await anyio.to_thread.run_sync(telemetry._provider.force_flush)
    counted = samples(telemetry)
    await telemetry.aclose()
    assert len(receiver.spans) == 20
    assert counted["gateway_telemetry_spans_lost_total", "queue_full"] == 0
    assert counted["gateway_telemetry_spans_lost_total", "not_delivered"] == 0


async def test_spans_that_a_collector_rejects_are_counted_and_answers_go_on(receiver: OtlpReceiver) -> None:
    receiver.status = 400
    telemetry = Telemetry.start(service_version="1", export=True)
    answered(telemetry, "why?")
    await anyio.to_thread.run_sync(telemetry._provider.force_flush)
    counted = samples(telemetry)
    await telemetry.aclose()
    assert receiver.requests >= 1
    assert counted["gateway_telemetry_spans_lost_total", "not_delivered"] == len(receiver.spans) == 4


async def test_metrics_arrive_over_otlp_with_the_trace_ids_of_their_exemplars(receiver: OtlpReceiver) -> None:
    telemetry = Telemetry.start(service_version="1", export=False, export_metrics=True)
    answered(telemetry, "why?")
    await telemetry.aclose()
    assert receiver.metrics["gateway.answer.duration"] == 1
    assert "gateway.answers.open" in receiver.metrics
    assert receiver.labels["gen_ai.client.operation.duration"] == {"gen_ai.operation.name", "gen_ai.provider.name"}
    assert receiver.metrics["gen_ai.client.token.usage"] == 2, "of input and of output"
    assert receiver.spans == []


async def test_f9_a_huge_question_that_is_no_unicode_changes_no_export(receiver: OtlpReceiver) -> None:
    telemetry = Telemetry.start(service_version="1", export=True, records_text=True)
    answered(telemetry, "\ud83d" + "x" * 1_000_000)
    answered(telemetry, "why?")
    await telemetry.aclose()
    assert Counter(span.name for span in receiver.spans)["invoke_agent gateway"] == 2
    longest = max(len(str(value)) for span in receiver.spans for value in span.attributes.values())
    assert longest <= 1_000


def answered(telemetry: Telemetry, question: str) -> None:
    trace = telemetry.request({}, "POST", ROUTE)
    trace.begin_answer(Ask("a", trace.trace_id, question, "docs"), generator="g", grader="m", provider="p")
    facts: tuple[Fact, ...] = (
        AttemptBegan(1, None, question),
        DraftStarted(1, 1),
        DraftClosed(1, 1, "released", 1, 1, True, 0.0),
        AttemptEnded(1, "released"),
        Ended("clean", 1),
    )
    for fact in facts:
        trace.note(fact)
    trace.end(200)


WORKERS = """
import anyio, os
from gateway.telemetry import Telemetry
workers = []
for number in range(2):
    child = os.fork()
    if not child:
        telemetry = Telemetry.start(service_version="1", export=True, export_metrics=True)
        for _ in range(25):
            telemetry.request({}, "POST", f"/worker/{number}").end(200)
        anyio.run(telemetry.aclose)
        os._exit(0)
    workers.append(child)
assert [os.waitpid(worker, 0)[1] for worker in workers] == [0, 0]
"""


async def test_f10_each_worker_sends_its_own_spans(receiver: OtlpReceiver) -> None:
    done = await anyio.to_thread.run_sync(
        lambda: subprocess.run(
            [sys.executable, "-c", WORKERS],
            env=dict(os.environ),
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
    )
    assert done.returncode == 0, done.stderr
    assert Counter(span.name for span in receiver.spans) == {"POST /worker/0": 25, "POST /worker/1": 25}
