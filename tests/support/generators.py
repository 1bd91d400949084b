"""Every adapter of the Generator port, for its contract suite. A new adapter is one more case in GENERATORS."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from gateway.bench.messages_api import messages_api
from gateway.providers.claude.client import open_client
from gateway.providers.claude.generator import AnthropicGenerator
from gateway.providers.script import Script
from gateway.providers.scripted import ScriptedGenerator
from gateway.providers.scripted import passage as scripted_passage
from retrieval.passage import Passage
from streaming.ports import Draft, Generator, Piece, Prompt, Text
from tests.support.local import shared_models

READ_LIMIT_S = 0.5  # how long the client of the scripted server bears silence


@dataclass(frozen=True, slots=True)
class GeneratorCase:
    """How to open an adapter, the event loops it runs on, and whether it does what the markers in a question say."""

    name: str
    open: Callable[[Script], AbstractAsyncContextManager[Generator]]
    backends: tuple[str, ...] = ("asyncio", "trio")
    is_scripted: bool = True
    has_read_limit: bool = False

    def __str__(self) -> str:
        return self.name


@asynccontextmanager
async def over_the_messages_api(defaults: Script) -> AsyncIterator[Generator]:
    async with messages_api(defaults) as api:
        client = open_client("a-key", api.base_url, connect_s=5, read_s=READ_LIMIT_S)
        try:
            yield AnthropicGenerator(client, "claude-scripted")
        finally:
            await client.close()


@asynccontextmanager
async def in_process(defaults: Script) -> AsyncIterator[Generator]:
    generator = ScriptedGenerator(defaults)
    yield generator
    assert generator.open_drafts == 0


@asynccontextmanager
async def extractive(_: Script) -> AsyncIterator[Generator]:
    yield shared_models().generator


GENERATORS = [
    GeneratorCase("scripted", in_process),
    GeneratorCase("anthropic", over_the_messages_api, backends=("asyncio",), has_read_limit=True),
    GeneratorCase("extractive", extractive, is_scripted=False),
]


def prompt(question: str, *, numbers: tuple[int, ...] = (1, 2, 3), search: int = 1, max_tokens: int = 1024) -> Prompt:
    """A prompt over scripted passages with these numbers."""
    passages: tuple[tuple[int, Passage], ...] = tuple((n, scripted_passage(n, search)) for n in numbers)
    return Prompt(question, passages, max_tokens=max_tokens)


async def read(draft: Draft) -> list[Piece]:
    """All pieces of a draft, which is closed afterwards, whatever happens."""
    try:
        return [piece async for batch in draft for piece in batch]
    finally:
        await draft.aclose()


async def read_into(pieces: list[Piece], generator: Generator, asked: Prompt) -> None:
    """Adds what a new draft brings to `pieces`, which so keeps what came before a fault."""
    draft = await generator.draft(asked)
    try:
        async for batch in draft:
            pieces += batch
    finally:
        await draft.aclose()


def text_of(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, Text))
