"""The clients from npm, on Node.js: five scenarios each."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support import installed
from tests.support.conversations import (
    FAULT,
    REFUSED,
    SEARCHED_AGAIN,
    assert_nothing_goes_on,
    question,
    text_of,
)
from tests.support.gateway_app import Running
from tests.support.npm_clients import NpmClients, npm_clients

pytestmark = pytest.mark.anyio

CHAT = ["openai", "openai helper", "ai streamText", "ai useChat"]
NATIVE = ["eventsource", "fetch-event-source"]
SHOWS_STATUS = [client for client in [*CHAT, *NATIVE] if client != "ai streamText"]


@pytest.fixture(scope="module")
async def npm(anyio_backend: object, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NpmClients]:
    async with npm_clients(installed.npm_clients(), tmp_path_factory.mktemp("clients")) as clients:
        yield clients


async def seen_by(npm: NpmClients, client: str, gateway: Running, scenario: str) -> dict[str, Any]:
    return await npm.ask(gateway.base_url, client, scenario, question(scenario))


@pytest.mark.parametrize("client", [*CHAT, *NATIVE])
async def test_clean_answer_is_whole(gateway: Running, npm: NpmClients, client: str) -> None:
    seen = await seen_by(npm, client, gateway, "clean")
    assert (seen["outcome"], seen["error"]) == ("finished", None)
    assert seen["text"] == text_of("clean")
    if client in CHAT:
        assert seen["finish"] == "stop"
    if client in SHOWS_STATUS:
        assert seen["path"] == "clean"
        assert seen["sources"] == ["Search 1"] * 3


@pytest.mark.parametrize("client", [*CHAT, *NATIVE])
async def test_second_search_is_shown_and_the_first_draft_is_not(
    gateway: Running, npm: NpmClients, client: str
) -> None:
    seen = await seen_by(npm, client, gateway, "retry")
    assert (seen["outcome"], seen["error"]) == ("finished", None)
    assert seen["text"] == text_of("retry")
    if client in SHOWS_STATUS:
        assert seen["path"] == "recovered"
        assert any(SEARCHED_AGAIN in told for told in seen["told"])


@pytest.mark.parametrize("client", [*CHAT, *NATIVE])
async def test_refusal_is_read_as_an_answer(gateway: Running, npm: NpmClients, client: str) -> None:
    seen = await seen_by(npm, client, gateway, "refusal")
    assert (seen["outcome"], seen["error"]) == ("finished", None)
    assert seen["text"].startswith(REFUSED)
    assert "the price" in seen["text"]
    if client in SHOWS_STATUS:
        assert seen["path"] == "refused"


@pytest.mark.parametrize("client", [*CHAT, *NATIVE])
async def test_fault_after_text_was_sent_is_a_failure(gateway: Running, npm: NpmClients, client: str) -> None:
    seen = await seen_by(npm, client, gateway, "fault")
    assert seen["outcome"] == "failed"
    assert FAULT in seen["error"]
    assert text_of("fault").startswith(seen["text"])


@pytest.mark.parametrize("client", [*CHAT, *NATIVE])
async def test_stop_cancels_upstream(gateway: Running, npm: NpmClients, client: str) -> None:
    seen = await seen_by(npm, client, gateway, "stop")
    assert seen["outcome"] == "stopped"
    assert seen["text"]
    assert len(seen["text"]) < len(text_of("stop"))
    await assert_nothing_goes_on(gateway)


@pytest.mark.parametrize("client", NATIVE)
async def test_end_of_a_stream_is_no_reason_to_ask_again(gateway: Running, npm: NpmClients, client: str) -> None:
    seen = await seen_by(npm, client, gateway, "clean")
    assert seen["requests"] == 1


async def test_use_chat_keeps_one_line_of_status_and_what_the_answer_rests_on(
    gateway: Running, npm: NpmClients
) -> None:
    seen = await seen_by(npm, "ai useChat", gateway, "retry")
    assert seen["statuses"] == 1
    assert len(seen["citations"]) == 2
    assert seen["timings"]["total"] > 0
    refused = await seen_by(npm, "ai useChat", gateway, "refusal")
    assert refused["refusal"]["reason"] == "insufficient_evidence"
    assert refused["refusal"]["searched"]


async def test_stream_text_counts_the_tokens_of_the_answer(gateway: Running, npm: NpmClients) -> None:
    assert (await seen_by(npm, "ai streamText", gateway, "clean"))["tokens"] == 12


@pytest.mark.parametrize("client", CHAT)
async def test_what_is_refused_before_a_stream_is_said(gateway: Running, npm: NpmClients, client: str) -> None:
    seen = await npm.ask(gateway.base_url, client, "clean", "   ")
    assert seen["outcome"] == "failed"
    assert "must not be blank" in seen["error"]
