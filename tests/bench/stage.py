"""The stage of a bench: the scripted Messages API and the gateway, each a process of its own, over a small ingested collection."""

import json
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from gateway.bench.upstream import Moment, Upstream
from tests.support.gateway_process import ROOT, GatewayProcess, gateway_process

START_LIMIT_S = 20.0
EXIT_LIMIT_S = 5.0
DOCUMENTS = 30
SECTIONS = 2
SUBJECTS: tuple[str, ...] = (
    "harbour",
    "lighthouse",
    "orchard",
    "railway",
    "glacier",
    "vineyard",
    "observatory",
    "aqueduct",
    "windmill",
)
SUBJECTS += ("library", "quarry", "greenhouse", "monastery", "shipyard", "bakery", "museum", "fortress", "sawmill")
ASPECTS: tuple[str, ...] = (
    "opening hours",
    "the keeper",
    "repairs",
    "visitors",
    "the roof",
    "winter stores",
    "tolls",
    "the founding",
)
ASPECTS += ("water supply", "tools")
WORDS: tuple[str, ...] = (
    "stone",
    "copper",
    "ledger",
    "morning",
    "tariff",
    "winter",
    "bridge",
    "keeper",
    "signal",
    "barrel",
    "timber",
)
WORDS += ("market", "season", "record", "slate", "lantern", "gate", "valley", "harvest", "wagon", "council", "repair")
WORDS += ("measure", "iron", "flood", "notice", "inspector", "rope", "canvas", "chimney", "south", "granary")


@dataclass(frozen=True, slots=True)
class Stage:
    """What runs: the gateway, the process id of the Messages server and the file of its log."""

    gateway: GatewayProcess
    messages_pid: int
    log: Path

    def upstream(self) -> Upstream:
        """All that the Messages server has noted so far."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return Upstream([Moment(**json.loads(line)) for line in lines])


@contextmanager
def workshop() -> Iterator[Path]:
    """A folder for everything that a bench leaves behind, removed at the end. Run by root, Postgres' own account must get in."""
    with tempfile.TemporaryDirectory(prefix="gw-bench-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@asynccontextmanager
async def staged(folder: Path, script: str, **settings: str) -> AsyncIterator[Stage]:
    """Both processes, serving; the gateway with Claude as provider, its address being the Messages server's."""
    write_documents(folder / "documents")
    log = folder / "messages.jsonl"
    async with (
        messages_process(script, log) as (pid, base_url),
        gateway_process(
            folder,
            "--docs",
            str(folder / "documents"),
            **{
                "GATEWAY_PROVIDER": "anthropic",
                "GATEWAY_RETRIEVER": "postgres",
                "GATEWAY_GRADERS": "model",  # the scripted upstream grades: what is timed is the gateway, not this machine's models
                "ANTHROPIC_API_KEY": "bench",
                "ANTHROPIC_BASE_URL": base_url,
                **settings,
            },
        ) as gateway,
    ):
        yield Stage(gateway, pid, log)


@asynccontextmanager
async def messages_process(script: str, log: Path) -> AsyncIterator[tuple[int, str]]:
    """The scripted Messages API as a process: its id and address."""
    command = [sys.executable, "-m", "gateway.bench.messages_api", "--log", str(log), "--script", script]
    async with await anyio.open_process(command, cwd=ROOT, stdin=None, stderr=None) as process:
        try:
            assert process.stdout is not None
            with anyio.fail_after(START_LIMIT_S):
                port = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 100)
            yield process.pid, f"http://127.0.0.1:{int(port)}"
        finally:
            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    process.terminate()
                with anyio.move_on_after(EXIT_LIMIT_S):
                    await process.wait()
                if process.returncode is None:
                    process.kill()


def write_documents(folder: Path, seed: int = 7) -> None:
    """A collection of prose that nobody has to read: the same one every time."""
    chance = random.Random(seed)
    folder.mkdir()
    for number in range(DOCUMENTS):
        subject = SUBJECTS[number % len(SUBJECTS)]
        lines = [f"# The {subject} of district {number}", ""]
        for aspect in chance.sample(ASPECTS, SECTIONS):
            lines += [f"## About {aspect}", "", paragraph(subject, aspect, chance), ""]
        (folder / f"{subject}-{number}.md").write_text("\n".join(lines), encoding="utf-8")


def paragraph(subject: str, aspect: str, chance: random.Random) -> str:
    """Six sentences of about fifteen words."""
    sentences = [f"The {subject} and {aspect} are described here."]
    sentences += [f"The {' '.join(chance.choices(WORDS, k=14))}." for _ in range(5)]
    return " ".join(sentences)


def topic(number: int) -> str:
    """What question `number` asks, in words that the collection knows."""
    return f"What is said of {ASPECTS[number % len(ASPECTS)]} of the {SUBJECTS[number * 7 % len(SUBJECTS)]}"
