"""The commands with real parts: PostgreSQL, the local models, a process of its own."""

import os
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gateway.cli import cli
from tests.support.clients import ask
from tests.support.gateway_process import gateway_process
from tests.support.postgres import emptied

runner = CliRunner()

GATE = """# The gate

## When it opens

The gate opens when the set of passages is graded sufficient. Then the held draft is released to the client.

## When it stays shut

On a bad verdict the draft is discarded, and its upstream request is closed within milliseconds.
"""


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "gate.md").write_text(GATE)
    (folder / "empty.md").write_text("")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing more")
    return folder


@pytest.fixture
def _settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database_url: str) -> None:
    for name in list(os.environ):
        if name.startswith(("GATEWAY_", "ANTHROPIC_", "OTEL_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GATEWAY_DATABASE_URL", emptied(database_url))
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return runner.invoke(cli, list(arguments), env={"TERM": "dumb", "COLUMNS": "200"})


@pytest.mark.usefixtures("_settings")
def test_folder_is_ingested_and_then_answers_a_question(docs: Path) -> None:
    first = run("ingest", str(docs))
    assert first.exit_code == 1  # two of the three cannot be read, and are named
    assert "1 added" in first.stderr
    assert "not read: broken.pdf: " in first.stderr
    assert "not read: empty.md: " in first.stderr
    (docs / "broken.pdf").unlink()
    (docs / "empty.md").unlink()
    again = run("ingest", str(docs))
    assert again.exit_code == 0
    assert "0 added, 0 changed, 1 unchanged" in again.stderr
    answered = run("ask", "When does the gate open?")
    assert answered.exit_code == 0, answered.output
    assert "graded sufficient" in answered.stdout
    assert "[1]" in answered.stdout
    refused = run("ask", "Which year was the lighthouse of Alexandria destroyed?")
    assert refused.exit_code == 3, refused.output


@pytest.mark.usefixtures("_settings")
def test_unknown_collection_and_unknown_path_are_lines_and_not_tracebacks() -> None:
    unknown = run("ask", "When?", "--collection", "nowhere")
    assert unknown.exit_code == 4
    assert unknown.stderr.startswith("gateway: no collection has this name")
    nothing = run("ingest", "/nowhere/at/all")
    assert nothing.exit_code == 1
    assert nothing.stderr.startswith("gateway: there is no file or folder at ")


@pytest.mark.usefixtures("_settings")
def test_migrate_says_when_there_is_nothing_to_do() -> None:
    result = run("migrate")
    assert result.exit_code == 0
    assert result.stdout == "The database is up to date\n"


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_server_process_ingests_serves_quotes_and_stops(tmp_path: Path, docs: Path, database_url: str) -> None:
    settings = {
        "GATEWAY_PROVIDER": "local",
        "GATEWAY_RETRIEVER": "postgres",
        "GATEWAY_DATABASE_URL": emptied(database_url),
    }
    async with gateway_process(tmp_path, "--docs", str(docs), **settings) as gateway:
        told = await ask(gateway.base_url, "When does the gate open?")
        assert told.one("done")["path"] == "clean"
        assert "graded sufficient" in told.text
        assert told.one("sources")["passages"]
        gateway.signal(signal.SIGTERM)
        assert await gateway.exit_code() == 0
    output = "\n".join(gateway.output)
    assert "not read: broken.pdf" in output
    assert "collection  default, 1 document\n" in output
    assert f"curl -N {gateway.base_url}/v1/answers" in output
    assert "extractive" in output
    assert "Traceback" not in output
