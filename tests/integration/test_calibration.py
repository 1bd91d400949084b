"""Calibrations in a real database, the two commands as a person runs them, and the graders that a server builds from both."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest
from typer.testing import CliRunner, Result

from gateway.cli import cli
from gateway.evaluation.calibrations import PostgresCalibrations
from gateway.graders import BY_A_SERVICE, Available, GraderName, grader_of, graders_of
from grading.calibrate import Calibration, default_calibration
from grading.calibrated import CalibratedGrader
from grading.cascade import Cascade
from grading.grade import Grade, Verdict
from grading.score import ScoreGrader
from retrieval.passage import Passage
from retrieval.pool import open_pool
from tests.support.local import shared_models
from tests.support.postgres import emptied

pytestmark = pytest.mark.anyio

runner = CliRunner()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def run(*arguments: str, url: str | None = None) -> Result:
    env = {"TERM": "dumb", "COLUMNS": "200"} | ({"GATEWAY_DATABASE_URL": url} if url else {})
    return runner.invoke(cli, list(arguments), env=env)


def labels(folder: Path, count: int = 24) -> Path:
    """Sets that hold the answer and sets that are about something else."""
    draw = random.Random(3)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        depth, answers = draw.randint(3, 40), number % 2 == 0
        text = (
            f"Bulb number {number} goes {depth} centimetres deep." if answers else f"Shed {number} was locked at night."
        )
        passage = {"id": f"p{number}", "text": text}
        question = f"How deep does bulb number {number} go?"
        verdict = "sufficient" if answers else "insufficient"
        rows.append(
            {
                "id": f"c{number}",
                "question_id": f"q{number}",
                "question": question,
                "passages": [passage],
                "verdict": verdict,
            }
        )
    file = folder / "labels.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


async def test_every_version_is_kept_and_the_newest_counts(database_url: str) -> None:
    shipped = default_calibration()
    async with open_pool(emptied(database_url), size=1) as pool:
        stored = PostgresCalibrations(pool)
        assert await stored.newest(grader="calibrated") == {}
        await stored.save(shipped, "docs", grader="calibrated")
        await stored.save(shipped.at_cost(2), "docs", grader="calibrated")
        await stored.save(shipped.at_cost(3), "other", grader="calibrated", tenant="acme")
        assert await stored.newest(grader="calibrated") == {"docs": shipped.at_cost(2)}
        assert await stored.newest(grader="score") == {}
        versions = [each.version for each in await stored.versions("docs", grader="calibrated")]
    assert versions == [shipped.at_cost(2).version, shipped.version]


def test_a_collection_with_a_calibration_of_its_own_has_a_grader_of_its_own() -> None:
    own = default_calibration("score").at_cost(1)
    available = Available(calibrations={"score": {"docs": own}})
    graders = graders_of(("score",), available, 10.0)
    assert list(graders) == ["docs"]
    assert isinstance(graders["docs"], ScoreGrader)
    assert graders["docs"].calibration == own
    everyone = grader_of(("score",), available, 10.0)
    assert isinstance(everyone, ScoreGrader)
    assert everyone.calibration == default_calibration("score")


class Model:
    def __init__(self, name: str = "model") -> None:
        self.name = name

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:
        return Grade(Verdict.SUFFICIENT, relevant=(1,), grader=self.name)


def test_several_graders_are_a_cascade_within_the_time_of_one_grade() -> None:
    sure = {name: {"docs": replace(default_calibration(name), low=0.1, high=0.9)} for name in ("score", "calibrated")}
    available = Available(shared_models(), {"model": Model()}, sure)
    grader = grader_of(("score", "calibrated", "model"), available, 10.0, "docs")
    assert isinstance(grader, Cascade)
    assert [rung.grader.name for rung in grader.rungs] == ["score", "calibrated", "model"]
    assert [(rung.low, rung.high) for rung in grader.rungs[:2]] == [(0.1, 0.9)] * 2
    assert isinstance(grader.rungs[1].grader, CalibratedGrader)


@pytest.mark.parametrize("name", get_args(GraderName))
def test_every_name_that_the_setting_knows_is_a_grader_by_itself(name: GraderName) -> None:
    available = Available(shared_models(), {each: Model(each) for each in BY_A_SERVICE})
    own = {"cross-encoder": "reader"}
    assert grader_of((name,), available, 10.0).name == own.get(name, name)


def test_a_grader_that_can_be_sure_of_nothing_is_not_asked_before_another() -> None:
    assert (default_calibration("score").low, default_calibration("score").high) == (0.0, 1.0)
    available = Available(shared_models(), {"model": Model()})
    assert isinstance(grader_of(("score", "model"), available, 10.0), Model)
    assert isinstance(grader_of(("model", "score"), available, 10.0), Cascade)
    assert isinstance(grader_of(("score",), available, 10.0), ScoreGrader)


def test_calibrate_fits_shows_draws_and_stores(tmp_path: Path, database_url: str) -> None:
    url = emptied(database_url)
    out, picture = tmp_path / "c.json", tmp_path / "curve.png"
    found = run(
        "calibrate", str(labels(tmp_path)), "--collection", "bulbs", "--out", str(out), "--picture", str(picture), "--store",
        "--cache", str(tmp_path / "m.jsonl"), url=url,
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    for words in ("AUC", "released", "true", "Threshold: sufficient from p = 0.833", "Borderline band"):
        assert words in found.stdout
    assert "Stored for the collection bulbs" in found.stderr
    model = Calibration.from_json(out.read_text())
    assert model.data == "labels (24 cases)"
    assert model.figures["auc"] == 1.0
    assert picture.read_bytes().startswith(b"\x89PNG")

    again = run(
        "eval",
        "sufficiency",
        str(tmp_path / "labels.jsonl"),
        "--calibration",
        str(out),
        "--json",
        "--cache",
        str(tmp_path / "m.jsonl"),
    )
    assert again.exit_code == 0, again.output
    told = json.loads(again.stdout)
    assert (told["auc"], told["cases"], told["calibration"]) == (1.0, 24, model.version)
    assert told["mode"].startswith("out of fold")  # it was fitted on this very file

    shipped = run("eval", "sufficiency", str(tmp_path / "labels.jsonl"), "--json", "--cache", str(tmp_path / "m.jsonl"))
    assert json.loads(shipped.stdout)["mode"] == "as fitted"


def test_what_calibrate_stored_is_found_by_a_server(tmp_path: Path, database_url: str) -> None:
    url = emptied(database_url)
    found = run("calibrate", str(labels(tmp_path)), "--grader", "score", "--collection", "bulbs", "--store", url=url)
    assert found.exit_code == 0, found.output
    assert list(anyio.run(newest_scores, url)) == ["bulbs"]


async def newest_scores(url: str) -> dict[str, Calibration]:
    async with open_pool(url, size=1) as pool:
        return await PostgresCalibrations(pool).newest(grader="score")


def test_figures_are_the_same_each_time_and_json_alone_is_on_standard_output(tmp_path: Path) -> None:
    file = str(labels(tmp_path))
    first, second = (run("eval", "sufficiency", file, "--grader", "score", "--json") for _ in range(2))
    assert first.exit_code == 0, first.output
    assert first.stdout == second.stdout
    assert json.loads(first.stdout)["grader"] == "score"
    table = run("eval", "sufficiency", file, "--grader", "score", "--cross-validate")
    assert "out of fold" in table.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("eval", "sufficiency", "nowhere.jsonl"), 2, "nowhere.jsonl"),
        (("eval", "grounding", "nowhere.jsonl"), 2, "nowhere.jsonl"),
        (("calibrate", "nowhere.jsonl"), 2, "nowhere.jsonl"),
        (("eval", "sufficiency", "README.md"), 2, "not JSON"),
        (("eval", "sufficiency", "x.jsonl", "--calibration", "README.md"), 2, "x.jsonl"),
        (
            ("eval", "grounding", "x.jsonl", "--model", "pyproject.toml"),
            2,
            "pyproject.toml: this is no model of support",
        ),
    ],
)
def test_what_cannot_be_read_is_named_without_a_traceback(arguments: tuple[str, ...], code: int, why: str) -> None:
    found = run(*arguments)
    assert found.exit_code == code, found.output
    assert why in found.stderr
    assert "Traceback" not in found.output


def test_too_few_labels_are_said_so(tmp_path: Path) -> None:
    found = run("calibrate", str(labels(tmp_path, 2)), "--grader", "score")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "2 labelled cases are too few to fit on: 1 sufficient (questions: 1), 1 not sufficient" in found.stderr


def test_calibrate_prints_one_json_object_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "c.json"
    found = run("calibrate", str(labels(tmp_path)), "--grader", "score", "--json", "--out", str(out))
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    assert (told["kind"], told["cases"], told["calibration"]) == (
        "calibration",
        24,
        json.loads(out.read_text())["version"],
    )
    assert told["threshold"] == pytest.approx(5 / 6)
    assert told["sets"]["labels"]["confusion"].keys() >= {"released", "refused"}
    assert sum(part["count"] for part in told["reliability"]) == 24
    assert found.stderr == f"Written to {out}\n"


def test_a_cache_that_is_something_else_is_refused_and_left(tmp_path: Path) -> None:
    file = labels(tmp_path)
    before = file.read_bytes()
    found = run("calibrate", str(file), "--cache", str(file))
    assert (found.exit_code, found.stdout) == (2, "")
    assert (
        found.stderr
        == f"gateway: {file} is no cache of measures: line 1 is something else; nothing was written to it\n"
    )
    assert file.read_bytes() == before
