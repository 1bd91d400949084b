"""Every adapter of the Verifier port, for its contract suite. A new adapter is one more case in VERIFIERS."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from gateway.bench.messages_api import MessagesApi, messages_api
from gateway.providers.claude.client import open_client
from gateway.providers.claude.verifier import AnthropicVerifier
from gateway.providers.local.verifier import LocalVerifier, ReaderMeasure
from gateway.providers.script import Script
from gateway.providers.scripted import ScriptedVerifier
from grading.calibrate import default_calibration
from grading.ports import Verifier
from tests.support.local import shared_models


@dataclass(frozen=True, slots=True)
class VerifierCase:
    """How to open an adapter, the event loops it runs on, and whether it does what the markers in a question say."""

    name: str
    open: Callable[[Script], AbstractAsyncContextManager[Verifier]]
    backends: tuple[str, ...] = ("asyncio", "trio")
    is_scripted: bool = True

    def __str__(self) -> str:
        return self.name


@asynccontextmanager
async def claude(defaults: Script) -> AsyncIterator[tuple[AnthropicVerifier, MessagesApi]]:
    async with messages_api(defaults) as api:
        client = open_client("a-key", api.base_url, connect_s=5, read_s=5)
        try:
            yield AnthropicVerifier(client, "claude-scripted"), api
        finally:
            await client.close()


@asynccontextmanager
async def over_the_messages_api(defaults: Script) -> AsyncIterator[Verifier]:
    async with claude(defaults) as (verifier, _):
        yield verifier


@asynccontextmanager
async def in_process(defaults: Script) -> AsyncIterator[Verifier]:
    yield ScriptedVerifier(defaults)


@asynccontextmanager
async def local(_: Script) -> AsyncIterator[Verifier]:
    yield LocalVerifier(ReaderMeasure(shared_models().grader), default_calibration("sentence"))


VERIFIERS = [
    VerifierCase("scripted", in_process),
    VerifierCase("anthropic", over_the_messages_api, backends=("asyncio",)),
    VerifierCase("local", local, is_scripted=False),
]
