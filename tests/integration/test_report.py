"""The report of one and the same run, from the decision log in a real database and from the gateway's own metrics."""

import json
import time
from dataclasses import replace
from math import inf

import anyio
import pytest
from anyio import to_thread
from typer.testing import CliRunner, Result

from gateway import decision_log
from gateway.cli import cli
from gateway.decision_log import open_decision_log
from gateway.observing.metric_names import BUCKETS_S, POOL
from gateway.observing.openmetrics import MetricsText
from gateway.telemetry import Telemetry
from retrieval.pool import open_pool
from tests.support.clients import ask
from tests.support.gateway_app import eventually, running, scripted_house
from tests.support.postgres import emptied

pytestmark = pytest.mark.anyio

QUESTIONS = (
    *["Is it? [[grade_ms=20]]"] * 8,
    "Is it? [[verdict=partial,sufficient grade_ms=60 ttft_ms=80]]",
    "Is it? [[verdict=insufficient grade_ms=40]]",
    "Is it? [[fault=bad_request]]",
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def reported(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["report", "--json", *arguments], env={"GATEWAY_DATABASE_URL": url})


def bucket_of(value_s: float) -> tuple[float, float]:
    """The bounds of the bucket that a percentile was estimated in."""
    bounds = (0.0, *BUCKETS_S, inf)
    place = next(n for n, bound in enumerate(bounds) if value_s <= bound)
    return bounds[place - 1], bounds[place]


async def test_log_metrics_and_clients_agree(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "PAUSE_S", 0.0)
    totals: dict[str, list[float]] = {}
    async with (
        open_pool(emptied(database_url), size=2) as pool,
        open_decision_log(pool, 1_000) as log,
        running(replace(scripted_house(), decisions=log)) as server,
    ):
        for question in QUESTIONS:
            began = time.perf_counter()
            told = await ask(server.base_url, question)
            totals.setdefault(told.one("done")["path"], []).append(time.perf_counter() - began)
        await eventually(lambda: not server.house.telemetry.metrics.open_answers)
        by_metrics = await to_thread.run_sync(lambda: reported(database_url, "--gateway", server.base_url))
    by_log = await anyio.to_thread.run_sync(lambda: reported(database_url))
    assert by_metrics.exit_code == by_log.exit_code == 0, by_metrics.output + by_log.output
    metrics, rows = json.loads(by_metrics.output), json.loads(by_log.output)
    answers = {"clean": 8, "recovered": 1, "refused": 1, "failed": 1, "abandoned": 0}
    assert metrics["answers"] == rows["answers"] == answers
    for rate, value in rows["rates"].items():
        assert metrics["rates"][rate] == pytest.approx(value, abs=1e-3), rate
    assert metrics["strategies"] == rows["strategies"]
    assert metrics["refusals"] == rows["refusals"]
    assert metrics["tokens"] == rows["tokens"]
    assert "ahead" not in metrics
    assert (
        0 < rows["ahead"]["saved_s"] <= 9 * 0.08
    )  # a released draft saves no more than its grade took, nor than its first token
    assert (rows["ahead"]["looked"], rows["ahead"]["needed"]) == (0, 0)  # whoever drafts always does not look ahead
    for path, times in totals.items():  # the log's time is inside the request's, which is inside the client's
        by_metrics_s, by_log_s = (found["seconds"]["total"][path]["p99"] for found in (metrics, rows))
        lower, upper = bucket_of(by_metrics_s)
        assert by_log_s <= upper, path
        assert lower <= max(times), path


async def test_connections_that_are_lent_are_a_gauge(database_url: str) -> None:
    telemetry = Telemetry.start(service_version="test", export=False)
    async with open_pool(database_url, size=3) as pool:
        telemetry.metrics.observe(POOL, pool.usage)

        async def look(connection: object) -> str:
            return MetricsText().written(telemetry.metrics.collect(), openmetrics=False)

        lent = await pool.run(look)
    assert 'gateway_pool_connections{state="used"} 1' in lent
    assert 'gateway_pool_connections{state="idle"} 2' in lent


def test_report_of_an_empty_log_is_a_report(database_url: str) -> None:
    found = CliRunner().invoke(cli, ["report"], env={"GATEWAY_DATABASE_URL": emptied(database_url)})
    assert found.exit_code == 0, found.output
    assert "0 answers" in found.output
