"""From the OpenAI SDK to the model's service: a profile asks its own models, and stop closes what is open there."""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import openai
import pytest

from gateway.bench.messages_api import MessagesApi, messages_api
from gateway.providers.script import Script
from gateway.settings import read_settings
from gateway.wiring import wired
from tests.support.gateway_app import running

pytestmark = pytest.mark.anyio

TABLE = '[[profiles]]\nname = "deep"\ngenerator_model = "deep-writer"\ngrader_model = "deep-judge"\n'


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the scripted service's


@dataclass(frozen=True, slots=True)
class Chain:
    client: openai.AsyncOpenAI
    upstream: MessagesApi


@pytest.fixture
async def chain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Chain]:
    """The SDK, a gateway as it is wired by its settings, and the scripted service of its models."""
    for name in list(os.environ):
        if name.startswith(("GATEWAY_", "ANTHROPIC_", "OTEL_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gateway.toml").write_text(TABLE)
    async with messages_api(Script.parse("[[ttft_ms=5 grade_ms=5 tps=2000 tokens=12]]")) as upstream:
        settings = read_settings(
            retriever="scripted",
            speculate="always",
            graders=("model",),
            generator_model="usual-writer",
            grader_model="usual-judge",
            anthropic_api_key="a-key",
            anthropic_base_url=upstream.base_url,
        )
        async with wired(settings) as built, running(built.house) as server:
            http = httpx2.AsyncClient(trust_env=False, verify=False)
            async with openai.AsyncOpenAI(
                base_url=f"{server.base_url}/v1", api_key="any", http_client=http, max_retries=0
            ) as client:
                yield Chain(client, upstream)


async def test_profile_is_answered_and_judged_by_its_own_models(chain: Chain) -> None:
    for model in ("gateway", "deep"):
        told = await chain.client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": f"What is it to {model}?"}]
        )
        assert told.choices[0].finish_reason == "stop"
        assert (told.choices[0].message.content or "").count("w") == 12
    assert [exchange.model for exchange in chain.upstream.log.of("generator")] == ["usual-writer", "deep-writer"]
    assert [exchange.model for exchange in chain.upstream.log.of("grader")] == ["usual-judge", "deep-judge"]


@pytest.mark.parametrize("script", ["[[tps=20 tokens=2000]]", "[[grade_ms=60000]]"], ids=["text came", "held"])
async def test_stop_closes_what_is_open_at_the_service(chain: Chain, script: str) -> None:
    stream = await chain.client.chat.completions.create(
        model="gateway", messages=[{"role": "user", "content": f"What is it? {script}"}], stream=True
    )
    is_held = "grade_ms" in script
    await chain.upstream.wait_until(
        lambda log: bool(log.of("grader")) and any(draft.tokens > 0 for draft in log.of("generator"))
    )
    async for chunk in stream:
        if is_held or chunk.choices[0].delta.content:
            break
    await stream.close()
    await chain.upstream.wait_until(lambda log: not log.open)
    (draft,) = chain.upstream.log.of("generator")
    assert (draft.finished_s is None) or is_held  # the held one had been written whole
    if is_held:
        assert chain.upstream.log.of("grader")[0].closed_s is not None
    else:
        assert draft.closed_s is not None
