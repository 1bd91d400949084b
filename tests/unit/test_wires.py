"""The wire formats: what each says of the seven scenarios, kept word for word; and what holds of each whatever is said."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.events import Done, Event, Failed, Path, Retry, Sources, Started, Status, Token
from streaming.wire.aisdk import AiSdk
from streaming.wire.format import Wire
from streaming.wire.native import Native
from streaming.wire.openai import OpenAI
from streaming.wire.progress import Progress
from tests.support.scenarios import FAILED, LINKED, SCENARIOS, STARTED, Batches
from tests.support.wire_goldens import HEADING, SAYS, file_of, golden, streamed


@pytest.mark.parametrize("name", SAYS)
def test_what_a_format_says_of_every_scenario_is_as_it_is_kept(name: str) -> None:
    assert golden(name) == file_of(name).read_text(), "see tests/support/wire_goldens.py"


def wires() -> list[Wire]:
    return [Native("a1"), OpenAI(HEADING), OpenAI(HEADING, with_usage=True), AiSdk()]


def said(stream: str) -> list[Any]:
    """The JSON of every data line but `[DONE]`, each parsed alone."""
    lines = [line.removeprefix("data: ") for line in stream.split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def content(chunks: list[Any]) -> str:
    return "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk.get("choices", ()))


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("with_usage", [False, True])
def test_every_chunk_of_openai_is_one_that_its_clients_take(scenario: str, with_usage: bool) -> None:
    stream = streamed(OpenAI(HEADING, with_usage=with_usage), SCENARIOS[scenario])
    chunks = said(stream)
    failed = [chunk for chunk in chunks if "error" in chunk]
    usages = [chunk for chunk in chunks if chunk.get("choices") == []]
    rest = [chunk for chunk in chunks if chunk not in failed + usages]
    assert len({(chunk["id"], chunk["object"], chunk["created"], chunk["model"]) for chunk in rest + usages}) == 1
    assert all(chunk["choices"][0].keys() == {"index", "delta", "logprobs", "finish_reason"} for chunk in rest)
    assert rest[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert all(("usage" in chunk) is with_usage and chunk.get("usage") is None for chunk in rest)
    finished = [chunk["choices"][0]["finish_reason"] for chunk in rest if chunk["choices"][0]["finish_reason"]]
    if scenario.startswith("fault"):
        assert failed == chunks[-1:]
        assert (finished, usages) == ([], [])
        assert "[DONE]" not in stream
    else:
        assert failed == []
        assert finished == ["length" if scenario == "max_tokens" else "stop"]
        assert len(usages) == with_usage
        assert stream.count("data: [DONE]\n\n") == 1
        assert stream.endswith("data: [DONE]\n\n")
    assert "id: " not in stream
    assert "event: " not in stream
    assert "retry: " not in stream


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_line_of_status_is_over_when_the_answer_is(scenario: str) -> None:
    progress = Progress()
    steps = [step for batch in SCENARIOS[scenario] for event in batch if (step := progress.step(event))]
    assert steps[-1].is_over
    assert all(step.description for step in steps)


def test_annotations_are_numbered_because_the_sdk_adds_lists_up_by_index() -> None:
    chunks = said(streamed(OpenAI(HEADING), SCENARIOS["clean"]))
    found = [a for chunk in chunks for choice in chunk["choices"] for a in choice["delta"].get("annotations", ())]
    assert [a["index"] for a in found] == [0, 1]


ANYTHING = st.text(st.characters(codec=None, exclude_categories=()), max_size=40)


@given(st.lists(ANYTHING, min_size=1, max_size=5))
def test_any_text_arrives_as_it_is_in_every_format(texts: list[str]) -> None:
    batches: Batches = (STARTED, tuple(map(Token, texts)), (Done(Path.CLEAN, "stop", 1, {}),))
    for wire in wires():
        stream = streamed(wire, batches)
        assert stream.isascii()
        assert all("\r" not in line for line in stream.split("\n"))
        parsed = said(stream)
        found = (
            content(parsed) if isinstance(wire, OpenAI) else "".join(p.get("text", p.get("delta", "")) for p in parsed)
        )
        assert found == "".join(texts)


@given(ANYTHING, ANYTHING)
def test_no_text_of_a_client_or_a_source_breaks_a_frame(one: str, other: str) -> None:
    passage = LINKED.__class__(one, other, one, other, url=other or None)
    events: tuple[Event, ...] = (
        Started("a1", "t1", one, other),
        Retry(1, "partial", one, "gap_query", other),
        Status(2, "retrieving"),
        Sources(1, ((1, passage),)),
        Failed("x", one, retryable=True),
    )
    for wire in wires():
        frames = wire.chunk(events).decode("ascii").split("\n\n")
        assert frames.pop() == ""
        assert all(len([line for line in frame.split("\n") if line.startswith("data: ")]) == 1 for frame in frames)
        said("\n\n".join(frames))


def test_native_stream_that_goes_on_numbers_its_events_on() -> None:
    assert Native("a1", sent=7).chunk((Token("x"),)).startswith(b"id: a1.8\n")


def test_answer_that_broke_before_it_began_is_an_error_in_every_format() -> None:
    batches: Batches = ((FAILED, Done(Path.FAILED, "error", 0, {})),)
    assert "error" in said(streamed(OpenAI(HEADING), batches))[-1]
    assert said(streamed(AiSdk(), batches))[-1]["type"] == "error"
    assert said(streamed(Native("a1"), batches))[0]["type"] == "generator_unavailable"
