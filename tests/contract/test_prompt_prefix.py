"""What two requests about one question have in common: byte for byte, first, and read once where prompts are kept. Over sockets."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import takewhile
from typing import Any

import pytest

from gateway.bench.messages_api import MessagesApi, messages_api
from gateway.providers.claude.client import open_client
from gateway.providers.claude.models import ClaudeModels
from gateway.providers.script import Script
from gateway.providers.scripted import passage
from retrieval.passage import Passage
from streaming.ports import Cited, Prompt, Turn, Usage
from tests.support.generators import read

pytestmark = pytest.mark.anyio

MODEL = "claude-scripted"
QUESTION = "Where is it? [[grade_ms=1 ttft_ms=1 tps=2000 tokens=12]]"
FIRST = tuple(passage(number, 1, padding=40) for number in range(1, 6))
MERGED = (*FIRST, *(passage(number, 2, padding=40) for number in range(1, 4)))
HISTORY = (Turn("user", "Hello?"), Turn("assistant", "Yes."))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@contextmanager
def overheard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """The bodies of all requests, as objects."""
    bodies: list[dict[str, Any]] = []
    answer = MessagesApi.answer

    def answered(api: MessagesApi, connection: int, path: str, headers: dict[str, str], body: bytes, at: float) -> Any:
        bodies.append(json.loads(body))
        return answer(api, connection, path, headers, body, at)

    monkeypatch.setattr(MessagesApi, "answer", answered)
    yield bodies


@asynccontextmanager
async def models(*, keeps: bool) -> AsyncIterator[ClaudeModels]:
    async with messages_api(Script()) as api:
        client = open_client("a-key", api.base_url, connect_s=5, read_s=5)
        try:
            yield ClaudeModels(client, keeps=keeps)
        finally:
            await client.close()


def prompt(passages: tuple[Passage, ...]) -> Prompt:
    return Prompt(QUESTION, tuple(enumerate(passages, start=1)), HISTORY)


def blocks(body: dict[str, Any]) -> list[str]:
    """Everything that a request holds before its answer, block by block, in bytes; without the marks, which are no part of the prompt."""
    said: list[Any] = [body["model"], body.get("output_config"), body["system"]]
    for message in body["messages"]:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        said += [[message["role"], {k: v for k, v in part.items() if k != "cache_control"}] for part in parts]
    return [json.dumps(each, ensure_ascii=False) for each in said]


def common(one: list[str], other: list[str]) -> int:
    """How many blocks two requests begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def marked(body: dict[str, Any]) -> list[int]:
    content = body["messages"][-1]["content"]
    return [place for place, block in enumerate(content) if "cache_control" in block]


@pytest.mark.parametrize("grader", ["model", "model-passages"])
async def test_the_grade_of_a_merged_set_begins_as_that_of_the_first_one(
    monkeypatch: pytest.MonkeyPatch, grader: Any
) -> None:
    with overheard(monkeypatch) as bodies:
        async with models(keeps=True) as claude:
            first = await claude.graders(MODEL)[grader].grade(QUESTION, FIRST)
            merged = await claude.graders(MODEL)[grader].grade(QUESTION, MERGED)
    one, other = map(blocks, bodies)
    assert common(one, other) == len(one)  # everything: there is nothing in it that a merged set has not
    assert len(other) == len(one) + len(MERGED) - len(FIRST)
    assert [marked(body) for body in bodies] == [[len(FIRST)], [len(MERGED)]]
    assert first.cached_tokens == 0
    assert merged.input_tokens is not None
    assert first.input_tokens is not None
    kept = sum(map(len, one)) // 4
    assert merged.cached_tokens == pytest.approx(kept, rel=0.1)
    assert merged.cached_tokens < merged.input_tokens
    assert first.verdict == merged.verdict


async def test_the_draft_on_a_merged_set_begins_as_that_on_the_first_one_and_ends_with_the_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with overheard(monkeypatch) as bodies:
        async with models(keeps=True) as claude:
            generator = claude.generator(MODEL)
            first = await read(await generator.draft(prompt(FIRST)))
            merged = await read(await generator.draft(prompt(MERGED)))
    one, other = map(blocks, bodies)
    assert common(one, other) == len(one) - 1  # all but the question
    assert one[-1] == other[-1]
    assert [marked(body) for body in bodies] == [[len(FIRST) - 1], [len(MERGED) - 1]]
    (counted, *_), (again, *_) = ([p for p in pieces if isinstance(p, Usage)] for pieces in (first, merged))
    assert counted.cached_tokens == 0 < again.cached_tokens < again.input_tokens
    assert [p.n for p in merged if isinstance(p, Cited)] == [p.n for p in first if isinstance(p, Cited)]


async def test_a_service_is_asked_to_keep_nothing_unless_the_setting_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with overheard(monkeypatch) as bodies:
        for keeps in (False, True):
            async with models(keeps=keeps) as claude:
                await claude.graders(MODEL)["model"].grade(QUESTION, FIRST)
                await read(await claude.generator(MODEL).draft(prompt(FIRST)))
    assert "cache_control" not in json.dumps(bodies[:2])
    assert [blocks(body) for body in bodies[:2]] == [blocks(body) for body in bodies[2:]]


async def test_grader_and_generator_differ_before_their_passages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service refuses citations together with an answer of a given form, so that they can have no prompt in common: decision 0016."""
    with overheard(monkeypatch) as bodies:
        async with models(keeps=True) as claude:
            await claude.graders(MODEL)["model"].grade(QUESTION, FIRST)
            await read(await claude.generator(MODEL).draft(prompt(FIRST)))
    grade, draft = bodies
    assert "output_config" in grade
    assert "search_result" not in json.dumps(grade)
    assert "output_config" not in draft
    assert all(block["citations"] == {"enabled": True} for block in draft["messages"][-1]["content"][:-1])
