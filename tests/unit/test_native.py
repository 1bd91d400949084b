"""The native wire: every event's fields are the contract's, and no value breaks the JSON."""

import json
import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.passage import Passage
from streaming.events import (
    Citation,
    Claim,
    Done,
    Event,
    Failed,
    Path,
    Reason,
    Refusal,
    Retry,
    Sources,
    Started,
    Status,
    Token,
    Verification,
)
from streaming.wire.format import dumps
from streaming.wire.native import SNIPPET_CHARACTERS, Native, frame, named, snippet

PASSAGE = Passage("p1", "d1", "Title", "Text.", url="https://x.test/1", score=0.5)
BARE = Passage("p2", "d1", "Title", "Text.")

CONTRACT: list[tuple[Event, str, dict[str, object]]] = [
    (
        Started("a1", "t1", "Q?", "default"),
        "started",
        {"answer_id": "a1", "trace_id": "t1", "question": "Q?", "collection": "default"},
    ),
    (Status(1, "retrieving"), "status", {"attempt": 1, "stage": "retrieving"}),
    (Status(2, "correcting", "broaden"), "status", {"attempt": 2, "stage": "correcting", "detail": "broaden"}),
    (
        Retry(1, "partial", "the year", "gap_query", "Q? the year"),
        "retry",
        {"attempt": 1, "verdict": "partial", "missing": "the year", "correction": "gap_query", "query": "Q? the year"},
    ),
    (
        Sources(1, ((1, PASSAGE), (3, BARE))),
        "sources",
        {
            "attempt": 1,
            "passages": [
                {"n": 1, "id": "p1", "title": "Title", "url": "https://x.test/1", "snippet": "Text.", "score": 0.5},
                {"n": 3, "id": "p2", "title": "Title", "snippet": "Text.", "score": 0.0},
            ],
        },
    ),
    (Token("hello"), "token", {"text": "hello"}),
    (Citation(1, 0, 5), "citation", {"n": 1, "start": 0, "end": 5}),
    (Citation(1, 0, 5, "Text."), "citation", {"n": 1, "start": 0, "end": 5, "quote": "Text."}),
    (
        Refusal(Reason.DECLINED, "No.", None, ("Q?",), "g1", (PASSAGE, BARE)),
        "refusal",
        {
            "reason": "declined",
            "message": "No.",
            "missing": None,
            "searched": ["Q?"],
            "gap_id": "g1",
            "closest": [
                {"title": "Title", "url": "https://x.test/1", "snippet": "Text.", "confirmed": False},
                {"title": "Title", "snippet": "Text.", "confirmed": False},
            ],
        },
    ),
    (
        Verification(False, (Claim(0, 5, True, (1,)),)),
        "verification",
        {"grounded": False, "claims": [{"start": 0, "end": 5, "supported": True, "sources": [1]}]},
    ),
    (Failed("x", "m", True), "failed", {"type": "x", "message": "m", "retryable": True}),
    (
        Done(Path.CLEAN, "stop", 1, {"input_tokens": 3, "exact": True}, {"total": 1.5}),
        "done",
        {
            "path": "clean",
            "finish_reason": "stop",
            "attempts": 1,
            "usage": {"input_tokens": 3, "exact": True},
            "timings_ms": {"total": 1.5},
        },
    ),
]


@pytest.mark.parametrize(("event", "name", "data"), CONTRACT, ids=lambda value: value if isinstance(value, str) else "")
def test_event_looks_as_the_contract_says(event: Event, name: str, data: dict[str, object]) -> None:
    assert named(event) == (name, data)
    assert json.loads(dumps(named(event)[1])) == data


def test_every_kind_of_event_is_in_the_contract_above() -> None:
    assert {type(event) for event, _, _ in CONTRACT} == set(get_args(Event))


ANYTHING = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)
PASSAGES = st.builds(Passage, ANYTHING, ANYTHING, ANYTHING, ANYTHING, url=st.none() | ANYTHING, score=st.floats())
EVENTS = st.one_of(
    st.builds(Token, ANYTHING),
    st.builds(Started, ANYTHING, ANYTHING, ANYTHING, ANYTHING),
    st.builds(Sources, st.integers(1, 3), st.lists(st.tuples(st.integers(1, 9), PASSAGES), max_size=3).map(tuple)),
    st.builds(Failed, ANYTHING, ANYTHING, st.booleans()),
    st.builds(Refusal, st.sampled_from(Reason), ANYTHING, ANYTHING, st.tuples(ANYTHING), ANYTHING, st.tuples(PASSAGES)),
    st.builds(
        Done,
        st.just(Path.CLEAN),
        ANYTHING,
        st.integers(),
        st.just({}),
        st.dictionaries(ANYTHING, st.floats(), max_size=2),
    ),
)


@given(EVENTS)
def test_no_text_and_no_number_breaks_a_frame(event: Event) -> None:
    name, data = named(event)
    framed = frame("a.1", event)
    assert framed.isascii()
    assert b"\r" not in framed
    assert framed.endswith(b"\n\n")
    lines = framed.decode("ascii").splitlines()
    assert lines[:2] == ["id: a.1", f"event: {name}"]
    assert json.loads(lines[2].removeprefix("data: ")) == json.loads(json.dumps(data))
    assert len(lines) == 4


@given(ANYTHING)
def test_token_and_citation_in_a_stream_are_framed_as_every_event_is(text: str) -> None:
    assert Native("a").chunk((Token(text), Token(text))) == frame("a.1", Token(text)) + frame("a.2", Token(text))
    cited = Citation(2, 0, len(text), text), Citation(1, 3, 4)
    assert Native("a").chunk(cited) == frame("a.1", cited[0]) + frame("a.2", cited[1])


@given(st.text(max_size=1_000))
def test_snippet_is_a_beginning_of_the_passage(text: str) -> None:
    cut = snippet(text)
    assert len(cut) <= SNIPPET_CHARACTERS + 1
    assert cut == text or text.startswith(cut.removesuffix("…").rstrip())


def test_score_that_is_no_number_is_null() -> None:
    _, data = named(Sources(1, ((1, Passage("p", "d", "t", "x", score=math.inf)),)))
    assert data["passages"] == [{"n": 1, "id": "p", "title": "t", "snippet": "x", "score": None}]
