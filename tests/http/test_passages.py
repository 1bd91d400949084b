"""`GET /v1/passages/{id}`: a cited passage, whole; somebody else's, or another source's, is none."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from gateway.access.keys import Keys
from gateway.uploads.passages import StoredPassages
from retrieval.pool import Pool, open_pool
from retrieval.store import PassageStore
from tests.support.clients import client
from tests.support.embedders import HashingEmbedder
from tests.support.gateway_app import running, scripted_house
from tests.support.library import shelve
from tests.support.postgres import emptied

pytestmark = pytest.mark.anyio

LONG = "Green tea is steeped at eighty degrees. " * 20


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    async with open_pool(emptied(database_url), size=2) as pool:
        yield pool


async def test_a_passage_comes_whole_with_its_title_to_who_has_a_key(pool: Pool) -> None:
    await shelve(pool, HashingEmbedder(), {"tea": LONG})
    await shelve(pool, HashingEmbedder(), {"theirs": LONG}, tenant="other")
    house = replace(scripted_house(), passages=StoredPassages(PassageStore(pool)), keys=Keys(("key",)))
    key = {"authorization": "Bearer key"}
    async with running(house) as server, client(server.base_url) as http:
        found = await http.get("/v1/passages/tea%3A0", headers=key)
        assert found.status_code == 200, found.text
        passage = found.json()
        assert (passage["id"], passage["document_id"], passage["title"], passage["url"]) == (
            "tea:0",
            "tea",
            "tea",
            None,
        )
        assert passage["text"] == LONG
        assert (await http.get("/v1/passages/tea%3A0")).status_code == 401
        for missing in ("theirs:0", "tea:1", "web/https://x.example/a", "%00"):
            answer = await http.get(f"/v1/passages/{missing}", headers=key)
            assert (answer.status_code, answer.json()["error"]["type"]) == (404, "passage_not_found"), missing


async def test_a_scripted_search_has_no_passages() -> None:
    async with running(scripted_house()) as server, client(server.base_url) as http:
        assert (await http.get("/v1/passages/scripted-1-1")).status_code == 404
