"""The decision log in a real database: written behind the answers, bounded, harmless, and what calibration learns from."""

import json
import random
from dataclasses import replace
from datetime import UTC, datetime

import anyio
import httpx2
import psycopg
import pytest
from typer.testing import CliRunner, Result

from gateway import decision_log
from gateway.cli import cli
from gateway.decision_log import DecisionLog, DecisionReader, open_decision_log
from gateway.decisions import Decision, Seen
from gateway.evaluation.calibrations import PostgresCalibrations
from gateway.speculation import Speculation, Terms
from grading.grade import Verdict
from grading.score import FREE_SIGNALS
from retrieval.passage import Passage
from retrieval.pool import Pool, open_pool
from streaming.speculate import Worth
from tests.support.clients import ask
from tests.support.gateway_app import eventually, running, scripted_house
from tests.support.postgres import emptied

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "PAUSE_S", 0.0)


def decision(number: int = 0, verdict: str = "sufficient", grader: str = "model", **more: object) -> Decision:
    made = Decision(
        at=datetime(2026, 11, 30, tzinfo=UTC),
        tenant="default",
        collection="default",
        trace_id=f"{number:032x}",
        question=f"q{number}",
        attempts=1,
        path="clean",
        reason=None,
        first_byte_s=0.5,
        total_s=1.25,
        grounded=None,
        claims=None,
        unsupported=None,
        attempt=1,
        strategy="hybrid",
        generator="writer",
        verdict=verdict,
        grader=grader,
        seen=seen(number, answers=verdict == "sufficient"),
    )
    return replace(made, **more)  # type: ignore[arg-type]


def seen(number: int, *, answers: bool) -> Seen:
    text = f"Bulb {number} goes deep into the soil." if answers else f"Shed {number} was locked at night."
    passage = Passage(f"p{number}", "d", "Garden", text, scores={"cosine": 0.8 if answers else 0.4})
    return Seen(f"How deep does bulb {number} go?", (passage,))


async def count(pool: Pool) -> int:
    async def select(connection: object) -> int:
        rows = await (await connection.execute("SELECT count(*) FROM decision")).fetchone()  # type: ignore[attr-defined]
        return int(rows[0])

    return await pool.run_for("default", select)


async def test_what_is_added_is_written_behind_and_the_rest_at_the_end(database_url: str) -> None:
    async with open_pool(emptied(database_url), size=2) as pool:
        async with open_decision_log(pool, 100) as log:
            log.add((decision(1), decision(2, verdict="partial")))
            with anyio.fail_after(10):
                while await count(pool) < 2:  # noqa: ASYNC110  the database tells nobody
                    await anyio.sleep(0.01)
            log.add((decision(3),))
        assert await count(pool) == 3
        examples = await DecisionReader(pool).verdicts("default")
    assert sorted((each.group, each.sufficient, each.origin) for each in examples) == [
        ("q1", True, "default"),
        ("q2", False, "default"),
        ("q3", True, "default"),
    ]
    assert all(len(each.values) == len(FREE_SIGNALS) for each in examples)


async def test_a_row_from_before_agreement_was_measured_is_still_learnt_from(database_url: str) -> None:
    async with open_pool(emptied(database_url), size=1) as pool:
        async with open_decision_log(pool, 100) as log:
            log.add((decision(1),))
        with psycopg.connect(database_url, autocommit=True) as owner:
            owner.execute("UPDATE decision SET signals = signals - 'agreement'")
        (example,) = await DecisionReader(pool).verdicts("default")
    assert example.values[FREE_SIGNALS.index("agreement")] == 0.5


async def test_every_column_comes_back_as_it_was(database_url: str) -> None:
    row = decision(
        7, need="exact", outcome="released", passages=5, grade_s=0.25, drafts=1, released_tokens=9, exact=False
    )

    async def select(connection: object) -> tuple[object, ...]:
        columns = (
            "at, strategy, need, outcome, passages, grade_s, drafts, released_tokens, exact, signals->>'top_cosine'"
        )
        found = await connection.execute(f"SELECT {columns} FROM decision")  # type: ignore[attr-defined]
        return tuple(await found.fetchone())

    async with open_pool(emptied(database_url), size=1) as pool:
        async with open_decision_log(pool, 100) as log:
            log.add((row,))
        assert await pool.run_for("default", select) == (
            row.at,
            "hybrid",
            "exact",
            "released",
            5,
            0.25,
            1,
            9,
            False,
            "0.8",
        )


async def test_the_oldest_rows_go_when_there_are_more_than_wanted(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_log, "PRUNE_EVERY", 10)
    async with open_pool(emptied(database_url), size=1) as pool:
        log = DecisionLog(pool, 20)
        for start in range(0, 60, 10):
            log.add(tuple(decision(start + n) for n in range(10)))
            await log.flush()
        assert await count(pool) == 20
        newest = await DecisionReader(pool).verdicts("default", limit=3)
    assert [each.group for each in newest] == ["q59", "q58", "q57"]


async def test_a_grader_does_not_learn_from_itself_nor_a_collection_from_another(database_url: str) -> None:
    async with open_pool(emptied(database_url), size=1) as pool:
        async with open_decision_log(pool, 100) as log:
            log.add(
                (decision(1, grader="score"), decision(2, collection="other"), decision(3, tenant="acme"), decision(4))
            )
        assert [each.group for each in await DecisionReader(pool).verdicts("default")] == ["q4"]


async def test_a_database_that_is_away_costs_decisions_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async with open_pool("postgresql://nobody@127.0.0.1:1/none", size=1) as pool, open_decision_log(pool, 100) as log:
        log.add((decision(1),))
        await eventually(lambda: log.dropped, within_s=15)
    assert "1 decisions were not logged" in caplog.text


async def test_no_more_than_so_many_wait(database_url: str) -> None:
    async with open_pool(emptied(database_url), size=1) as pool:
        log = DecisionLog(pool, 100)
        for _ in range(decision_log.WAITING // 100 + 1):
            log.add(tuple(decision(n) for n in range(100)))
        assert log.dropped == 100


async def test_an_error_inside_the_block_comes_out_as_itself(database_url: str) -> None:
    async with open_pool(emptied(database_url), size=1) as pool:
        with pytest.raises(ValueError, match="mine"):
            async with open_decision_log(pool, 100):
                raise ValueError("mine")


async def test_a_served_answer_is_logged_with_what_its_client_saw(database_url: str) -> None:
    async with open_pool(emptied(database_url), size=1) as pool:
        async with open_decision_log(pool, 100) as log:
            house = replace(scripted_house(), decisions=log)
            async with running(house) as gateway, httpx2.AsyncClient() as client:
                question = {"question": 'How? [[verdict=partial,sufficient missing="the year"]]'}
                for stream in (True, False):
                    answer = await client.post(f"{gateway.base_url}/v1/answers", json={**question, "stream": stream})
                    assert answer.status_code == 200

        async def select(connection: object) -> list[tuple[object, ...]]:
            columns = (
                "attempt, attempts, path, verdict, first_byte_s > 0, first_byte_s <= total_s + 1, strategy, outcome"
            )
            found = await connection.execute(f"SELECT {columns} FROM decision ORDER BY id")  # type: ignore[attr-defined]
            return [tuple(row) for row in await found.fetchall()]

        assert (
            await pool.run_for("default", select)
            == [
                (1, 2, "recovered", "partial", True, True, "dense", "discarded"),
                (2, 2, "recovered", "sufficient", True, True, "gap_query", "released"),
            ]
            * 2
        )


def run(*arguments: str, url: str) -> Result:
    env = {"TERM": "dumb", "COLUMNS": "200", "GATEWAY_DATABASE_URL": url}
    return CliRunner().invoke(cli, list(arguments), env=env)


async def test_calibrate_fits_from_the_log_and_stores_what_it_learnt(database_url: str) -> None:
    url = emptied(database_url)
    draw = random.Random(5)
    verdicts = [str(draw.choice([Verdict.SUFFICIENT, Verdict.INSUFFICIENT])) for _ in range(80)]
    async with open_pool(url, size=1) as pool:
        async with open_decision_log(pool, 1_000) as log:
            log.add(tuple(decision(number, verdict) for number, verdict in enumerate(verdicts)))
        result = await anyio.to_thread.run_sync(
            lambda: run("calibrate", "--from-log", "--grader", "score", "--store", url=url)
        )
        assert result.exit_code == 0, result.output
        assert "80 logged verdicts of the collection default" in result.stdout
        model = (await PostgresCalibrations(pool).newest(grader="score"))["default"]
    assert model.cases == 80
    assert model.figures["auc"] > 0.95


async def test_what_a_server_decided_and_what_came_of_it_refits_it_and_is_reported(database_url: str) -> None:
    """Every answer drafts before its verdict and prepares a wider set; every other one needs that."""
    url, worth = emptied(database_url), Worth(1.0, 3e-6, 15e-6, grade_token=1e-6)
    speculation = Speculation("adaptive", Terms(worth), odds=lambda *_: 0.5)
    verdicts = ["sufficient", "insufficient,sufficient"] * 12
    async with (
        open_pool(url, size=2) as pool,
        open_decision_log(pool, 1_000) as log,
        running(replace(scripted_house(), decisions=log, speculation=speculation)) as gateway,
    ):
        for number, verdict in enumerate(verdicts):
            told = await ask(gateway.base_url, f"What is item {number}? [[verdict={verdict}]]")
            assert told.one("done")["attempts"] == 1 + (verdict != "sufficient")
    fitted = await anyio.to_thread.run_sync(
        lambda: run("calibrate", "--from-log", "--grader", "score", "--store", url=url)
    )
    assert fitted.exit_code == 0, fitted.output
    assert "36 logged verdicts" in fitted.stdout
    shown = await anyio.to_thread.run_sync(lambda: run("report", "--json", url=url))
    report = json.loads(shown.stdout)
    assert report["rates"]["speculation hit"] == pytest.approx(24 / 36, abs=1e-4)
    assert (report["ahead"]["looked"], report["ahead"]["needed"]) == (24, 12)
    assert report["ahead"]["saved_s"] > 0
    assert report["tokens"]["discarded"] >= 0
    said = await anyio.to_thread.run_sync(lambda: run("report", url=url))
    assert "24 wider sets prepared, 12 of them beside a set that failed" in said.stdout


def test_what_the_log_cannot_teach_is_said(database_url: str) -> None:
    url = emptied(database_url)
    wrong = run("calibrate", "--from-log", url=url)
    assert (wrong.exit_code, "--grader score" in wrong.stderr) == (2, True)
    both = run("calibrate", "--from-log", "labels.jsonl", url=url)
    assert (both.exit_code, "--from-log" in both.stderr) == (2, True)
    neither = run("calibrate", url=url)
    assert (neither.exit_code, "--from-log" in neither.stderr) == (2, True)
    empty = run("calibrate", "--from-log", "--grader", "score", url=url)
    assert empty.exit_code == 2
    assert empty.stderr == "gateway: no verdict of another grader is logged for the collection default\n"
