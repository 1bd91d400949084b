"""The README's promises, run: its example against a real gateway over this project's documents, its commands parsed."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from typer.main import get_command

from gateway.cli import cli
from tests.support.clients import ask
from tests.support.gateway_process import gateway_process

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PORT = re.compile(r"127\.0\.0\.1:\d+")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def block_after(words: str) -> str:
    """The fenced block that follows `words`."""
    found = re.search(r"```\w*\n(.*?)```", README[README.index(words) :], re.DOTALL)
    assert found is not None
    return found.group(1)


def shown_events() -> list[tuple[str, dict[str, Any]]]:
    """The events that the README shows, each as its name and data."""
    lines = block_after("What came").splitlines()
    names = [line.removeprefix("event: ") for line in lines[0::2]]
    return list(zip(names, (json.loads(line.removeprefix("data: ")) for line in lines[1::2]), strict=True))


def shown_command() -> list[str]:
    return shlex.split(block_after("Paste the line").replace("\\\n", " "))


def shown_question() -> str:
    words = shown_command()
    assert words[:3] == ["curl", "-N", "http://127.0.0.1:8080/v1/answers"]
    assert words[3:6] == ["-H", "Content-Type: application/json", "-d"]
    body = json.loads(words[6])
    assert list(body) == ["question"]
    return str(body["question"])


def is_shortening(shown: object, real: object) -> bool:
    """Whether `shown` is `real` with nothing but names and items left out."""
    if isinstance(shown, dict) and isinstance(real, dict):
        return all(name in real and is_shortening(value, real[name]) for name, value in shown.items())
    if isinstance(shown, list) and isinstance(real, list):
        return len(shown) <= len(real) and all(map(is_shortening, shown, real))
    return shown == real


def test_a_shortening_leaves_out_and_changes_nothing() -> None:
    real = {"a": [{"n": 1, "t": "x"}, {"n": 2}], "b": 1}
    assert is_shortening({"a": [{"n": 1}]}, real)
    assert not is_shortening({"a": [{"n": 2}]}, real)
    assert not is_shortening({"c": 1}, real)


@pytest.mark.anyio
@pytest.mark.slow
@pytest.mark.timeout(150)
async def test_the_readme_example_answers_as_it_shows(database_url: str, tmp_path: Path) -> None:
    local = {"GATEWAY_PROVIDER": "local", "GATEWAY_RETRIEVER": "postgres", "GATEWAY_DATABASE_URL": database_url}
    async with gateway_process(tmp_path, "--docs", str(ROOT / "docs"), **local) as gateway:
        told = await ask(gateway.base_url, shown_question())
        with anyio.fail_after(10):
            while not any(line.lstrip().startswith("try ") for line in gateway.output):  # noqa: ASYNC110
                await anyio.sleep(0.02)
    came: Iterator[tuple[str, Any]] = iter([(event.event, json.loads(event.data)) for event in told.events])
    for name, data in shown_events():
        if name == "token":  # how the text is cut into tokens is not promised
            assert data["text"] in told.text
            continue
        assert any(name == real_name and is_shortening(data, real) for real_name, real in came), (
            name,
            data,
            told.events,
        )

    start = next(at for at, line in enumerate(gateway.output) if line.startswith("Serving on "))
    assert [at_home(line) for line in gateway.output[start : start + 4]] == [at_home(line) for line in shown_start()]
    pasted = shlex.split(at_home(gateway.output[start + 3]).strip().removeprefix("try"))
    assert pasted == shown_command()


def shown_start() -> list[str]:
    """The lines that the README says a start prints."""
    after = README[README.index("    Serving on ") :].splitlines()
    return [line.removeprefix("    ") for line in after[:4]]


def at_home(line: str) -> str:
    """`line` with the default port, whatever the port was, and no count of documents."""
    return re.sub(r"\d+ documents", "N documents", PORT.sub("127.0.0.1:8080", line)).rstrip()


def test_every_make_target_of_the_readme_exists() -> None:
    named = set(re.findall(r"\bmake ([a-z]+)\b", README)) - {"them"}
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"run", "test"} <= named <= targets


def commands() -> list[str]:
    texts = [README, *(path.read_text() for path in sorted((ROOT / "docs").rglob("*.md")))]
    return [found for text in texts for found in re.findall(r"`(?:\.venv/bin/)?gateway ([^`\n]+)`", text)]


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_every_command_of_the_documents_is_one_that_the_program_takes(line: str) -> None:
    name, *arguments = shlex.split(line)
    group: Any = get_command(cli)
    assert name in group.commands
    if arguments:
        group.commands[name].make_context(name, list(arguments))
    assert len(commands()) > 3


def test_the_picture_asks_nobody_for_anything() -> None:
    from xml.etree import ElementTree

    picture = (ROOT / "docs" / "img" / "flow.svg").read_text()
    ElementTree.fromstring(picture)
    assert set(re.findall(r"https?://[^\s\"')]+", picture)) == {"http://www.w3.org/2000/svg"}
    assert "prefers-color-scheme: dark" in picture
    assert not re.search(r"href|@import|<script|<image", picture)
