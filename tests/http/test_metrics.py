"""Metrics over real sockets: what clients went through is what `/metrics` says. FIELD_REPORTS F1, F6."""

import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping

import anyio
import pytest

from gateway.observing.openmetrics import OPENMETRICS, parsed
from tests.support.clients import ask, client
from tests.support.gateway_app import Running, eventually, running, scripted_house
from tests.support.raw_client import read_until, request_bytes

pytestmark = pytest.mark.anyio

CLEAN = "Is it?"
RECOVERED = "Is it? [[verdict=partial,sufficient]]"
REFUSED = "Is it? [[verdict=insufficient]]"
FAILED = "Is it? [[fault=bad_request]]"

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
async def server() -> AsyncIterator[Running]:
    async with running(scripted_house()) as server:
        yield server


async def text_of(server: Running, accept: str = OPENMETRICS) -> str:
    async with client(server.base_url) as http:
        response = await http.get("/metrics", headers={"accept": accept})
    assert response.status_code == 200
    return response.text


async def samples(server: Running) -> Samples:
    return {(name, frozenset(labels.items())): value for name, labels, value in parsed(await text_of(server))}


def of(found: Samples, name: str, **labels: str) -> float:
    return found.get((name, frozenset(labels.items())), 0)


async def counted(server: Running, answers: int) -> Samples:
    """The samples, once so many answers are over: a client has its last byte a moment before that."""

    async def total() -> float:
        found = await samples(server)
        return sum(v for (name, _), v in found.items() if name == "gateway_answer_duration_seconds_count")

    with anyio.fail_after(10):
        while await total() < answers:  # noqa: ASYNC110  what is waited for tells nobody
            await anyio.sleep(0.01)
    return await samples(server)


async def test_each_path_is_counted_by_its_name(server: Running) -> None:
    for question in (CLEAN, RECOVERED, REFUSED, FAILED):
        await ask(server.base_url, question)
    found = await counted(server, 4)
    for path in ("clean", "recovered", "refused", "failed"):
        assert of(found, "gateway_answer_duration_seconds_count", path=path) == 1, path
    assert of(found, "gateway_verdicts_total", verdict="sufficient", grader="model") >= 2
    assert of(found, "gateway_corrections_total", strategy="gap_query", result="released") == 1
    assert of(found, "gateway_refusals_total", reason="insufficient_evidence") == 1
    assert of(found, "gateway_failures_total", type="generator_misconfigured") == 1
    assert of(found, "gateway_speculations_total", decision="now", use="hit") >= 2
    assert of(found, "gateway_speculations_total", decision="now", use="miss") >= 1
    assert of(found, "gateway_answers_open") == 0


async def test_answer_without_a_token_is_in_a_counter_and_not_among_the_first_bytes(server: Running) -> None:
    await ask(server.base_url, REFUSED)
    await ask(server.base_url, CLEAN)
    found = await counted(server, 2)
    assert of(found, "gateway_answer_first_byte_seconds_count", path="clean") == 1
    assert of(found, "gateway_answer_first_byte_seconds_count", path="refused") == 0
    assert of(found, "gateway_answer_duration_seconds_count", path="refused") == 1


async def test_first_byte_is_when_the_client_gets_it_and_the_models_first_token_is_its_own_metric(
    server: Running,
) -> None:
    await ask(server.base_url, "Is it? [[grade_ms=350 ttft_ms=1]]")
    found = await counted(server, 1)
    assert of(found, "gateway_answer_first_byte_seconds_bucket", path="clean", le="0.3") == 0
    assert of(found, "gateway_answer_first_byte_seconds_count", path="clean") == 1
    assert of(found, "gateway_draft_first_token_seconds_sum", path="clean") < of(
        found, "gateway_answer_first_byte_seconds_sum", path="clean"
    )


async def test_stream_is_not_among_the_http_durations_and_what_is_turned_away_is(server: Running) -> None:
    await ask(server.base_url, CLEAN)
    async with client(server.base_url) as http:
        await http.post("/v1/answers", json={"question": ""})
    await eventually(lambda: True)
    found = await counted(server, 1)
    routes = {labels for name, labels in found if name == "http_server_request_duration_seconds_count"}
    assert routes == {frozenset({("http_route", "/v1/answers"), ("http_response_status_code", "4xx")})}


async def test_exemplar_names_the_trace_that_the_client_was_told(server: Running) -> None:
    told = await ask(server.base_url, CLEAN)
    await counted(server, 1)
    lines = (await text_of(server)).splitlines()
    (bucket,) = [line for line in lines if line.startswith("gateway_answer_duration_seconds_bucket") and " # " in line]
    assert f'trace_id="{told.one("started")["trace_id"]}"' in bucket
    assert bucket in (await text_of(server)).splitlines(), "who asks second is shown it too"


async def test_older_format_has_no_exemplars_and_is_what_a_plain_client_gets(server: Running) -> None:
    await ask(server.base_url, CLEAN)
    await counted(server, 1)
    text = await text_of(server, accept="text/plain")
    assert " # " not in text
    assert "# EOF" not in text
    assert "# TYPE gateway_verdicts_total counter" in text


async def test_client_that_leaves_is_counted_at_its_stage_and_held_text_is_seen_meanwhile(server: Running) -> None:
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        await stream.send(request_bytes("Is it? [[grade_ms=60000 ttft_ms=1 tokens=40]]"))
        await read_until(stream, b'"grading"')
        with anyio.fail_after(10):
            while not of(await samples(server), "gateway_held_bytes"):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        found = await samples(server)
        assert of(found, "gateway_answers_open") == 1
        assert 0 < of(found, "gateway_grader_lag_seconds") < 60
    found = await counted(server, 1)
    assert of(found, "gateway_client_leaves_total", stage="grading") == 1
    assert of(found, "gateway_held_bytes") == 0
    assert of(found, "gateway_grader_lag_seconds") == 0


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
async def test_promtool_finds_nothing_wrong_with_the_text(server: Running) -> None:
    for question in (CLEAN, RECOVERED, REFUSED, FAILED):
        await ask(server.base_url, question)
    await counted(server, 4)
    text = await text_of(server, accept="text/plain")
    command = ["promtool", "check", "metrics", "--extended"]
    done = await anyio.to_thread.run_sync(
        lambda: subprocess.run(command, input=text, capture_output=True, text=True, timeout=30, check=False)
    )
    assert done.returncode == 0, done.stdout + done.stderr


async def test_what_never_happened_is_written_at_zero_so_that_its_first_time_is_an_increase(server: Running) -> None:
    before = await samples(server)
    refusals = ("gateway_refusals_total", frozenset({("reason", "insufficient_evidence")}))
    durations = ("gateway_answer_duration_seconds_bucket", frozenset({("path", "refused"), ("le", "+Inf")}))
    assert (before[refusals], before[durations]) == (0, 0)
    await ask(server.base_url, REFUSED)
    after = await counted(server, 1)
    assert (after[refusals], after[durations]) == (1, 1)
    assert after.keys() >= before.keys()
