"""Metrics apart from HTTP: closed labels, the moments of an answer, the text, the names behind the switch, the request log."""

import io
import json
import logging
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.decisions import Folding
from gateway.observing import metric_names, request_log
from gateway.observing.answer_moments import Moments
from gateway.observing.metric_names import BUCKETS_S, Stage, chosen
from gateway.observing.metrics import Metrics
from gateway.observing.openmetrics import MetricsText, parsed
from gateway.observing.request_log import JsonLines, log_to
from gateway.telemetry import Telemetry, exports_metrics
from grading.faults import GraderUnavailable
from grading.grade import Grade, Verdict
from retrieval.faults import RetrievalUnavailable
from retrieval.ports import Query
from streaming.ask import Ask
from streaming.facts import (
    AttemptBegan,
    AttemptEnded,
    DraftClosed,
    DraftStarted,
    Ended,
    Fact,
    Judged,
    Released,
    Retrieved,
    SpeculationDecided,
)

ASK = Ask("a1", "t1", "why?", "docs")
CLEAN: tuple[Fact, ...] = (
    AttemptBegan(1, None, "why?"),
    Retrieved(1, 5, 0.02),
    SpeculationDecided(1, 0.0, "always", None),
    DraftStarted(1, 1),
    Judged(1, Grade(Verdict.SUFFICIENT, grader="reader"), 0.25),
    Released(1, 100),
    DraftClosed(1, 1, "released", 10, 60, True, 0.0, 0.0, 0.3),
    AttemptEnded(1, "released"),
    Ended("clean", 1),
)


def text_of(metrics: Metrics) -> str:
    return MetricsText().written(metrics.collect(), openmetrics=True)


def answered(telemetry: Telemetry, facts: tuple[Fact, ...]) -> None:
    trace = telemetry.request({}, "POST", "/v1/answers")
    trace.begin_answer(ASK, generator="g", grader="m", provider="p")
    for fact in facts:
        trace.note(fact)
    trace.end(200)


def hostile(number: int) -> tuple[Fact, ...]:
    """An answer whose every name is one that nobody knows."""
    word = f"new-{number}"
    return (
        AttemptBegan(1, None, word),
        AttemptBegan(2, word, word),
        Retrieved(2, 1, 0.1, duplicates=1, conflicts=1),
        SpeculationDecided(2, 0.5, word, None),
        Judged(2, Grade(Verdict.PARTIAL, grader=word), 0.1, fault=word),
        DraftClosed(2, 1, word, 1, 1, False, 0.1, 0.0, 0.1),
        AttemptEnded(2, word),
        Ended(word, 2, word),
    )


def test_no_name_that_comes_from_outside_makes_a_series() -> None:
    telemetry = Telemetry.start(service_version="test", export=False, metric_names="both")
    for number in range(60):
        answered(telemetry, hostile(number))
        answered(telemetry, (Ended("refused", 0, f"r{number}"),))
        answered(telemetry, (Ended("failed", 0, f"f{number}"),))
        telemetry.request({}, "POST", "/v1/answers").end(400 + number)
        telemetry.request({}, "GET", f"/{number}").end(200)
    text = text_of(telemetry.metrics)
    assert "new-" not in text
    limits = {metric.exposed: metric.series_limit for metric in chosen("both")}
    seen: dict[str, set[tuple[tuple[str, str], ...]]] = {}
    for name, labels, _ in parsed(text):
        family = next(each for each in sorted(limits, key=len, reverse=True) if name.startswith(each))
        seen.setdefault(family, set()).add(tuple(sorted((k, v) for k, v in labels.items() if k != "le")))
    assert all(len(series) <= limits[family] for family, series in seen.items())
    assert {family: len(series) for family, series in seen.items()}["gateway_answer_duration_seconds"] == 3
    assert sum(len(series) for series in seen.values()) < 40


def test_all_the_series_that_can_ever_be_are_few() -> None:
    assert sum(metric.samples_limit for metric in chosen("both")) < 7_000


def test_buckets_are_seconds_from_a_twentieth_to_a_minute() -> None:
    assert BUCKETS_S[0] == 0.05
    assert BUCKETS_S[-1] == 60
    assert list(BUCKETS_S) == sorted(set(BUCKETS_S))
    telemetry = Telemetry.start(service_version="test", export=False)
    answered(telemetry, CLEAN)
    bounds = [
        labels["le"]
        for name, labels, _ in parsed(text_of(telemetry.metrics))
        if name == "gateway_answer_duration_seconds_bucket"
    ]
    assert bounds == [*(repr(float(bound)) for bound in BUCKETS_S), "+Inf"]


@pytest.mark.parametrize(
    ("names", "has", "has_not"),
    [
        ("new", "gen_ai_client_operation_time_to_first_chunk_seconds", "gen_ai_server_time_to_first_token_seconds"),
        ("old", "gen_ai_server_time_to_first_token_seconds", "gen_ai_client_operation_time_to_first_chunk_seconds"),
    ],
)
def test_old_and_new_names_are_behind_a_switch(names: metric_names.Names, has: str, has_not: str) -> None:
    telemetry = Telemetry.start(service_version="test", export=False, metric_names=names)
    answered(telemetry, CLEAN)
    text = text_of(telemetry.metrics)
    assert f"{has}_count" in text
    assert has_not not in text


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        ("new", {"gen_ai_provider_name": "p"}),
        ("old", {"gen_ai_system": "p"}),
        ("both", {"gen_ai_provider_name": "p", "gen_ai_system": "p"}),
    ],
)
def test_provider_of_a_call_has_the_name_that_is_asked_for(names: metric_names.Names, labels: dict[str, str]) -> None:
    telemetry = Telemetry.start(service_version="test", export=False, metric_names=names)
    answered(telemetry, CLEAN)
    found = [
        labels for name, labels, _ in parsed(text_of(telemetry.metrics)) if name == "gen_ai_client_token_usage_count"
    ]
    expected = {"gen_ai_operation_name": "chat", **dict.fromkeys(labels, "other")}  # "p" is nobody's name
    assert found == [{**expected, "gen_ai_token_type": kind} for kind in ("input", "output")]


def test_calls_and_statements_are_counted_by_the_conventions_of_opentelemetry() -> None:
    telemetry = Telemetry.start(service_version="test", export=False)
    trace = telemetry.request({}, "POST", "/v1/answers")
    trace.begin_answer(ASK, generator="g", grader="m", provider="anthropic")
    for fact in CLEAN[:4]:
        trace.note(fact)
    with trace.retrieval(Query("why?")) as search:
        for fault in (None, RetrievalUnavailable("gone"), OSError("odd")):
            with suppress(Exception), trace.statement(search):
                if fault is not None:
                    raise fault
    with trace.grading(5, "calibrated"):
        pass
    with trace.grading(5) as graded:
        graded.use(900, 40)
    with suppress(GraderUnavailable), trace.grading(5):
        raise GraderUnavailable("busy")
    for fact in CLEAN[4:]:
        trace.note(fact)
    trace.end(200)

    found = {(name, frozenset(labels.items())): value for name, labels, value in parsed(text_of(telemetry.metrics))}

    def of(name: str, **labels: str) -> float:
        return found.get((name, frozenset(labels.items())), 0)

    database = {"db_system_name": "postgresql", "db_operation_name": "SELECT", "db_collection_name": "passage"}
    of_the_database = "db_client_operation_duration_seconds_count"
    assert of(of_the_database, **database) == 1
    assert of(of_the_database, **database, error_type="retrieval_unavailable") == 1
    assert of(of_the_database, **database, error_type="other") == 1
    chat = {"gen_ai_operation_name": "chat", "gen_ai_provider_name": "anthropic"}
    here = {**chat, "gen_ai_provider_name": "local"}
    assert of("gen_ai_client_operation_duration_seconds_count", **chat) == 2, "the draft, and a grade"
    assert of("gen_ai_client_operation_duration_seconds_count", **chat, error_type="grader_unavailable") == 1
    assert of("gen_ai_client_operation_duration_seconds_count", **here) == 1
    assert of("gen_ai_client_operation_time_to_first_chunk_seconds_sum", **chat) == pytest.approx(0.3)
    assert of("gen_ai_client_token_usage_sum", **chat, gen_ai_token_type="input") == 10 + 900
    assert of("gen_ai_client_token_usage_sum", **chat, gen_ai_token_type="output") == 60 + 40
    assert of("gen_ai_client_token_usage_bucket", **chat, gen_ai_token_type="input", le="1024.0") == 2


def test_tokens_that_are_only_estimated_are_not_said_to_be_used() -> None:
    telemetry = Telemetry.start(service_version="test", export=False)
    guessed = DraftClosed(1, 1, "released", 10, 60, False, 0.0, 0.0, 0.3)
    answered(telemetry, (*CLEAN[:6], guessed, *CLEAN[7:]))
    text = text_of(telemetry.metrics)
    assert "gen_ai_client_operation_duration_seconds_count" in text
    assert "gen_ai_client_token_usage" not in text


def test_an_answer_is_counted_with_tokens_and_times() -> None:
    telemetry = Telemetry.start(service_version="test", export=False)
    answered(telemetry, CLEAN)
    found = {name: value for name, labels, value in parsed(text_of(telemetry.metrics)) if "le" not in labels}
    assert found["gateway_tokens_total"] == 60
    assert found["gateway_grade_duration_seconds_sum"] == 0.25
    assert found["gateway_draft_first_token_seconds_sum"] == pytest.approx(0.3)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_verdict_to_release_is_between_the_two_and_the_wait_for_a_grade_ends_with_it() -> None:
    clock = Clock()
    moments = Moments(clock)
    moments.note(CLEAN[0])
    assert (moments.stage, moments.waiting_s()) == (Stage.RETRIEVING, 0)
    moments.note(CLEAN[1])
    clock.now = 2.0
    moments.hold(50)
    assert (moments.stage, moments.waiting_s(), moments.held_bytes) == (Stage.GRADING, 2.0, 50)
    moments.note(CLEAN[4])
    clock.now = 2.5
    moments.note(CLEAN[5])
    moments.hold(50)
    assert (moments.stage, moments.waiting_s(), moments.held_bytes) == (Stage.GENERATING, 0, 0)
    assert moments.releases_s == [0.5]


def test_collector_gets_metrics_only_where_one_is_set() -> None:
    assert not exports_metrics({})
    assert exports_metrics({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"})
    assert exports_metrics({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c"})
    assert not exports_metrics({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"})
    assert not exports_metrics({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_METRICS_EXPORTER": "none"})


def test_a_broken_instrument_changes_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry.start(service_version="test", export=False)
    telemetry.metrics.count = None  # type: ignore[method-assign,assignment]
    answered(telemetry, CLEAN)
    answered(telemetry, CLEAN)
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 1
    assert "gateway_answers_open 0" in text_of(telemetry.metrics)


def test_request_log_is_one_line_of_json_without_a_word_of_anyone() -> None:
    folding = Folding(replace(ASK, question="a secret"), "g")
    for fact in CLEAN:
        folding.note(fact)
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    request_log.log.addHandler(handler)
    request_log.log.setLevel(logging.INFO)
    try:
        request_log.tell(
            trace_id="t1",
            method="POST",
            route="/v1/answers",
            status=200,
            total_s=1.23456,
            answer=folding.decisions(0.5),
        )
    finally:
        request_log.log.removeHandler(handler)
        request_log.log.setLevel(logging.NOTSET)
    (line,) = stream.getvalue().splitlines()
    told = json.loads(line)
    assert told["trace_id"] == "t1"
    assert (told["path"], told["first_byte_s"], told["total_s"], told["verdicts"]) == (
        "clean",
        0.5,
        1.2346,
        ["sufficient"],
    )
    assert (told["released_tokens"], told["discarded_tokens"]) == (60, 0)
    assert "secret" not in line
    assert "why" not in line


def test_what_a_person_watches_is_no_json(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    made: list[logging.Handler] = []
    monkeypatch.setattr(logging, "basicConfig", lambda **given: made.extend(given["handlers"]))
    before = logging.getLogger("gateway").level
    try:
        for stream, log_format in (
            (Terminal(), "auto"),
            (io.StringIO(), "auto"),
            (Terminal(), "json"),
            (io.StringIO(), "text"),
        ):
            log_to(stream, log_format)  # type: ignore[arg-type]
    finally:
        logging.getLogger("gateway").setLevel(before)
    assert [isinstance(handler.formatter, JsonLines) for handler in made] == [False, True, True, False]


def test_every_metric_is_described_with_its_labels_and_no_other_is() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "tracing.md").read_text()
    section = text.split("## Metrics\n")[1].split("\n## ")[0]
    described = dict(re.findall(r"^\| `(\w+)` \| (.*?) \| .+ \|$", section, re.MULTILINE))
    described.pop(metric_names.HTTP_OLD.exposed, None)
    written = {
        metric.exposed + ("_total" if metric.kind is metric_names.Kind.COUNTER else ""): ", ".join(
            f"`{label.replace('.', '_')}`" for label in metric.labels
        )
        or "–"
        for metric in chosen("new")
    }
    assert {name: labels for name, labels in described.items() if name in written} == written
    for metric in metric_names.BY_NAMES["both"]:
        assert f"`{metric.exposed}`" in section
