"""`verify` over HTTP: the event, its place in the stream, and what becomes of an answer that says too much."""

import pytest

from streaming.budget import Limits, Verify
from tests.support.clients import ask, client
from tests.support.gateway_app import running, scripted_house

pytestmark = pytest.mark.anyio

LYING = "Is it? [[tokens=12 sentence=4 unsupported=a1d1w5 verify_ms=1]]"
HONEST = "Is it? [[tokens=12 sentence=4 verify_ms=1]]"


async def test_annotate_names_the_characters_that_no_source_says() -> None:
    async with running(scripted_house()) as server:
        told = await ask(server.base_url, LYING, options={"verify": "annotate"})
    assert told.names[-2:] == ["verification", "done"]
    said = told.one("verification")
    assert said["grounded"] is False
    assert [claim["supported"] for claim in said["claims"]] == [True, False, True]
    unsupported = said["claims"][1]
    assert "a1d1w5" in told.text[unsupported["start"] : unsupported["end"]]
    assert all(claim["sources"] for claim in said["claims"])


async def test_gate_stops_before_the_sentence_that_no_source_says() -> None:
    async with running(scripted_house()) as server:
        told = await ask(server.base_url, LYING, options={"verify": "gate"})
    assert [word.rstrip(".") for word in told.text.split()] == ["a1d1w0", "a1d1w1", "a1d1w2", "a1d1w3"]
    assert told.names[-2:] == ["refusal", "done"]
    assert told.one("refusal")["reason"] == "ungrounded"


async def test_the_mode_of_the_server_yields_to_that_of_a_request() -> None:
    async with running(scripted_house(limits=Limits(verify=Verify.ANNOTATE))) as server:
        assert (await ask(server.base_url, HONEST)).one("verification")["grounded"] is True
        assert "verification" not in (await ask(server.base_url, HONEST, options={"verify": "off"})).names


async def test_a_whole_answer_holds_the_verification() -> None:
    body = {"question": LYING, "stream": False, "options": {"verify": "annotate"}}
    async with running(scripted_house()) as server, client(server.base_url) as http:
        answer = (await http.post("/v1/answers", json=body)).json()
    assert [claim["supported"] for claim in answer["verification"]["claims"]] == [True, False, True]


async def test_a_follow_up_is_answered_as_the_question_it_stands_for_and_kept_as_it_was_asked() -> None:
    question = "And it? [[alone='What is a rose?' rewrite_ms=1 verdict=insufficient passages=0]]"
    async with running(scripted_house()) as server:
        told = await ask(server.base_url, question, history=[{"role": "user", "content": "What is a tulip?"}])
    assert told.one("started")["question"] == question
    assert told.one("refusal")["searched"][0].startswith("What is a rose?")
