"""Every adapter of the Grader port, for its contract suite. A new adapter is one more case in GRADERS."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from gateway.bench.messages_api import messages_api
from gateway.providers.claude.client import open_client
from gateway.providers.claude.grader import AnthropicGrader
from gateway.providers.claude.passages_grader import ModelPassagesGrader
from gateway.providers.script import Script
from gateway.providers.scripted import ScriptedGrader
from gateway.providers.scripted import passage as scripted_passage
from grading.calibrate import default_calibration
from grading.calibrated import CalibratedGrader
from grading.ports import Grader
from grading.score import ScoreGrader
from retrieval.passage import Passage
from tests.support.local import shared_models


@dataclass(frozen=True, slots=True)
class GraderCase:
    """How to open an adapter, the event loops it runs on, and whether it does what the markers in a question say."""

    name: str
    open: Callable[[Script], AbstractAsyncContextManager[Grader]]
    backends: tuple[str, ...] = ("asyncio", "trio")
    is_scripted: bool = True

    def __str__(self) -> str:
        return self.name


@asynccontextmanager
async def over_the_messages_api(defaults: Script) -> AsyncIterator[Grader]:
    async with messages_api(defaults) as api:
        client = open_client("a-key", api.base_url, connect_s=5, read_s=5)
        try:
            yield AnthropicGrader(client, "claude-scripted")
        finally:
            await client.close()


@asynccontextmanager
async def passage_by_passage(defaults: Script) -> AsyncIterator[Grader]:
    async with messages_api(defaults) as api:
        client = open_client("a-key", api.base_url, connect_s=5, read_s=5)
        try:
            yield ModelPassagesGrader(client, "claude-scripted")
        finally:
            await client.close()


@asynccontextmanager
async def in_process(defaults: Script) -> AsyncIterator[Grader]:
    yield ScriptedGrader(defaults)


@asynccontextmanager
async def reader(_: Script) -> AsyncIterator[Grader]:
    yield shared_models().grader


@asynccontextmanager
async def calibrated(_: Script) -> AsyncIterator[Grader]:
    yield CalibratedGrader(shared_models().measure, default_calibration())


@asynccontextmanager
async def score(_: Script) -> AsyncIterator[Grader]:
    yield ScoreGrader(default_calibration("score"))


GRADERS = [
    GraderCase("scripted", in_process),
    GraderCase("anthropic", over_the_messages_api, backends=("asyncio",)),
    GraderCase("model-passages", passage_by_passage, backends=("asyncio",)),
    GraderCase("reader", reader, is_scripted=False),
    GraderCase("calibrated", calibrated, is_scripted=False),
    GraderCase("score", score, is_scripted=False),
]


def passages(count: int = 3, search: int = 1) -> tuple[Passage, ...]:
    return tuple(scripted_passage(n, search) for n in range(1, count + 1))
