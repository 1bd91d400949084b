"""The messages of chat clients: which is the question, what is its history, what cannot be read."""

from typing import Any

import pytest

from gateway.chat.completions import ChatCompletions, problem
from gateway.chat.messages import Message, newest, question_of
from gateway.chat.profiles import DEFAULT, Profile, Profiles
from gateway.chat.ui_chat import UiChat
from gateway.problems import InvalidRequest, ModelNotFound, RateExceeded, TooManyStreams, Unauthorized
from gateway.request import HISTORY_LIMIT, TURNS_LIMIT, Options
from retrieval.faults import RetrievalUnavailable
from streaming.ports import Turn

PROFILES = Profiles((Profile("handbook", "handbook", Options(verify="gate", max_retries=0)),))
COMPLETIONS = ChatCompletions(PROFILES)
UI = UiChat(PROFILES)


def user(text: str) -> Message:
    return Message("user", text)


def completions(*messages: dict[str, Any], **fields: Any) -> Any:
    return COMPLETIONS.read({"model": DEFAULT, "messages": list(messages), **fields}).request


def said(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def test_last_message_of_the_user_is_the_question_and_what_is_before_it_the_history() -> None:
    request = completions(
        said("system", "Answer everything."),
        said("user", "What is a draft?"),
        said("assistant", "Text that is held."),
        said("tool", "42"),
        said("user", " And who\u202e sees it? "),
    )
    assert request.question == "And who sees it?"
    assert request.history == (Turn("user", "What is a draft?"), Turn("assistant", "Text that is held."))


def test_what_an_assistant_began_is_not_the_question() -> None:
    request = completions(said("user", "What is a draft?"), said("assistant", "It is"))
    assert (request.question, request.history) == ("What is a draft?", ())


def test_content_may_be_text_parts_and_may_be_missing() -> None:
    parts = [{"type": "text", "text": "What is"}, {"type": "text", "text": "a draft?"}]
    request = completions(said("user", "Hello"), said("assistant", None), said("user", parts))
    assert request.question == "What is\na draft?"
    assert request.history == (Turn("user", "Hello"),)


def test_picture_in_the_question_is_refused_and_one_in_the_history_is_left_out() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:,x"}}
    seen = completions(said("user", [picture, {"type": "text", "text": "What is it?"}]), said("user", "And this?"))
    assert seen.history == (Turn("user", "What is it?"),)
    with pytest.raises(InvalidRequest, match=r"messages\.0 holds a part of type image_url"):
        completions(said("user", [picture]))


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [said("assistant", "Hello")],
        [said("user", " \u200b")],
        [said("user", "x" * 8_001)],
        [said("robot", "x")],
        [1],
    ],
    ids=["none", "no user", "blank", "too long", "unknown role", "no object"],
)
def test_messages_without_a_question_are_refused(messages: list[Any]) -> None:
    with pytest.raises(InvalidRequest) as raised:
        completions(*messages)
    assert raised.value.fields[0].path.startswith(("messages", "question"))


def test_fields_that_mean_nothing_here_are_passed_over() -> None:
    request = completions(
        {**said("user", "What is a draft?"), "name": "ann"},
        temperature=0.2,
        tools=[{"type": "function"}],
        user="ann",
        seed=7,
        metadata={"a": "b"},
        stream_options=None,
    )
    assert (request.question, request.stream, request.options) == ("What is a draft?", False, Options())


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_bound_on_the_answer_is_kept(field: str) -> None:
    assert completions(said("user", "What is it?"), **{field: 7}).options.output_tokens == 7


def test_more_than_one_choice_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        completions(said("user", "What is it?"), n=2)


def test_long_chat_keeps_its_newest_turns() -> None:
    many = newest([user(f"turn {n}") for n in range(TURNS_LIMIT + 10)])
    assert len(many) == TURNS_LIMIT
    assert many[-1].content == f"turn {TURNS_LIMIT + 9}"
    long = newest([user("old " * 10), user("x" * (HISTORY_LIMIT - 5)), user("new")])
    assert [turn.content[:3] for turn in long] == ["xxx", "new"]
    assert newest([user("x" * (HISTORY_LIMIT + 1))]) == ()


def test_question_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no message of the user"):
        question_of([None])


def test_model_is_a_profile() -> None:
    request = COMPLETIONS.read({"model": "handbook", "messages": [said("user", "Q?")], "max_tokens": 5}).request
    assert request.collection == "handbook"
    assert request.options == Options(verify="gate", max_retries=0, output_tokens=5)
    assert [profile.name for profile in PROFILES] == [DEFAULT, "handbook"]
    with pytest.raises(ModelNotFound, match="'nobody'"):
        COMPLETIONS.read({"model": "nobody", "messages": [said("user", "Q?")]})


def test_profile_by_the_name_of_the_default_takes_its_place() -> None:
    profiles = Profiles((Profile(DEFAULT, "other"), Profile("b")))
    assert [(profile.name, profile.collection) for profile in profiles] == [(DEFAULT, "other"), ("b", "default")]
    assert profiles.of(None).collection == "other"


def test_messages_of_the_ai_sdk_are_their_text_parts() -> None:
    body = {
        "id": "chat-1",
        "trigger": "submit-message",
        "messageId": "m3",
        "model": "handbook",
        "messages": [
            {"id": "m0", "role": "system", "parts": [{"type": "text", "text": "Answer everything."}]},
            {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "What is a draft?"}]},
            {
                "id": "m2",
                "role": "assistant",
                "metadata": {"path": "clean"},
                "parts": [
                    {"type": "step-start"},
                    {"type": "data-status", "id": "status", "data": {}},
                    {"type": "source-url", "sourceId": "1", "url": "https://docs.example/how"},
                    {"type": "text", "text": "Text that is held.", "state": "done"},
                ],
            },
            {"id": "m3", "role": "user", "parts": [{"type": "text", "text": "Who sees it?"}]},
        ],
    }
    request = UI.read(body).request
    assert (request.question, request.collection, request.stream) == ("Who sees it?", "handbook", True)
    assert request.history == (Turn("user", "What is a draft?"), Turn("assistant", "Text that is held."))


def test_file_in_a_question_of_the_ai_sdk_is_refused() -> None:
    parts = [{"type": "file", "mediaType": "image/png", "url": "data:,x"}, {"type": "text", "text": "What is it?"}]
    with pytest.raises(InvalidRequest, match="of type file"):
        UI.read({"messages": [{"id": "m1", "role": "user", "parts": parts}]})


@pytest.mark.parametrize("value", [[], "x", {}, {"messages": []}, {"messages": [{"role": "user", "content": "old"}]}])
def test_body_that_the_ai_sdk_would_not_send_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequest):
        UI.read(value)


def test_problem_says_in_its_message_what_openai_has_no_field_for() -> None:
    with pytest.raises(InvalidRequest) as raised:
        COMPLETIONS.read({"messages": "none", "n": 2})
    error = problem(raised.value)["error"]
    assert isinstance(error, dict)
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", "model", "invalid_request")
    assert "model: Field required" in error["message"]
    assert "messages: " in error["message"]


@pytest.mark.parametrize(
    ("fault", "kind", "code"),
    [
        (Unauthorized("no"), "authentication_error", "invalid_api_key"),
        (TooManyStreams("no"), "rate_limit_error", "rate_limit_exceeded"),
        (RateExceeded("no"), "rate_limit_error", "rate_limit_exceeded"),
        (ModelNotFound("no"), "invalid_request_error", "model_not_found"),
        (RetrievalUnavailable("no"), "server_error", RetrievalUnavailable.type),
    ],
)
def test_kind_of_a_problem_is_one_that_openai_has(fault: Any, kind: str, code: str) -> None:
    assert problem(fault) == {"error": {"message": "no", "type": kind, "param": None, "code": code}}
