"""`GET /v1/gaps` over a real socket: from a refused answer to the list that shows it."""

from dataclasses import replace

import pytest

from gateway.access.keys import Keys
from gateway.gap_groups import LIMIT_MOST
from gateway.gaps import PostgresGaps
from gateway.house import House
from retrieval.pool import open_pool
from tests.support.clients import ask, client
from tests.support.embedders import HashingEmbedder
from tests.support.gateway_app import running, scripted_house, with_parts
from tests.support.postgres import emptied

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def house_with(gaps: PostgresGaps) -> House:
    return replace(with_parts(scripted_house(), gaps=gaps), gaps=gaps)


async def test_a_refused_question_is_listed_with_its_repeats(database_url: str) -> None:
    async with (
        open_pool(emptied(database_url), size=2) as pool,
        running(house_with(PostgresGaps(pool, HashingEmbedder()))) as server,
        client(server.base_url) as http,
    ):
        refused = [
            (await ask(server.base_url, f"{words} [[verdict=insufficient]]")).one("refusal")["gap_id"]
            for words in ("Why?", "Who pays?", "why?")
        ]
        response = await http.get("/v1/gaps")
        newest = (await http.get("/v1/gaps?limit=1&collection=default")).json()["gaps"]
        elsewhere = (await http.get("/v1/gaps", params={"collection": "attic"})).json()
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    first, second = response.json()["gaps"]
    assert newest == [first]
    assert elsewhere == {"gaps": []}
    assert (first["id"], first["count"], second["id"], second["count"]) == (refused[0], 2, refused[1], 1)
    assert first["question"].startswith("Why?")
    assert first["questions"][0].startswith("why?")
    assert first["reason"] == "insufficient_evidence"
    assert first["last_at"].endswith("Z")
    assert first["searched"]


async def test_without_a_database_there_are_none() -> None:
    async with running(scripted_house()) as server, client(server.base_url) as http:
        assert (await http.get("/v1/gaps")).json() == {"gaps": []}
        assert (await http.post("/v1/gaps")).status_code == 405


async def test_keys_are_needed_when_there_are_keys() -> None:
    async with running(replace(scripted_house(), keys=Keys(["right"]))) as server, client(server.base_url) as http:
        assert (await http.get("/v1/gaps")).status_code == 401
        assert (await http.get("/v1/gaps", headers={"authorization": "Bearer wrong"})).status_code == 401
        assert (await http.get("/v1/gaps", headers={"authorization": "Bearer right"})).status_code == 200


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        (f"limit={LIMIT_MOST + 1}", "limit"),
        ("limit=-1", "limit"),
        ("limit=1e1", "limit"),
        ("limit=", "limit"),
        (f"limit={'9' * 5000}", "limit"),
        ("limit=%D9%A3", "limit"),
        ("limit=1&limit=2", "limit"),
        ("tenant=acme", "tenant"),
        ("collection=%00", "collection"),
    ],
)
async def test_a_wrong_parameter_is_named(query: str, field: str) -> None:
    async with running(scripted_house()) as server, client(server.base_url) as http:
        response = await http.get(f"/v1/gaps?{query}")
    assert response.status_code == 422
    assert [each["path"] for each in response.json()["error"]["fields"]] == [field]


async def test_a_database_that_is_away_is_a_503() -> None:
    async with open_pool("postgresql://127.0.0.1:1/none", size=1) as pool:
        gaps = PostgresGaps(pool)
        async with running(house_with(gaps)) as server, client(server.base_url) as http:
            response = await http.get("/v1/gaps")
    assert response.status_code == 503
    assert response.json()["error"]["type"] == "retrieval_unavailable"
