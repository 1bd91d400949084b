"""The gateway as people run it: a process of its own, `python -m gateway serve`, on a free port."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

START_LIMIT_S = 40.0  # bounds for a busy machine, not expectations
EXIT_LIMIT_S = 30.0
ROOT = Path(__file__).resolve().parents[2]

SCRIPTED = {"GATEWAY_PROVIDER": "scripted", "GATEWAY_RETRIEVER": "scripted"}


class GatewayProcess:
    """A server process; what it prints is in `output`."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.base_url = ""
        self.output: list[str] = []
        self._serving = anyio.Event()
        self._ended = anyio.Event()

    async def read_output(self) -> None:
        """Reads what the process prints until it ends."""
        assert self.process.stdout is not None
        rest = ""
        async for text in TextReceiveStream(self.process.stdout):
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                self.output.append(line)
                if line.startswith("Serving on "):
                    self.base_url = line.removeprefix("Serving on ")
                    self._serving.set()
        self._ended.set()
        self._serving.set()

    async def wait_until_serving(self) -> None:
        with anyio.fail_after(START_LIMIT_S):
            await self._serving.wait()
        if not self.base_url:
            raise AssertionError("the gateway ended before it served:\n" + "\n".join(self.output))

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def exit_code(self) -> int:
        """Waits for the process to end."""
        with anyio.fail_after(EXIT_LIMIT_S):
            code = await self.process.wait()
            await self._ended.wait()
        return code


def environment(home: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without any setting of a gateway, but for `settings`."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GATEWAY_", "ANTHROPIC_", "OTEL_", "XDG_"))
    }
    return {**kept, "HOME": str(home), "GATEWAY_HOME": str(home / "gateway"), "PYTHONUNBUFFERED": "1", **settings}


@asynccontextmanager
async def gateway_process(home: Path, *arguments: str, **settings: str) -> AsyncIterator[GatewayProcess]:
    """A scripted gateway (unless `settings`, environment variables, say otherwise) that serves inside the block."""
    command = [sys.executable, "-m", "gateway", "serve", "--port", "0", *arguments]
    env = environment(home, {**SCRIPTED, **settings})
    async with await anyio.open_process(command, cwd=ROOT, env=env, stdin=None, stderr=-2) as process:
        running = GatewayProcess(process)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(running.read_output)
            try:
                await running.wait_until_serving()
                yield running
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(process)


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
        with anyio.move_on_after(EXIT_LIMIT_S):
            await process.wait()
    if process.returncode is None:
        process.kill()
