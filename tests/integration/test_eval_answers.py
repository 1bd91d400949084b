"""`gateway eval answers` as a person runs it: the whole loop over a small corpus, a real database and the local models."""

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from gateway.cli import cli
from tests.support.postgres import emptied

CORPUS = [
    ("tulips", "Tulips", "Tulip bulbs are planted in October. The bulbs go fifteen centimetres deep."),
    ("roses", "Roses", "Roses need six hours of sun a day. They are pruned in March."),
    ("ferns", "Ferns", "Ferns grow in shade. Most of them like wet soil."),
]
QUESTIONS: list[dict[str, Any]] = [
    {"id": "1", "question": "How deep do tulip bulbs go?", "evidence": ["tulips"], "answerable": True, "answers": ["fifteen centimetres"]},
    {"id": "2", "question": "When are roses pruned?", "evidence": ["roses"], "answerable": True, "answers": ["March"]},
    {"id": "3", "question": "Who was the first king of Norway?", "evidence": [], "answerable": False},
    {"id": "4", "question": "And now?", "evidence": [], "answerable": None},
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("garden")
    rows = [{"id": name, "title": title, "text": text, "metadata": {}} for name, title, text in CORPUS]
    (made / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (made / "questions.jsonl").write_text("\n".join(map(json.dumps, QUESTIONS)))
    return made


def run(url: str, *arguments: object) -> Result:
    env = {"TERM": "dumb", "COLUMNS": "200", "GATEWAY_DATABASE_URL": url, "GATEWAY_PROVIDER": "local"}
    return CliRunner().invoke(cli, ["eval", "answers", *map(str, arguments)], env=env)


def test_the_loop_is_measured_as_one_json_object_beside_a_picture(
    database_url: str, folder: Path, tmp_path: Path
) -> None:
    url = emptied(database_url)
    picture = tmp_path / "answers.png"
    found = run(url, folder, "--json", "--picture", picture)
    assert found.exit_code == 0, found.stderr
    told = json.loads(found.stdout)
    assert (told["kind"], told["questions"]) == ("answers", 3)
    assert told["answerable_answered"] == told["says_the_answer"] == told["evidence_at_first"] == 1
    assert told["unanswerable_released"] == told["failed"] == 0
    assert told["abstention_on_unanswerable"] == 1
    own = told["sets"][folder.name]
    assert own["intervals"]["answerable_answered"] == [1, 1]
    assert (
        sum(each["unanswerable"] for each in own["strategies"].values()) == 1
    )  # what was refused had been corrected first
    assert picture.read_bytes().startswith(b"\x89PNG")
    with psycopg.connect(database_url) as connection:  # who owns the tables sees every tenant's rows
        assert connection.execute("SELECT count(*) FROM coverage_gap").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM passage").fetchone() == (3,)


def test_questions_alone_are_asked_of_a_stored_collection(database_url: str, folder: Path, tmp_path: Path) -> None:
    url = emptied(database_url)
    (tmp_path / "tulips.md").write_text(f"# {CORPUS[0][1]}\n\n{CORPUS[0][2]}\n")
    env = {"GATEWAY_DATABASE_URL": url, "GATEWAY_PROVIDER": "local"}
    stored = CliRunner().invoke(cli, ["ingest", str(tmp_path / "tulips.md"), "--collection", "garden"], env=env)
    assert stored.exit_code == 0, stored.stderr
    found = run(url, folder / "questions.jsonl", "--collection", "garden", "--questions", "2")
    assert found.exit_code == 0, found.stderr
    assert "1 / 1" in found.stdout
    assert "answerable, answered" in found.stdout
    wrong = run(url, folder / "questions.jsonl", "--collection", "gardn")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert 'gateway: no collection "gardn"; there are: garden\n' in wrong.stderr


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("questions.jsonl", "{", "questions.jsonl:1: not JSON"),
        ("questions.jsonl", json.dumps({"id": "1", "question": "Why?", "evidence": ["nowhere"]}), "is not in corpus.jsonl"),
        ("questions.jsonl", json.dumps({"id": "1", "question": "Why?"}), "no question says whether it is answerable"),
        ("questions.jsonl", json.dumps({"id": "1"}), "questions.jsonl:1: `question` is missing"),
        ("questions.jsonl", json.dumps({"id": "1", "question": "Why?", "answerable": "no"}), "must be true or false"),
        ("corpus.jsonl", "", "holds no passage"),
    ],
)  # fmt: skip
def test_a_bad_file_is_named_before_anything_starts(
    folder: Path, tmp_path: Path, file: str, line: str, said: str
) -> None:
    for name in ("corpus.jsonl", "questions.jsonl"):
        (tmp_path / name).write_text(line if name == file else (folder / name).read_text())
    found = run("postgresql://nowhere.invalid/", tmp_path)
    assert found.exit_code == 2
    assert said in found.stderr
    assert found.stdout == ""


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    found = run("postgresql://nowhere.invalid/", tmp_path / "gone")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "gone" in found.stderr
