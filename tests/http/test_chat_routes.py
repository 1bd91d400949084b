"""The chat routes as bytes on a socket: headers, defaults, errors, profiles; what the real clients never show is in tests/clients/."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from gateway.access.keys import Keys
from gateway.chat.profiles import Profile, Profiles
from gateway.library import AnyCollection
from gateway.request import Options
from retrieval.faults import CollectionNotFound
from tests.support.clients import client
from tests.support.gateway_app import Running, running, scripted_house

pytestmark = pytest.mark.anyio

COMPLETIONS = "/v1/chat/completions"
UI = "/api/chat"


class Shelf(AnyCollection):
    """Has all collections but one."""

    def knows(self, collection: str, tenant: str) -> bool:
        return False

    async def check(self, collection: str, tenant: str) -> None:
        if collection == "lost":
            raise CollectionNotFound("no collection is named lost")


class Broken(AnyCollection):
    """Has a defect."""

    def knows(self, collection: str, tenant: str) -> bool:
        raise RuntimeError("a word that is for us alone")


@pytest.fixture
async def server() -> AsyncIterator[Running]:
    profiles = Profiles((Profile("strict", "default", Options(max_retries=0)), Profile("lost", "lost")))
    async with running(replace(scripted_house(), profiles=profiles, collections=Shelf())) as started:
        yield started


def completion(question: str = "What is it? [[tokens=3]]", **fields: Any) -> dict[str, Any]:
    return {"model": "gateway", "messages": [{"role": "user", "content": question}], **fields}


def ui(question: str = "What is it? [[tokens=3]]", **fields: Any) -> dict[str, Any]:
    return {"messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": question}]}], **fields}


async def post(server: Running, path: str, body: Any, **headers: str) -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with client(server.base_url) as http:
        return await http.post(path, content=content, headers={"content-type": "application/json", **headers})


async def test_stream_of_completions_is_data_lines_and_comments_alone(server: Running) -> None:
    response = await post(server, COMPLETIONS, completion(stream=True))
    assert response.headers["content-type"] == "text/event-stream"
    assert response.headers["cache-control"] == "no-cache, no-transform"
    assert response.headers["x-accel-buffering"] == "no"
    lines = [line for line in response.text.split("\n") if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    assert lines.count("data: [DONE]") == 1


async def test_completion_is_whole_unless_a_stream_is_asked_for(server: Running) -> None:
    for body in (completion(), completion(stream=False), completion(stream=None)):
        response = await post(server, COMPLETIONS, body)
        assert response.headers["content-type"] == "application/json"
        told = response.json()
        assert told["object"] == "chat.completion"
        assert told["choices"][0]["message"]["content"].count("w") == 3
        assert told["gateway"]["path"] == "clean"
        assert len(told["citations"]) == len(told["search_results"]) == 5


async def test_ui_stream_says_which_protocol_it_is(server: Running) -> None:
    response = await post(server, UI, ui())
    assert response.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert response.headers["content-type"] == "text/event-stream"
    parts = [json.loads(line[6:]) for line in response.text.split("\n") if line.startswith("data: {")]
    assert [parts[0]["type"], parts[1]["type"], parts[-1]["type"]] == ["start", "start-step", "finish"]
    assert parts[-1]["messageMetadata"]["path"] == "clean"
    assert response.text.endswith("data: [DONE]\n\n")


async def test_model_picks_a_profile(server: Running) -> None:
    question = "What is it? [[verdict=insufficient]]"
    usual = (await post(server, COMPLETIONS, completion(question))).json()["gateway"]
    strict = (await post(server, COMPLETIONS, completion(question, model="strict"))).json()["gateway"]
    assert (usual["attempts"], strict["attempts"]) == (2, 1)
    of_ui = await post(server, UI, ui(question, model="strict"))
    assert '"attempts":1' in of_ui.text


async def test_models_are_the_profiles(server: Running) -> None:
    async with client(server.base_url) as http:
        listed = (await http.get("/v1/models")).json()
        one = await http.get("/v1/models/strict")
        none = await http.get("/v1/models/gpt-4o")
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == ["gateway", "strict", "lost"]
    assert listed["data"][1] == one.json()
    assert one.json().keys() == {"id", "object", "created", "owned_by"}
    assert none.status_code == 404
    assert none.json()["error"]["code"] == "model_not_found"


BAD = {
    "no JSON": (b"{", 400, "malformed_json"),
    "no object": (b"[]", 422, "invalid_request"),
    "no messages": ({"model": "gateway"}, 422, "invalid_request"),
    "no such model": (completion(model="gpt-4o"), 404, "model_not_found"),
    "no such collection": (completion(model="lost"), 404, "collection_not_found"),
}


@pytest.mark.parametrize("case", BAD)
async def test_error_before_the_stream_is_a_status_with_the_body_that_the_sdk_reads(server: Running, case: str) -> None:
    body, status, code = BAD[case]
    response = await post(server, COMPLETIONS, body)
    assert response.status_code == status
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["code"], error["type"]) == (code, "invalid_request_error")
    assert response.headers["x-should-retry"] == "false"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", COMPLETIONS, 405, "method_not_allowed"),
        ("POST", "/v1/models", 405, "method_not_allowed"),
        ("POST", COMPLETIONS + "/", 404, "not_found"),
        ("POST", "/v1/embeddings", 404, "not_found"),
        ("GET", "/v1/models/gpt-4o", 404, "model_not_found"),
    ],
)
async def test_a_path_or_method_that_is_not_answered_is_told_as_the_sdk_reads_it(
    server: Running, method: str, path: str, status: int, code: str
) -> None:
    async with client(server.base_url) as http:
        response = await http.request(method, path)
    assert response.status_code == status
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", code, None)
    assert response.headers["x-should-retry"] == "false"
    assert ("allow" in response.headers) == (status == 405)


@pytest.mark.parametrize(
    ("content", "param"),
    [(7, "messages.0.content"), ([{"type": "text", "text": None}], "messages.0.content"), ([7], "messages.0.content")],
)
async def test_what_is_wrong_is_named_as_the_client_wrote_it(server: Running, content: object, param: str) -> None:
    body = {"model": "gateway", "messages": [{"role": "user", "content": content}]}
    error = (await post(server, COMPLETIONS, body)).json()["error"]
    assert error["param"] == param
    assert "Body" not in error["message"]
    assert "str:" not in error["message"]


async def test_ui_route_has_the_errors_of_the_house(server: Running) -> None:
    response = await post(server, UI, ui(model="gpt-4o"))
    assert response.status_code == 404
    assert response.json()["error"]["type"] == "model_not_found"


@pytest.mark.parametrize("path", [COMPLETIONS, UI, "/v1/models"])
async def test_without_a_key_nobody_is_answered_where_keys_are_set(path: str) -> None:
    async with running(replace(scripted_house(), keys=Keys(["right"]))) as server, client(server.base_url) as http:
        method, body = ("GET", None) if path == "/v1/models" else ("POST", ui() if path == UI else completion())
        refused = await http.request(method, path, json=body)
        served = await http.request(method, path, json=body, headers={"authorization": "Bearer right"})
    assert (refused.status_code, served.status_code) == (401, 200)
    assert refused.headers["www-authenticate"] == "Bearer"
    if path != UI:
        assert refused.json()["error"]["type"] == "authentication_error"


async def test_a_defect_of_ours_is_a_500_without_its_words_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    questions = (("/v1/answers", {"question": "What is it?"}), (COMPLETIONS, completion()), (UI, ui()))
    async with running(replace(scripted_house(), collections=Broken())) as broken:
        for path, body in questions:
            caplog.clear()
            response = await post(broken, path, body)
            assert response.status_code == 500
            assert "something went wrong inside the gateway" in response.text
            assert "for us alone" not in response.text
            assert "for us alone" in caplog.text
