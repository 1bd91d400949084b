"""The command line: help, exit codes, errors without tracebacks. Scripted providers, so nothing is loaded and nothing is awaited."""

import io
import json
import os
import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gateway.cli import cli
from gateway.screen import SAMPLE_QUESTION, Screen, sample_question
from retrieval.ingest import Report
from retrieval.store import StoredDocument

runner = CliRunner()

QUICK = "[[retrieve_ms=1 grade_ms=1 ttft_ms=1 tps=5000 tokens=12 cite=6]]"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("GATEWAY_", "ANTHROPIC_", "OTEL_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GATEWAY_PROVIDER", "scripted")
    monkeypatch.setenv("GATEWAY_RETRIEVER", "scripted")
    monkeypatch.setenv("GATEWAY_SCRIPT", QUICK)
    monkeypatch.setenv("GATEWAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return runner.invoke(cli, list(arguments), env={"TERM": "dumb", "COLUMNS": "200"})


@pytest.mark.parametrize("command", ["serve", "ingest", "ask", "migrate"])
def test_help_has_an_example(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "Example" in result.output
    assert f"gateway {command}" in result.output


def test_version_is_shown() -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert result.output.startswith("gateway ")


def test_completion_can_be_installed() -> None:
    assert "--install-completion" in run("--help").output


def test_unknown_command_is_a_usage_error() -> None:
    assert run("srve").exit_code == 2


def test_answer_goes_to_stdout_and_its_story_to_stderr() -> None:
    result = run("ask", "What is it?")
    assert result.exit_code == 0, result.output
    assert "a1d1w0 " in result.stdout
    assert "[1]" in result.stdout
    assert "Search 1" in result.stdout
    assert "retrieving" in result.stderr
    assert "retrieving" not in result.stdout


def test_retry_is_shown() -> None:
    result = run("ask", 'What is it? [[verdict=partial,sufficient missing="the year"]]')
    assert result.exit_code == 0
    assert "↻ attempt 1 was partial, missing: the year" in result.stderr
    assert "a1d1" not in result.stdout


def test_refusal_exits_with_3_and_says_what_was_searched() -> None:
    result = run("ask", "What is it? [[verdict=insufficient]]")
    assert result.exit_code == 3
    assert "does not answer this" in result.stdout
    assert "searched: What is it?" in result.stderr
    assert "unconfirmed" in result.stderr


def test_fault_exits_with_4() -> None:
    result = run("ask", "What is it? [[fault=bad_request]]")
    assert result.exit_code == 4
    assert "failed: " in result.stderr
    assert "Traceback" not in result.output


def test_blank_question_is_a_usage_error() -> None:
    result = run("ask", " \u200b ")
    assert result.exit_code == 2
    assert "must not be blank" in result.stderr


def test_a_misspelt_marker_is_a_usage_error_and_no_fault_of_the_grader() -> None:
    result = run("ask", f"What is it? {QUICK} [[verdict=great]]")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'great' must be one of sufficient, partial, insufficient" in result.stderr


@pytest.mark.parametrize(
    ("sources", "question"),
    [
        (None, SAMPLE_QUESTION),
        (("api.md", "how-it-works.md"), SAMPLE_QUESTION),
        (("bulbs.md",), "What does Bulbs and beds say?"),
        ((), "What is in these documents?"),
    ],
)
def test_the_question_to_begin_with_is_about_the_documents(sources: tuple[str, ...] | None, question: str) -> None:
    now = datetime.now(UTC)
    stored = [StoredDocument("d", each, "Bulbs\nand beds", None, 1, now) for each in sources or ()]
    assert sample_question(None if sources is None else stored) == question


def test_a_folder_with_nothing_to_read_is_said_so() -> None:
    err = io.StringIO()
    Screen(err=err).ingested(Report())
    assert "nothing to answer from" in err.getvalue()


def test_json_is_one_event_per_line() -> None:
    result = run("ask", "--json", "What is it?")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert events[0]["event"] == "started"
    assert events[-1]["event"] == "done"
    assert events[-1]["path"] == "clean"


def test_terminal_obeys_nothing_that_a_question_or_a_document_says() -> None:
    result = run("ask", 'What is it? [[verdict=insufficient missing="\x1b]0;owned\x07\x1b[2J"]]')
    assert "\x1b" not in result.output
    assert "\x07" not in result.output


def test_wrong_setting_is_a_line_and_exit_code_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_PORT", "eighty")
    for command in (["serve"], ["ask", "x"], ["ingest", "."], ["migrate"]):
        result = run(*command)
        assert result.exit_code == 2
        assert result.stderr.startswith("gateway: GATEWAY_PORT: ")
        assert "Traceback" not in result.output


def test_wrong_script_is_a_line_and_not_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_SCRIPT", "[[nonsense=1]]")
    result = run("ask", "x")
    assert result.exit_code == 2
    assert "GATEWAY_SCRIPT" in result.stderr


def test_port_in_use_is_a_line_and_not_a_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "--port", str(port))
    assert result.exit_code == 1
    assert result.stderr == f"gateway: cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_database_that_is_away_is_a_line_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_DATABASE_URL", "postgresql://u:hunter2@127.0.0.1:1/d?connect_timeout=2")
    result = run("migrate")
    assert result.exit_code == 1
    assert result.stderr.startswith("gateway: the database ")
    assert "hunter2" not in result.output
