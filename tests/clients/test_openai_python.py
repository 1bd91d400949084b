"""The `openai` Python SDK, unchanged but for its base URL."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import openai
import pytest
from anyio import to_thread
from openai.types.chat import ChatCompletionChunk

from gateway.problems import ShuttingDown
from tests.support.conversations import (
    FAULT,
    REFUSED,
    SEARCHED_AGAIN,
    assert_nothing_goes_on,
    assert_something_goes_on,
    question,
    text_of,
)
from tests.support.gateway_app import Running, running, scripted_house

pytestmark = pytest.mark.anyio

MODEL = "gateway"


@asynccontextmanager
async def sdk(server: Running, **settings: Any) -> AsyncIterator[openai.AsyncOpenAI]:
    """The asynchronous client; like every client of these tests it takes no proxy and loads no certificates."""
    http = httpx2.AsyncClient(trust_env=False, verify=False)
    async with openai.AsyncOpenAI(
        base_url=f"{server.base_url}/v1", api_key="any", http_client=http, **settings
    ) as client:
        yield client


def asked(scenario: str) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": question(scenario)}]}


def text(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def events(chunks: list[ChatCompletionChunk], kind: str) -> list[Any]:
    """What came under the key `event`."""
    found = [chunk.model_extra["event"] for chunk in chunks if chunk.model_extra and "event" in chunk.model_extra]
    return [event["data"] for event in found if event["type"] == kind]


async def into(seen: list[ChatCompletionChunk], stream: AsyncIterator[ChatCompletionChunk]) -> None:
    async for chunk in stream:
        seen.append(chunk)  # noqa: PERF401  what came before a fault is kept


async def streamed(server: Running, scenario: str, **more: Any) -> list[ChatCompletionChunk]:
    async with sdk(server) as client:
        stream = await client.chat.completions.create(**asked(scenario), stream=True, **more)
        return [chunk async for chunk in stream]


async def test_clean_answer_streams_with_its_sources(gateway: Running) -> None:
    chunks = await streamed(gateway, "clean")
    assert chunks[0].choices[0].delta.role == "assistant"
    assert text(chunks) == text_of("clean")
    assert [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason] == ["stop"]
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1
    assert all(chunk.usage is None for chunk in chunks)
    assert [source["source"]["name"] for source in events(chunks, "source")] == ["Search 1"] * 3
    assert events(chunks, "status")[-1]["done"] is True


async def test_usage_comes_once_and_only_when_it_is_asked_for(gateway: Running) -> None:
    chunks = await streamed(gateway, "clean", stream_options={"include_usage": True})
    assert [bool(chunk.usage) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 12
    assert text(chunks) == text_of("clean")


async def test_second_search_is_told_and_nothing_of_the_first_draft_is(gateway: Running) -> None:
    chunks = await streamed(gateway, "retry")
    assert text(chunks) == text_of("retry")
    assert any(SEARCHED_AGAIN in status["description"] for status in events(chunks, "status"))
    assert "a1d1" not in repr(chunks)


async def test_refusal_is_content(gateway: Running) -> None:
    chunks = await streamed(gateway, "refusal")
    assert text(chunks).startswith(REFUSED)
    assert "the price" in text(chunks)
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert chunks[-1].model_extra is not None
    assert chunks[-1].model_extra["gateway"]["path"] == "refused"


async def test_fault_after_text_was_sent_raises(gateway: Running) -> None:
    async with sdk(gateway) as client:
        stream = await client.chat.completions.create(**asked("fault"), stream=True)
        seen: list[ChatCompletionChunk] = []
        with pytest.raises(openai.APIError, match="the model's service failed") as raised:
            await into(seen, stream)
        await stream.close()
    assert text_of("fault").startswith(text(seen))
    assert text(seen)
    assert (raised.value.message, raised.value.code) == (FAULT, "generator_unavailable")


async def test_leaving_the_stream_cancels_upstream(gateway: Running) -> None:
    async with sdk(gateway) as client:
        async with await client.chat.completions.create(**asked("stop"), stream=True) as stream:
            async for chunk in stream:
                if text([chunk]):
                    break
            await assert_something_goes_on(gateway)
        await assert_nothing_goes_on(gateway)


async def test_cancelling_the_task_that_reads_cancels_upstream(gateway: Running) -> None:
    has_text = anyio.Event()

    async def read() -> None:
        async with sdk(gateway) as client:
            async for chunk in await client.chat.completions.create(**asked("stop"), stream=True):
                if text([chunk]):
                    has_text.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        with anyio.fail_after(10):
            await has_text.wait()
        await assert_something_goes_on(gateway)
        tasks.cancel_scope.cancel()
    await assert_nothing_goes_on(gateway)


async def test_client_that_gives_up_waiting_cancels_upstream(gateway: Running) -> None:
    slow = {"model": MODEL, "messages": [{"role": "user", "content": "What is it? [[grade_ms=60000]]"}]}
    async with sdk(gateway, timeout=0.3, max_retries=0) as client:
        with pytest.raises(openai.APITimeoutError):
            await client.chat.completions.create(**slow)  # type: ignore[call-overload]
    await assert_nothing_goes_on(gateway)


@pytest.mark.parametrize("scenario", ["clean", "retry", "refusal"])
async def test_stream_helper_puts_the_same_answer_together(gateway: Running, scenario: str) -> None:
    async with sdk(gateway) as client, client.chat.completions.stream(**asked(scenario)) as stream:
        deltas = [event.delta async for event in stream if event.type == "content.delta"]
        completion = await stream.get_final_completion()
    message = completion.choices[0].message
    assert message.content == "".join(deltas)
    assert completion.choices[0].finish_reason == "stop"
    if scenario == "refusal":
        assert (message.content or "").startswith(REFUSED)
    else:
        assert message.content == text_of(scenario)
        assert [annotation.type for annotation in message.annotations or ()] == ["url_citation"] * 2


async def test_stream_helper_raises_what_failed(gateway: Running) -> None:
    async with sdk(gateway) as client, client.chat.completions.stream(**asked("fault")) as stream:
        with pytest.raises(openai.APIError, match="the model's service failed"):
            await stream.until_done()


@pytest.mark.parametrize("scenario", ["clean", "retry", "refusal"])
async def test_answer_comes_whole_without_a_stream(gateway: Running, scenario: str) -> None:
    async with sdk(gateway) as client:
        completion = await client.chat.completions.create(**asked(scenario))
    message = completion.choices[0].message
    assert message.role == "assistant"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage is not None
    if scenario == "refusal":
        assert (message.content or "").startswith(REFUSED)
    else:
        assert message.content == text_of(scenario)
        assert message.annotations
        assert completion.usage.completion_tokens == 12


async def test_fault_without_a_stream_is_a_status(gateway: Running) -> None:
    async with sdk(gateway, max_retries=0) as client:
        with pytest.raises(openai.InternalServerError, match="the model's service failed") as raised:
            await client.chat.completions.create(**asked("fault"))
    assert raised.value.code == "generator_unavailable"


async def test_answer_is_cut_at_the_tokens_that_the_client_allows(gateway: Running) -> None:
    async with sdk(gateway) as client:
        completion = await client.chat.completions.create(**asked("clean"), max_completion_tokens=5)
    assert completion.choices[0].finish_reason == "length"
    assert (completion.choices[0].message.content or "").count("w") == 5


def in_a_thread(base_url: str) -> tuple[str, str]:
    """A clean answer and the text before a stop, by the synchronous client."""
    with (
        httpx2.Client(trust_env=False, verify=False) as http,
        openai.OpenAI(base_url=f"{base_url}/v1", api_key="any", http_client=http) as client,
    ):
        clean = client.chat.completions.create(**asked("clean"), stream=True)
        whole = "".join(chunk.choices[0].delta.content or "" for chunk in clean)
        stream = client.chat.completions.create(**asked("stop"), stream=True)
        for chunk in stream:
            if chunk.choices[0].delta.content:
                stream.close()
                return whole, chunk.choices[0].delta.content
    raise AssertionError("no text came")


async def test_synchronous_client_streams_and_stops(gateway: Running) -> None:
    whole, begun = await to_thread.run_sync(in_a_thread, gateway.base_url)
    assert whole == text_of("clean")
    assert text_of("stop").startswith(begun)
    await assert_nothing_goes_on(gateway)


async def test_models_are_listed_and_found(gateway: Running) -> None:
    async with sdk(gateway) as client:
        assert [model.id async for model in client.models.list()] == [MODEL]
        assert (await client.models.retrieve(MODEL)).id == MODEL
        with pytest.raises(openai.NotFoundError, match="there is no model 'gpt-4o'"):
            await client.models.retrieve("gpt-4o")


async def test_model_that_does_not_exist_is_named_before_anything_is_streamed(gateway: Running) -> None:
    async with sdk(gateway) as client:
        with pytest.raises(openai.NotFoundError) as raised:
            await client.chat.completions.create(**{**asked("clean"), "model": "gpt-4o"}, stream=True)
    assert raised.value.code == "model_not_found"
    assert raised.value.type == "invalid_request_error"


async def test_what_is_wrong_with_a_request_is_said_by_its_field(gateway: Running) -> None:
    picture = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": "data:,x"}}]
    async with sdk(gateway) as client:
        with pytest.raises(openai.UnprocessableEntityError, match="only text is read") as raised:
            await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": picture}])  # type: ignore[misc,list-item]
    assert raised.value.param == "messages.0"


class Tally:
    """Counts the requests that a client makes."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self, request: httpx2.Request) -> None:
        self.count += 1


@pytest.mark.parametrize(("script", "times"), [("[[fault=unauthorized]]", 1), ("[[fault=overloaded]]", 3)])
async def test_sdk_asks_again_where_that_may_help_and_nowhere_else(script: str, times: int) -> None:
    tally = Tally()
    http = httpx2.AsyncClient(trust_env=False, verify=False, event_hooks={"request": [tally]})
    async with (
        running(scripted_house()) as server,
        openai.AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="any", http_client=http, max_retries=2) as client,
    ):
        client._calculate_retry_timeout = lambda *_: 0.0  # type: ignore[method-assign]  # how long it waits is its own affair
        with pytest.raises(openai.APIStatusError):
            await client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": f"What is it? {script}"}]
            )
    assert tally.count == times


async def test_server_that_drains_tells_the_sdk_when_to_come_back() -> None:
    async with running(scripted_house()) as server, sdk(server, max_retries=0) as client:
        server.house.open_answers.begin_drain()
        with pytest.raises(openai.InternalServerError) as raised:
            await client.chat.completions.create(**asked("clean"), stream=True)
    assert raised.value.status_code == 503
    assert raised.value.code == ShuttingDown.type
    assert raised.value.response.headers["retry-after"] == "5"
