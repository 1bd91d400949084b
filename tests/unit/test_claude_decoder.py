"""Bytes of a Messages stream -> pieces: wherever they are cut, whatever is in them."""

import json
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.bench.messages_wire import Answer, Request, Wire
from gateway.providers.claude.decoder import Decoder
from gateway.providers.claude.frames import EVENT_LIMIT_BYTES, Frames
from gateway.providers.claude.request import messages, sentences
from gateway.providers.script import Script
from retrieval.passage import Passage
from streaming.faults import AnswerIncomplete, GeneratorMisconfigured, GeneratorOverloaded, GeneratorUnavailable
from streaming.ports import Cited, Piece, Prompt, Stopped, StopReason, Text, Turn, Usage

START = {"type": "message_start", "message": {"usage": {"input_tokens": 10, "output_tokens": 1}}}
STOP = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}}


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {e.get('type')}\ndata: {json.dumps(e)}\n\n".encode() for e in events)


def text(said: str, index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": said}}


def opened(index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": "", **fields}}


def closed(index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def cite(place: object, index: int = 0, quote: str | None = "q") -> dict[str, Any]:
    citation = {"type": "search_result_location", "search_result_index": place, "cited_text": quote}
    return {"type": "content_block_delta", "index": index, "delta": {"type": "citations_delta", "citation": citation}}


def pieces_of(data: bytes, cuts: list[int], numbers: tuple[int, ...] = (2, 4)) -> list[Piece]:
    """The pieces of a stream that is read in parts, texts joined where only reads parted them."""
    decoder = Decoder(numbers, "m")
    pieces: list[Piece] = []
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in pairwise(edges):
        pieces += decoder.feed(data[start:end])
    pieces += decoder.end()
    joined: list[Piece] = []
    for piece in pieces:
        if joined and isinstance(piece, Text) and isinstance(before := joined[-1], Text):
            joined[-1] = Text(before.text + piece.text)
        else:
            joined.append(piece)
    return joined


def scripted_stream(wire: Wire) -> bytes:
    results = tuple(
        {"citations": {"enabled": True}, "content": [{"text": f"text {n}"}], "source": "s", "title": "t"}
        for n in (1, 2)
    )
    request = Request("generator", "", "m", "q", (), (), results, 1024, is_streamed=True, input_tokens=10)
    return b"".join(part.data for part in Answer(request, Script(tokens=25), wire, 1, 1).parts())


@pytest.mark.parametrize("wire", [Wire(), Wire(crlf=1), Wire(thinking=2, unknown=1, pings=1, cite_first=1)])
@given(cuts=st.lists(st.integers(min_value=0), max_size=12))
def test_the_same_pieces_come_wherever_the_stream_is_cut(wire: Wire, cuts: list[int]) -> None:
    data = scripted_stream(wire)
    assert pieces_of(data, cuts) == pieces_of(data, [])


def test_a_stream_gives_usage_text_citations_and_stop() -> None:
    data = sse(START, opened(), text("Größe "), text("𝄞"), cite(1), closed(), opened(1), text("!", 1), closed(1), STOP)
    assert pieces_of(data, []) == [
        Usage(10, 1),
        Text("Größe 𝄞"),
        Cited(4, 0, 7, "q"),
        Text("!"),
        Stopped(StopReason.END, Usage(10, 4)),
    ]


def test_a_citation_said_twice_comes_once_and_one_of_an_unknown_place_never() -> None:
    data = sse(START, opened(), text("x"), cite(0), cite(0), cite(7), cite(-1), cite("0"), cite(True), closed(), STOP)
    assert [piece for piece in pieces_of(data, []) if isinstance(piece, Cited)] == [Cited(2, 0, 1, "q")]


def test_a_citation_of_an_empty_block_is_dropped() -> None:
    data = sse(START, opened(), cite(0), closed(), STOP)
    assert not any(isinstance(piece, Cited) for piece in pieces_of(data, []))


def test_citations_of_a_block_that_never_closes_come_before_the_stop() -> None:
    assert pieces_of(sse(START, opened(), text("x"), cite(0), STOP), [])[-2:] == [
        Cited(2, 0, 1, "q"),
        Stopped(StopReason.END, Usage(10, 4)),
    ]


def test_text_and_citations_in_the_start_of_a_block_count() -> None:
    start = opened(text="ab", citations=[cite(1)["delta"]["citation"]])
    assert pieces_of(sse(START, start, text("c"), closed(), STOP), [])[1:3] == [Text("abc"), Cited(4, 0, 3, "q")]


def test_input_tokens_include_what_was_cached() -> None:
    usage = {"input_tokens": 1, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 300, "output_tokens": 0}
    assert Decoder((), "m").feed(sse({"type": "message_start", "message": {"usage": usage}})) == (Usage(321, 0, 300),)


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("overloaded_error", GeneratorOverloaded),
        ("rate_limit_error", GeneratorOverloaded),
        ("authentication_error", GeneratorMisconfigured),
        ("invalid_request_error", GeneratorMisconfigured),
        ("api_error", GeneratorUnavailable),
        ("brand_new_error", GeneratorUnavailable),
        (None, GeneratorUnavailable),
    ],
)
def test_an_error_event_is_the_fault_of_its_type(kind: str | None, fault: type[Exception]) -> None:
    decoder = Decoder((), "m")
    decoder.feed(sse(START, {"type": "error", "error": {"type": kind, "message": "secret"}}))
    assert decoder.is_ended
    with pytest.raises(fault):
        decoder.end()


def test_what_one_read_brought_before_an_error_event_is_not_lost_and_nothing_after_it_counts() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "secret"}}
    decoder = Decoder((), "m")
    said = decoder.feed(sse(START, opened(), text("before"), error, text("after"), closed(), STOP))
    assert [piece.text for piece in said if isinstance(piece, Text)] == ["before"]
    with pytest.raises(GeneratorOverloaded):
        decoder.end()


def test_an_end_without_a_stop_reason_is_no_answer() -> None:
    decoder = Decoder((), "m")
    decoder.feed(sse(START, opened(), text("x"), closed()))
    with pytest.raises(AnswerIncomplete):
        decoder.end()


@pytest.mark.parametrize(
    "data",
    [
        b"data: {not json\n\n",
        b'data: {"type": "content_block_delta"}\n\n',
        b'data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 3}}\n\n',
        b'data: {"type": "message_delta", "delta": {"stop_reason": ["x"]}}\n\n',
        b'data: {"no": "type"}\n\n',
        b"data: \xff\xfe\n\n",
        b"x" * (EVENT_LIMIT_BYTES + 1),
    ],
    ids=lambda data: data[:24],
)
def test_what_is_no_messages_stream_is_unavailable(data: bytes) -> None:
    with pytest.raises(GeneratorUnavailable):
        Decoder((), "m").feed(data)


@given(st.binary(max_size=200))
def test_no_bytes_bring_anything_but_pieces_or_a_fault(data: bytes) -> None:
    with suppress(GeneratorUnavailable):
        Decoder((), "m").feed(data + b"\n\n")


def test_comments_and_several_data_lines_are_understood() -> None:
    assert Frames().feed(b': hi\n\nevent: x\ndata: {"a":\ndata:1}\nid: 3\n\ndata: [1]\n\n') == [{"a": 1}]


def test_a_line_end_cut_in_two_is_one_line_end() -> None:
    frames = Frames()
    assert [frames.feed(part) for part in (b'data: {"a":\r', b"\ndata: 1}\r", b"\n\r", b"\n")] == [
        [],
        [],
        [{"a": 1}],
        [],
    ]


@given(st.text())
def test_sentences_joined_are_the_text(said: str) -> None:
    parts = sentences(said)
    assert "".join(parts) == said
    assert all(part.strip() for part in parts) or len(parts) <= 1


def test_a_passage_goes_in_sentence_by_sentence_under_its_title() -> None:
    asked = Prompt(
        "Who?",
        ((3, Passage("p", "doc", "Title", "One is. Two is!\nThree.")), (4, Passage("b", "doc", "Blank", " \n "))),
        history=(Turn("assistant", "hi"), Turn("user", "First?"), Turn("assistant", "")),
    )
    first, last = messages(asked)
    assert first == {"role": "user", "content": "First?"}
    assert last["content"] == [
        {
            "type": "search_result",
            "source": "doc",
            "title": "Title",
            "content": [{"type": "text", "text": part} for part in ("One is. ", "Two is!\n", "Three.")],
            "citations": {"enabled": True},
        },
        {"type": "text", "text": "Who?"},
    ]


@pytest.mark.parametrize("said", ["7", -7, 7.5, True, [7], {}, None])
def test_what_is_no_count_of_tokens_counts_for_none(said: object) -> None:
    """They are summed up where nothing may go wrong any more: in the ledger, in the allowances, on the spans."""
    start = {"type": "message_start", "message": {"usage": {"input_tokens": said, "output_tokens": said}}}
    delta = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": said}}
    found = pieces_of(sse(start, opened(), text("All is well."), closed(), delta, {"type": "message_stop"}), [])
    assert found[-1] == Stopped(StopReason.END, Usage(0, 0))


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False)
    | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(value=st.dictionaries(st.text(max_size=8), JSON_VALUES, max_size=4), ascii_only=st.booleans())
@example(value={"half of a pair": "\ud800", "deep": json.loads("[" * 300 + "]" * 300)}, ascii_only=True)
def test_an_event_is_what_json_says_it_is(value: dict[str, Any], ascii_only: bool) -> None:
    said = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "backslashreplace")
    assert Frames().feed(b"data: " + said + b"\n\n") == [json.loads(said)]
