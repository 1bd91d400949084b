"""`gateway gaps` over a real database: what refusals left behind, listed, shown and exported."""

import json
import os
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from typer.testing import CliRunner, Result

from gateway.cli import cli
from gateway.gaps import PostgresGaps
from retrieval.pool import open_pool
from streaming.ports import Gap
from tests.support.embedders import HashingEmbedder
from tests.support.postgres import emptied

GAP = Gap(
    "Why?", "the\x1b[31m reason", "insufficient_evidence", ("Why?", "Why? the reason"), 2, "default", "default", "a1"
)
SCHEMA = ["id", "question", "answerable", "answers", "evidence", "kind", "source"]

runner = CliRunner()


def run(*arguments: str) -> Result:
    return runner.invoke(cli, ["gaps", *arguments], env={"TERM": "dumb", "COLUMNS": "200"})


@pytest.fixture
def ids(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database_url: str) -> list[str]:
    """Three gaps in a database that the commands are set to; two of them are one question."""
    for name in list(os.environ):
        if name.startswith(("GATEWAY_", "ANTHROPIC_", "OTEL_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GATEWAY_DATABASE_URL", emptied(database_url))
    monkeypatch.chdir(tmp_path)

    async def record() -> list[str]:
        async with open_pool(database_url, size=1) as pool:
            kept = PostgresGaps(pool, HashingEmbedder())
            handbook = replace(GAP, question="Who\npays?", collection="handbook")
            return [str(await kept.record(gap)) for gap in (GAP, handbook, replace(GAP, question="why?"))]

    return anyio.run(record)


def test_gaps_are_listed_newest_first_one_line_each(ids: list[str]) -> None:
    first, second = run("list").stdout.splitlines()
    assert first.startswith(f"{ids[0]}     2x  ")
    assert first.endswith("  Why?")
    assert second.startswith(f"{ids[1]}     1x  ")
    assert second.endswith("  Who pays?")
    assert len(run("list", "--limit", "1").stdout.splitlines()) == 1
    assert run("list", "--collection", "handbook").stdout.splitlines() == [second]
    assert run("list", "--limit", "0").exit_code == 2
    none = run("list", "--collection", "nosuch")
    assert (none.exit_code, none.stdout, none.stderr) == (0, "", "no gaps are recorded\n")


def test_a_gap_is_shown_with_its_repeats(ids: list[str]) -> None:
    result = run("show", ids[2])
    assert result.exit_code == 0
    assert result.stdout.index(f"{ids[0]}: Why?") < result.stdout.index(ids[2])
    assert "asked       2 times" in result.stdout
    assert "insufficient_evidence after 2 attempts, missing: the[31m reason" in result.stdout
    assert "searched: Why?; Why? the reason" in result.stdout
    assert "\x1b" not in result.stdout


def test_a_gap_that_is_none_is_a_line_and_an_exit_code(ids: list[str]) -> None:
    result = run("show", "gap_none\x1b")
    assert (result.exit_code, result.stderr) == (1, "gateway: there is no gap gap_none\n")


def test_an_export_has_the_fields_of_a_golden_set_in_their_order(ids: list[str], tmp_path: Path) -> None:
    lines = [json.loads(line) for line in run("export").stdout.splitlines()]
    assert [list(line) for line in lines] == [SCHEMA, SCHEMA]
    assert lines[0] == {
        "id": ids[0],
        "question": "Why?",
        "answerable": None,
        "answers": [],
        "evidence": [],
        "kind": "insufficient_evidence",
        "source": "gap",
    }
    written = run("export", "--collection", "handbook", "--out", "out.jsonl")
    assert (written.stdout, written.stderr) == ("", "1 gaps written to out.jsonl\n")
    assert json.loads((tmp_path / "out.jsonl").read_text())["question"] == "Who\npays?"


def test_the_fields_are_those_of_the_shared_sets() -> None:
    shared = Path(__file__).resolve().parents[3] / "shared" / "data" / "multihop" / "questions.jsonl"
    if not shared.exists():
        pytest.skip("the shared evaluation data is not here")
    assert set(SCHEMA) < set(json.loads(shared.read_text().splitlines()[0]))
