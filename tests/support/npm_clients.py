"""The clients that come from npm: one Node.js process, asked one scenario after the other (tests/clients/clients.mjs)."""

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.support.installed import CLIENTS

ANSWER_LIMIT_S = 20.0  # a bound for a busy machine
LINE_LIMIT_BYTES = 1_000_000


class NpmClients:
    """The process, and what it says."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._lines = BufferedByteReceiveStream(process.stdout)

    async def ask(self, base_url: str, client: str, scenario: str, question: str) -> dict[str, Any]:
        """What `client` saw of the answer to `question`."""
        asked = {"url": base_url, "client": client, "scenario": scenario, "question": question}
        await self._stdin.send(json.dumps(asked).encode() + b"\n")
        with anyio.fail_after(ANSWER_LIMIT_S):
            seen: dict[str, Any] = json.loads(await self._lines.receive_until(b"\n", LINE_LIMIT_BYTES))
        return seen


@asynccontextmanager
async def npm_clients(packages: Path, folder: Path) -> AsyncIterator[NpmClients]:
    """The clients, run in the empty `folder` with what is installed in `packages`; the process ends with the block."""
    (folder / "node_modules").symlink_to(packages / "node_modules")
    script = shutil.copy(CLIENTS / "clients.mjs", folder)  # Node.js looks for packages beside the script
    async with await anyio.open_process(["node", script], stderr=None) as process:
        try:
            yield NpmClients(process)
        finally:
            assert process.stdin is not None
            await process.stdin.aclose()
            with anyio.move_on_after(5, shield=True) as waiting:
                await process.wait()
            if waiting.cancelled_caught:
                process.kill()
