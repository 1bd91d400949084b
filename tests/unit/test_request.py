"""Requests: any JSON value is either a request within every bound, or an InvalidRequest that names fields and no content."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.body import BODY_LIMIT_BYTES, check_content_type, check_size, parse
from gateway.problems import BodyTooLarge, InvalidRequest, MalformedJson, WrongContentType, body_of
from gateway.request import HISTORY_LIMIT, QUESTION_LIMIT, AnswerRequest, Options, answer_request
from streaming.ports import Turn
from streaming.wire.format import dumps

TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=30)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
JSON_VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
)
FIELDS = ["question", "history", "collection", "filters", "stream", "options"]
NEARLY = st.fixed_dictionaries({"question": TEXT | JSON_VALUES}, optional=dict.fromkeys(FIELDS[1:], JSON_VALUES))


def test_request_with_everything_is_taken_over() -> None:
    request = answer_request(
        {
            "question": " And\x00 the second? ",
            "history": [{"role": "user", "content": "List\u202e them"}, {"role": "assistant", "content": "\u200b"}],
            "collection": "handbook",
            "filters": {"year": 2024, "kind": "pdf", "draft": False, "weight": 0.5},
            "stream": False,
            "options": {"speculate": "never", "max_retries": 2, "verify": "gate", "deadline_s": 5},
        }
    )
    assert request.question == "And the second?"
    assert request.history == (Turn("user", "List them"),)
    assert request.collection == "handbook"
    assert request.filters == {"year": 2024, "kind": "pdf", "draft": False, "weight": 0.5}
    assert request.filters["draft"] is False
    assert request.stream is False
    assert request.options == Options("never", 2, 5.0, "gate")


def test_request_with_only_a_question_has_the_defaults() -> None:
    request = answer_request({"question": "Is it?"})
    assert (request.collection, request.stream, request.history, request.filters) == ("default", True, (), {})
    assert request.options == Options()


@given(JSON_VALUES | NEARLY)
def test_any_json_value_is_a_bounded_request_or_a_named_refusal(value: object) -> None:
    request = outcome_of(value)
    if isinstance(request, InvalidRequest):
        assert 0 < len(request.fields) <= 20
        assert len(dumps(body_of(request))) < 20_000
    else:
        request.question.encode("utf-8")
        assert 0 < len(request.question) <= QUESTION_LIMIT
        assert sum(len(turn.content) for turn in request.history) <= HISTORY_LIMIT


def outcome_of(value: object) -> AnswerRequest | InvalidRequest:
    try:
        return answer_request(value)
    except InvalidRequest as fault:
        return fault


def test_refusal_names_the_field_and_repeats_nothing_of_its_content() -> None:
    with pytest.raises(InvalidRequest) as caught:
        answer_request({"question": ["secret"], "options": {"max_retries": "secret"}})
    assert [field.path for field in caught.value.fields] == ["question", "options.max_retries"]
    assert b"secret" not in dumps(body_of(caught.value))


@given(st.binary(max_size=200) | st.binary(max_size=50).map(lambda b: b'{"question": ' + b + b"}"))
def test_any_bytes_are_json_or_malformed(body: bytes) -> None:
    try:
        value = parse(body)
    except MalformedJson as fault:
        dumps(body_of(fault))
    else:
        json.dumps(value, allow_nan=True)


@pytest.mark.parametrize("depth", [10_000, BODY_LIMIT_BYTES])
@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_nesting_of_any_depth_is_refused_without_falling_over(depth: int, opening: bytes) -> None:
    with pytest.raises(MalformedJson):
        parse(opening * (depth // len(opening)))


def test_size_is_refused_only_beyond_the_limit() -> None:
    check_size(BODY_LIMIT_BYTES)
    with pytest.raises(BodyTooLarge):
        check_size(BODY_LIMIT_BYTES + 1)


@pytest.mark.parametrize("content_type", [None, "", "text/json", "application/jsonp", "json", "application/x-json"])
def test_only_json_media_types_are_accepted(content_type: str | None) -> None:
    with pytest.raises(WrongContentType):
        check_content_type(content_type)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([], "body"),
        (None, "body"),
        ({"question": "a", "options": []}, "options"),
        ({"question": "a", "history": ["b"]}, "history.0"),
    ],
)
def test_what_is_no_object_is_said_to_be_none_without_a_name_of_ours(value: object, path: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        answer_request(value)
    assert [(field.path, field.message) for field in raised.value.fields] == [(path, "Input should be an object")]
