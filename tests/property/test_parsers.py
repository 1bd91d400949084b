"""Whatever comes, every parser at the edge has a value or a fault of its own for it, never another exception; found cases are kept."""

import os
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway import gap_routes
from gateway.chat.completions import ChatBody, ChatCompletions
from gateway.chat.profiles import Profiles
from gateway.chat.ui_chat import UiChat
from gateway.cleaning import clean
from gateway.keeping.idempotency import key_of
from gateway.keeping.resume import Place, place_of
from gateway.native_form import NativeForm
from gateway.parameters import parameters_of
from gateway.policy_settings import policy_rows
from gateway.problems import BadLastEventId, InvalidRequest, ModelNotFound
from gateway.request import AnswerBody, OptionsBody
from gateway.settings import Settings, SettingsInvalid, read_settings
from gateway.uploads import routes as document_routes
from gateway.uploads.routes import before_of, cursor
from grading.faults import GraderUnavailable, RewriterUnavailable, VerifierUnavailable
from grading.replies import numbers_in, passages_grade_in, query_in, questions_in, verdicts_in

TEXT = st.text(st.characters())  # lone surrogates and controls among them
HEADER = st.text(st.characters(max_codepoint=255), max_size=80)
KEYS = st.sampled_from(
    [*AnswerBody.model_fields, *OptionsBody.model_fields, *ChatBody.model_fields, "role", "content", "parts", "type"]
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | TEXT
    | st.sampled_from(["user", "assistant", "text", "gateway"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | TEXT, inner, max_size=5),
    max_leaves=12,
)
TURN = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system", "x"]), "content": TEXT | JSON})
UI_PART = st.fixed_dictionaries({"type": st.sampled_from(["text", "file", "x"])}, optional={"text": TEXT | JSON})
UI_TURN = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant"]), "parts": st.lists(UI_PART, max_size=3) | JSON}
)
QUESTION = st.fixed_dictionaries(
    {"question": TEXT},
    optional={
        "filters": st.dictionaries(TEXT, st.integers() | st.floats() | st.booleans() | TEXT, max_size=4) | JSON,
        "history": st.lists(TURN, max_size=3) | JSON,
        "collection": TEXT,
        "options": JSON,
    },
)
CHAT = st.fixed_dictionaries({"model": st.just("gateway") | TEXT, "messages": st.lists(TURN, max_size=4) | JSON})
UI = st.fixed_dictionaries({"messages": st.lists(UI_TURN, max_size=4) | JSON}, optional={"model": st.none() | TEXT})
SECRETS = {"database_url", "owner_url", "api_keys", "embeddings_api_key"}
few = settings(max_examples=80, deadline=None)


@few
@given(QUESTION | JSON)
@example({"question": "hi \ud83d"})
@example({"question": "x", "filters": {"year": float("nan")}})
@example({"question": "x", "filters": {"year": 10**400}})
def test_a_native_body_is_a_question_or_invalid(body: object) -> None:
    try:
        asked = NativeForm().read(body).request
    except InvalidRequest:
        return
    for text in (asked.question, asked.collection, *asked.filters, *(turn.content for turn in asked.history)):
        assert clean(text) == text
        text.encode()


@few
@given(CHAT | JSON)
def test_an_openai_body_is_a_question_or_invalid(body: object) -> None:
    try:
        asked = ChatCompletions(Profiles()).read(body).request
    except (InvalidRequest, ModelNotFound):
        return
    asked.question.encode()


@few
@given(UI | JSON)
def test_an_ai_sdk_body_is_a_question_or_invalid(body: object) -> None:
    try:
        asked = UiChat(Profiles()).read(body).request
    except (InvalidRequest, ModelNotFound):
        return
    asked.question.encode()


@few
@given(HEADER)
@example("a.999999999")
@example("a.1000000000")
@example("\u00b2.\u00b9")
def test_a_last_event_id_is_a_place_or_bad(written: str) -> None:
    try:
        place = place_of({"last-event-id": written})
    except BadLastEventId:
        return
    assert place is None or place_of({"last-event-id": f"{place.answer_id}.{place.n}"}) == place


@given(st.text("0123456789abcdef", min_size=1, max_size=64), st.integers(0, 999_999_999))
def test_an_event_id_of_ours_is_the_place_it_names(answer_id: str, n: int) -> None:
    assert place_of({"last-event-id": f" {answer_id}.{n} "}) == Place(answer_id, n)


@few
@given(HEADER)
def test_an_idempotency_key_is_printable_or_invalid(written: str) -> None:
    try:
        key = key_of({"idempotency-key": written})
    except InvalidRequest:
        return
    assert key is not None
    assert key.isprintable()


@few
@given(TEXT | st.text("ABCDEFabcdef0123456789-_=", max_size=60))
@example("A" * 5)
@example("MDAwMS0wMS0wMVQwMDowMDowMCsyMzo1OSBh")
def test_a_cursor_is_a_place_in_the_list_or_invalid(written: str) -> None:
    try:
        before = before_of(written)
    except InvalidRequest:
        return
    assert before_of(cursor(before)) == before


@few
@given(st.lists(st.tuples(st.sampled_from(["limit", "collection", "after", "x"]), TEXT), max_size=4))
@example([("limit", "\u0663")])
@example([("limit", "1" * 5000)])
def test_parameters_are_read_or_invalid(pairs: list[tuple[str, str]]) -> None:
    scope = {"query_string": urlencode(pairs, errors="replace").encode()}
    for route in (document_routes, gap_routes):
        try:
            route.wanted(parameters_of(scope, route.PARAMETERS))
        except InvalidRequest:
            continue


@few
@given(
    st.dictionaries(
        st.sampled_from(sorted(Settings.model_fields)),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
        max_size=3,
    )
)
@example({"policy": "partial.gap"})
@example({"host": "0.0.0.0", "api_keys": " , "})
@example({"port": "x", "database_url": "postgresql://user:password@host/name"})
@example({"policy": '{"partial": 1}'})
@example({"sources": "[1]"})
@example({"profiles": '[{"name": null}]'})
@example({"script": "[[" * 1000})
@example({"home": "~nobody-here/x"})
def test_settings_are_read_or_invalid_and_no_secret_is_told(values: dict[str, str]) -> None:
    with patch.dict(os.environ, {f"GATEWAY_{name.upper()}": value for name, value in values.items()}, clear=True):
        try:
            read_settings(home="/nowhere") if "home" not in values else read_settings()
        except SettingsInvalid as error:
            told = str(error)
        else:
            told = ""
    assert not [values[name] for name in SECRETS & values.keys() if len(values[name]) >= 8 and values[name] in told]


@few
@given(TEXT)
@example("partial.gap=gap_query; partial.gap=")
def test_a_policy_is_rows_or_a_value_error(written: str) -> None:
    try:
        policy_rows(written)
    except ValueError:
        return


@few
@given(TEXT | JSON.map(str))
def test_a_models_words_are_what_was_asked_for_or_a_fault(said: str) -> None:
    for read in (
        query_in,
        questions_in,
        lambda text: numbers_in(text, 3),
        lambda text: verdicts_in(text, 2),
        lambda text: passages_grade_in(text, 2, "g"),
    ):
        try:
            read(said)
        except (RewriterUnavailable, VerifierUnavailable, GraderUnavailable):
            continue
