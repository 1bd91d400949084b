"""The stage of a bench: the scripted model's service and the gateway, each a process of its own."""

import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from gateway.bench.strategies import Strategy
from gateway.bench.upstream import Moment, Upstream
from gateway.settings import environment_without_settings

START_LIMIT_S = 60.0  # bounds for a busy machine, not expectations
EXIT_LIMIT_S = 10.0
LINE_LIMIT_BYTES = 1_000
ROOT = Path(__file__).resolve().parents[2]


class StageBroken(Exception):
    """Raised when a process of the bench ended, or said nothing, before it served."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What runs: the gateway's port by strategy, and the file of what the model's service saw."""

    ports: Mapping[Strategy, int]
    log: Path

    def upstream(self) -> Upstream:
        """All that the model's service has noted so far."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return Upstream([Moment(**json.loads(line)) for line in lines])


@contextmanager
def workshop() -> Iterator[Path]:
    """A folder for everything that a bench leaves behind, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="gateway-bench-") as folder:
        yield Path(folder)


@asynccontextmanager
async def staged(folder: Path, script: str, **settings: str) -> AsyncIterator[Stage]:
    """Both processes, serving. No setting of this process or folder reaches them. Raises StageBroken."""
    log = folder / "messages.jsonl"
    messages = ["gateway.bench.messages_api", "--log", str(log), "--script", script]
    async with running(messages, folder, {}) as port:
        mine = {
            "GATEWAY_HOME": str(folder / "home"),
            "GATEWAY_RETRIEVER": "scripted",
            "GATEWAY_SCRIPT": script,
            "GATEWAY_PROVIDER": "anthropic",
            "GATEWAY_GRADERS": "model",
            "ANTHROPIC_API_KEY": "bench",
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{int(port)}",
            **settings,
        }
        async with running(["gateway.bench.server"], folder, mine) as ports:
            yield Stage(json.loads(ports), log)


@asynccontextmanager
async def running(module: Sequence[str], folder: Path, settings: Mapping[str, str]) -> AsyncIterator[str]:
    """`python -m` so, inside the block; the first line that it prints. What it has to say of itself goes to standard error."""
    kept = environment_without_settings()
    paths = os.pathsep.join(filter(None, (str(ROOT), kept.get("PYTHONPATH"))))
    command = [sys.executable, "-m", *module]
    environment = {**kept, "PYTHONPATH": paths, **settings}
    async with await anyio.open_process(command, cwd=folder, env=environment, stdin=None, stderr=None) as process:
        try:
            yield await _first_line(process, module[0])
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)


async def _first_line(process: Process, name: str) -> str:
    assert process.stdout is not None
    with anyio.move_on_after(START_LIMIT_S):
        try:
            return (await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", LINE_LIMIT_BYTES)).decode()
        except (anyio.IncompleteRead, anyio.EndOfStream):
            raise StageBroken(f"{name} ended before it served") from None
    raise StageBroken(f"{name} did not serve within {START_LIMIT_S:g} s")


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
        with anyio.move_on_after(EXIT_LIMIT_S):
            await process.wait()
    if process.returncode is None:
        process.kill()
