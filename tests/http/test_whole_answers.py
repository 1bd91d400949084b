"""`stream: false`: the same answer as one JSON body, and a status where it failed."""

from typing import Any

import anyio
import httpx2
import pytest

from retrieval.faults import RetrievalUnavailable
from retrieval.passage import Passage
from retrieval.ports import Query
from tests.support.clients import client
from tests.support.gateway_app import Spans, eventually, running, scripted_house, with_parts

pytestmark = pytest.mark.anyio


async def whole(base_url: str, question: str, **fields: Any) -> httpx2.Response:
    async with client(base_url) as http:
        return await http.post("/v1/answers", json={"question": question, "stream": False, **fields})


async def test_clean_answer_is_one_json_body() -> None:
    async with running(scripted_house()) as server:
        response = await whole(server.base_url, "Is it? [[tokens=12 cite=6 passages=3]]")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert body["path"] == "clean"
    assert body["answer"].count("w") == 12
    assert [source["n"] for source in body["sources"]] == [1, 2, 3]
    assert len(body["citations"]) == 2
    assert body["refusal"] is None
    assert body["usage"]["released_tokens"] == 12
    assert body["timings_ms"].keys() >= {"total"}
    assert len(body["trace_id"]) == 32
    assert body["answer_id"]


async def test_refusal_is_a_200_with_its_reason() -> None:
    async with running(scripted_house()) as server:
        response = await whole(server.base_url, "Is it? [[verdict=insufficient]]", options={"max_retries": 0})
    assert response.status_code == 200
    body = response.json()
    assert body["answer"] == ""
    assert body["refusal"]["reason"] == "insufficient_evidence"
    assert body["attempts"] == 1
    assert body["retries"] == []


@pytest.mark.parametrize(
    ("fault", "status", "type_"),
    [
        ("overloaded", 503, "generator_overloaded"),
        ("server_error", 502, "generator_unavailable"),
        ("ends@3", 502, "answer_incomplete"),
        ("bad_request", 502, "generator_misconfigured"),
    ],
)
async def test_fault_of_the_model_is_a_status_and_no_half_answer(fault: str, status: int, type_: str) -> None:
    async with running(scripted_house()) as server:
        response = await whole(server.base_url, f"Is it? [[fault={fault}]]")
    assert response.status_code == status
    body = response.json()
    assert body.keys() == {"error"}
    assert body["error"]["type"] == type_
    assert ("retry-after" in response.headers) == (status == 503)


class Down:
    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        raise RetrievalUnavailable("the database did not answer within 5 s")


async def test_database_that_is_away_is_503() -> None:
    async with running(with_parts(scripted_house(), retriever=Down())) as server:
        response = await whole(server.base_url, "Is it?")
    assert response.status_code == 503
    assert response.json()["error"]["type"] == "retrieval_unavailable"


async def test_client_that_leaves_cancels_its_answer() -> None:
    spans = Spans()
    async with running(scripted_house(processors=[spans])) as server:
        async with client(server.base_url) as http:
            with anyio.move_on_after(0.3):
                await http.post("/v1/answers", json={"question": "Is it? [[grade_ms=60000]]", "stream": False})
        await eventually(lambda: server.house.open_answers.count == 0 and not spans.open)
    assert "invoke_agent gateway" in [span.name for span in spans.ended]
