"""Every adapter of the Rewriter port, for its contract suite. A new adapter is one more case in REWRITERS."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from gateway.bench.messages_api import MessagesApi, messages_api
from gateway.providers.claude.client import open_client
from gateway.providers.claude.rewriter import AnthropicRewriter
from gateway.providers.local.rewriter import LocalRewriter
from gateway.providers.script import Script
from gateway.providers.scripted import ScriptedRewriter
from grading.ports import Rewriter


@dataclass(frozen=True, slots=True)
class RewriterCase:
    """How to open an adapter, the event loops it runs on, and whether it does what the markers in a question say."""

    name: str
    open: Callable[[Script], AbstractAsyncContextManager[Rewriter]]
    backends: tuple[str, ...] = ("asyncio", "trio")
    is_scripted: bool = True

    def __str__(self) -> str:
        return self.name


@asynccontextmanager
async def claude(defaults: Script) -> AsyncIterator[tuple[AnthropicRewriter, MessagesApi]]:
    async with messages_api(defaults) as api:
        client = open_client("a-key", api.base_url, connect_s=5, read_s=5)
        try:
            yield AnthropicRewriter(client, "claude-scripted"), api
        finally:
            await client.close()


@asynccontextmanager
async def over_the_messages_api(defaults: Script) -> AsyncIterator[Rewriter]:
    async with claude(defaults) as (rewriter, _):
        yield rewriter


@asynccontextmanager
async def in_process(defaults: Script) -> AsyncIterator[Rewriter]:
    yield ScriptedRewriter(defaults)


@asynccontextmanager
async def local(_: Script) -> AsyncIterator[Rewriter]:
    yield LocalRewriter()


REWRITERS = [
    RewriterCase("scripted", in_process),
    RewriterCase("anthropic", over_the_messages_api, backends=("asyncio",)),
    RewriterCase("local", local, is_scripted=False),
]
