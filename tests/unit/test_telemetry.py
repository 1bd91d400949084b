"""Telemetry and the trace of one request, apart from the race."""

import logging
import time
from collections.abc import Mapping

import anyio
import pytest
from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags

from gateway.observing.spans import TEXT_LIMIT
from gateway.telemetry import Telemetry, exports_traces
from gateway.traced import traced
from retrieval.ports import Query
from retrieval.sources import house
from streaming.answer import Parts, answer
from streaming.budget import Limits
from streaming.events import Event, Path
from streaming.facts import AttemptBegan, AttemptEnded, DraftClosed, DraftStarted, Ended
from streaming.speculate import Always
from tests.support.fakes import FakeGenerator, FakeGrader, FakeRetriever, MemoryGaps, passages
from tests.support.span_trees import ROUTE, Recording, ask, attributes, begun, ended
from tests.unit.test_telemetry_trees import ANSWER, GOOD

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def troubles(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    """What was logged as a trouble, in order: the line of each request is none, and is logged where another test has switched it on."""
    return [(record.levelno, record.name) for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.fixture
def recording() -> Recording:
    return Recording()


@pytest.fixture
def telemetry(recording: Recording) -> Telemetry:
    return recording.start()


def test_a_request_continues_the_trace_of_its_caller(telemetry: Telemetry, recording: Recording) -> None:
    trace = telemetry.request({"traceparent": TRACEPARENT}, "POST", ROUTE)
    trace.end(200)

    (span,) = recording.spans
    assert trace.trace_id == "0af7651916cd43dd8448eb211c80319c"
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert span.kind is SpanKind.SERVER


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"traceparent": ""},
        {"traceparent": "nonsense"},
        {"traceparent": "00-" + "0" * 32 + "-b7ad6b7169203331-01"},
        {"traceparent": "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
        {"traceparent": TRACEPARENT.upper().replace("0AF", "0AG")},
        {"traceparent": "\udce4" * 600, "tracestate": "a=\x00"},
    ],
)
def test_a_missing_or_malformed_traceparent_starts_a_trace(
    telemetry: Telemetry, recording: Recording, headers: Mapping[str, str]
) -> None:
    trace = telemetry.request(headers, "POST", ROUTE)
    trace.end(200)

    assert recording.spans[0].parent is None
    assert int(trace.trace_id, 16) > 0


def test_a_span_that_happens_to_be_current_is_not_the_parent(telemetry: Telemetry, recording: Recording) -> None:
    foreign = NonRecordingSpan(SpanContext(7, 7, is_remote=False, trace_flags=TraceFlags(1)))
    with otel.use_span(foreign):
        telemetry.request({}, "POST", ROUTE).end(200)

    assert recording.spans[0].parent is None


def test_an_unsampled_caller_keeps_its_trace_id_and_records_nothing(telemetry: Telemetry, recording: Recording) -> None:
    trace = telemetry.request({"traceparent": TRACEPARENT[:-1] + "0"}, "POST", ROUTE)
    trace.end(200)

    assert trace.trace_id == "0af7651916cd43dd8448eb211c80319c"
    assert recording.spans == []


def test_without_anyone_to_tell_trace_ids_are_real_and_nothing_is_recorded() -> None:
    telemetry = Telemetry.start(service_version="1", export=False)
    traces = [telemetry.request({}, "POST", ROUTE) for _ in range(100)]

    assert len({trace.trace_id for trace in traces}) == 100
    assert all(len(trace.trace_id) == 32 and int(trace.trace_id, 16) for trace in traces)
    assert not traces[0]._root._span.is_recording()


def test_trace_ids_are_real_also_where_opentelemetry_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    telemetry = Telemetry.start(service_version="1", export=False)
    traces = [telemetry.request({}, "POST", ROUTE) for _ in range(10)]
    for trace in traces:
        trace.begin_answer(ask(), generator="g", grader="r", provider="p")
        trace.end(200)

    assert len({trace.trace_id for trace in traces if int(trace.trace_id, 16)}) == 10


def test_no_global_provider_is_set_and_two_apps_keep_their_spans_apart() -> None:
    before = otel.get_tracer_provider()
    one, other = Recording(), Recording()
    first, second = one.start(), other.start()
    first.request({}, "POST", "/first").end(200)
    second.request({}, "POST", "/second").end(200)

    assert otel.get_tracer_provider() is before
    assert [span.name for span in one.spans] == ["POST /first"]
    assert [span.name for span in other.spans] == ["POST /second"]


def test_the_environment_names_the_service_and_we_do_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    def resource() -> dict[str, object]:
        recording = Recording()
        recording.start().request({}, "POST", ROUTE).end(200)
        return dict(recording.spans[0].resource.attributes)

    assert resource().items() >= {"service.name": "optimistic-gateway", "service.version": "1"}.items()
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    assert resource().items() >= {"service.name": "mine", "deployment.environment": "test"}.items()


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "  "}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://collector:4318/v1/metrics"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "True"}, False),
    ],
)
def test_spans_are_exported_where_an_endpoint_is_set_and_nothing_is_switched_off(
    environ: dict[str, str], wanted: bool
) -> None:
    assert exports_traces(environ) is wanted


@pytest.mark.parametrize(
    ("status", "outcome", "is_error"),
    [
        (200, "ok", False),
        (204, "ok", False),
        (422, "rejected", False),
        (429, "rejected", False),
        (503, "failed", True),
        (None, "client_gone", False),
    ],
)
def test_a_request_without_an_answer_ends_as_its_status_says(
    telemetry: Telemetry, recording: Recording, status: int | None, outcome: str, is_error: bool
) -> None:
    telemetry.request({}, "POST", ROUTE).end(status)

    (span,) = recording.spans
    assert attributes(span)["gateway.outcome"] == outcome
    assert attributes(span).get("http.response.status_code") == status
    assert (span.status.status_code is StatusCode.ERROR) is is_error
    assert attributes(span).get("error.type") == ("503" if is_error else None)


def test_an_answer_that_never_told_its_end_was_abandoned(telemetry: Telemetry, recording: Recording) -> None:
    trace = telemetry.request({}, "POST", ROUTE)
    trace.begin_answer(ask(), generator="g", grader="r", provider="p")
    trace.note(AttemptBegan(1, None, "q"))
    trace.end(None)

    recording.assert_sound()
    assert recording.tree() == (
        "POST /v1/answers client_gone\n"
        "  invoke_agent gateway client_gone\n"
        "    attempt client_gone\n"
        "  failure_path client_gone"
    )


def test_what_comes_after_the_end_changes_nothing(
    telemetry: Telemetry, recording: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    trace = telemetry.request({}, "POST", ROUTE)
    trace.begin_answer(ask(), generator="g", grader="r", provider="p")
    trace.note(Ended("clean", 0))
    trace.end(200)
    trace.end(500)
    trace.begin_answer(ask(), generator="g", grader="r", provider="p")
    trace.note(AttemptBegan(2, None, "q"))
    trace.first_answer_byte()
    with trace.retrieval(Query("q")) as span:
        span.set({"late": True})

    assert recording.tree() == "POST /v1/answers released\n  invoke_agent gateway released"
    assert troubles(caplog) == []


def test_time_to_first_token_is_when_its_first_byte_is_handed_over(telemetry: Telemetry, recording: Recording) -> None:
    before = time.perf_counter()
    trace = telemetry.request({}, "POST", ROUTE)
    opened = time.perf_counter()
    trace.begin_answer(ask(), generator="g", grader="r", provider="p")
    time.sleep(0.02)
    earliest = time.perf_counter() - opened
    trace.first_answer_byte()
    latest = time.perf_counter() - before
    time.sleep(0.02)
    trace.first_answer_byte()
    trace.note(Ended("recovered", 2))
    trace.end(200)

    for name in ("POST /v1/answers", "failure_path"):
        delivered = attributes(recording.named(name)[0])["gateway.ttft_delivered_s"]
        assert isinstance(delivered, float)
        assert earliest <= delivered <= latest


def test_an_odd_method_is_counted_under_one_name(telemetry: Telemetry, recording: Recording) -> None:
    telemetry.request({}, "BREW", ROUTE, path="/v1/answers/7").end(405)

    (span,) = recording.spans
    assert span.name == "HTTP /v1/answers"
    assert attributes(span).items() >= {"http.request.method": "_OTHER", "url.path": "/v1/answers/7"}.items()


def test_lone_surrogates_and_endless_names_neither_break_nor_swell_an_export(
    telemetry: Telemetry, recording: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    trace = telemetry.request({}, "POST", ROUTE, path="/\ud83d")
    trace.begin_answer(ask(collection="\ud83d"), generator="g\udc00" * 10_000, grader="r", provider="p")
    with trace.retrieval(Query("q", collection="\ud83d" * 10_000)):
        pass
    trace.end(200)

    assert len(encode_spans(recording.spans).SerializeToString()) < 4_000
    assert troubles(caplog) == []
    for span in recording.spans:
        texts = [span.name, *(value for value in attributes(span).values() if isinstance(value, str))]
        assert all(len(text) <= TEXT_LIMIT and text.encode("utf-8") for text in texts)


class Saboteur(SpanProcessor):
    """Fails at everything it is told."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        raise RuntimeError("start")

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("end")

    def shutdown(self) -> None:
        raise RuntimeError("shutdown")


@pytest.mark.anyio
async def test_telemetry_that_fails_costs_one_line_in_the_log_and_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry.start(service_version="1", export=False, processors=(Saboteur(),))
    paths: list[Path] = []
    for _ in range(3):
        trace = telemetry.request({}, "POST", ROUTE)
        trace.begin_answer(ask(), generator="g", grader="r", provider="p")
        parts = Parts(
            house(FakeRetriever([(0, passages(2))])),
            None,
            FakeGrader([(0, GOOD)]),
            FakeGenerator([ANSWER]),
            Always(),
            MemoryGaps(),
        )

        async def emit(events: tuple[Event, ...]) -> None:
            await anyio.lowlevel.checkpoint()

        paths.append(await answer(ask(), traced(parts, trace), Limits(), emit, trace))
        trace.end(200)
    await telemetry.aclose()

    assert paths == [Path.CLEAN] * 3
    assert troubles(caplog) == [(logging.ERROR, "gateway.observing.spans")]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("variable", "value"), [("OTEL_BSP_SCHEDULE_DELAY", "-1"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "100000")]
)
async def test_an_export_that_cannot_be_set_up_is_logged_and_left_out(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv(variable, value)
    telemetry = Telemetry.start(service_version="1", export=True)
    trace = telemetry.request({}, "POST", ROUTE)
    trace.end(200)
    await telemetry.aclose()

    assert int(trace.trace_id, 16)
    assert "no spans are exported" in caplog.text


@pytest.mark.anyio
async def test_closing_twice_is_closing_once(telemetry: Telemetry, caplog: pytest.LogCaptureFixture) -> None:
    await telemetry.aclose()
    await telemetry.aclose()

    assert troubles(caplog) == []


def test_a_draft_whose_fate_is_told_late_ends_when_its_upstream_was_over(
    telemetry: Telemetry, recording: Recording
) -> None:
    trace = telemetry.request({}, "POST", ROUTE)
    trace.begin_answer(ask(), generator="g", grader="r", provider="p")
    trace.note(AttemptBegan(1, None, "q"))
    trace.note(DraftStarted(1, 1))
    time.sleep(0.05)
    trace.note(DraftClosed(1, 1, "discarded", 0, 0, exact=True, close_s=0.0, closed_ago_s=0.03))
    trace.note(AttemptEnded(1, "discarded"))
    trace.note(DraftStarted(1, 2))
    trace.note(DraftClosed(1, 2, "released", 0, 0, exact=True, close_s=0.0, closed_ago_s=99.0))
    trace.end(200)

    recording.assert_sound()
    late, impossible = recording.named("chat g")
    attempt = recording.named("attempt")[0]
    assert ended(attempt) - ended(late) >= 0.02e9
    assert ended(impossible) == begun(impossible)
