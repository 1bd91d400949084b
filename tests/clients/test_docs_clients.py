"""The code of docs/clients.md, run as it stands but for the address."""

import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from tests.support import installed
from tests.support.gateway_app import Running, running, scripted_house

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).resolve().parents[2] / "docs" / "clients.md"
ADDRESS = "http://127.0.0.1:8080"
RUN_LIMIT_S = 30.0
WORDS = 12  # of the scripted answer

# httpx-sse and this page say httpx; installed is its next version, httpx2 (tests/support/clients.py).
PYTHON_PREAMBLE = "import sys, httpx2; sys.modules['httpx'] = httpx2\n"
BROWSER_PREAMBLE = (
    "globalThis.window = { setTimeout, clearTimeout, fetch }\n"
    "globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} }\n"
)


def blocks() -> list[tuple[str, str, str]]:
    """(heading, kind, code) of every block that can be run."""
    found = []
    for section in PAGE.read_text().split("\n## ")[1:]:
        heading = section.partition("\n")[0]
        for kind, code in re.findall(r"```(python|js browser|js)\n(.*?)```", section, re.DOTALL):
            found.append((heading, kind, code))
    return found


@pytest.fixture
async def server() -> AsyncIterator[Running]:
    async with running(scripted_house()) as started:
        yield started


def command(kind: str, code: str, folder: Path) -> list[str]:
    """How the code is run in `folder`."""
    if kind == "python":
        script = folder / "client.py"
        script.write_text(PYTHON_PREAMBLE + code)
        return [sys.executable, str(script)]
    (folder / "node_modules").symlink_to(installed.npm_clients() / "node_modules")
    (folder / "before.mjs").write_text(BROWSER_PREAMBLE if "browser" in kind else "")
    script = folder / "client.mjs"
    script.write_text("import './before.mjs'\n" + code)
    return ["node", str(script)]


@pytest.mark.parametrize(("heading", "kind", "code"), blocks(), ids=[heading for heading, _, _ in blocks()])
async def test_code_of_the_page_prints_the_answer(
    heading: str, kind: str, code: str, server: Running, tmp_path: Path
) -> None:
    assert ADDRESS in code
    run = command(kind, code.replace(ADDRESS, server.base_url), tmp_path)
    environment = {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    with anyio.fail_after(RUN_LIMIT_S):
        ended = await anyio.run_process(run, env=environment, check=False)
    assert (ended.returncode, ended.stderr.decode()) == (0, "")
    assert re.findall(r"a1d1w(\d+)", ended.stdout.decode()) == [str(n) for n in range(WORDS)]


def test_every_client_of_the_page_has_code_that_is_run() -> None:
    assert [heading for heading, _, _ in blocks()] == [
        "openai, Python",
        "openai, Node.js",
        "AI SDK, streamText",
        "httpx-sse",
        "sseclient-py",
        "eventsource",
        "@microsoft/fetch-event-source",
    ]
