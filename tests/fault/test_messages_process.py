"""The scripted Messages server as a process of its own, as the bench uses it."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from gateway.providers.claude.client import open_client
from gateway.providers.claude.grader import AnthropicGrader
from grading.grade import Verdict
from tests.support.graders import passages

ROOT = Path(__file__).parents[2]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the SDK's


@pytest.mark.anyio
async def test_it_prints_its_port_logs_what_happens_and_ends_when_told(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    asked = ["--port", "0", "--log", str(log), "--script", "[[grade_ms=1 verdict=partial]]"]
    command = [sys.executable, "-m", "gateway.bench.messages_api", *asked]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220
        try:
            assert process.stdout is not None
            port = int(await anyio.to_thread.run_sync(process.stdout.readline))
            client = open_client("a-key", f"http://127.0.0.1:{port}", connect_s=5, read_s=5)
            grade = await AnthropicGrader(client, "claude-scripted").grade("q", passages())
            await client.close()
            assert grade.verdict is Verdict.PARTIAL
            process.send_signal(signal.SIGTERM)
            assert await anyio.to_thread.run_sync(lambda: process.wait(timeout=20)) == 0
        finally:
            process.kill()
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [line["event"] for line in lines] == ["request", "responded", "finished"]
    assert lines[0]["kind"] == "grader"
    assert lines == sorted(lines, key=lambda line: float(line["t"]))
