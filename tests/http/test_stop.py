"""`DELETE /v1/answers/{id}`: an answer that nobody wants any more ends at once, here or at another gateway, and is not kept."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.access.keys import Keys
from gateway.keeping.keeper import open_keeper
from gateway.keeping.stored_recordings import StoredRecordings
from gateway.providers.scripted import ScriptedGenerator
from retrieval.pool import open_pool
from tests.support.clients import ask, client
from tests.support.gateway_app import Spans, eventually, running, scripted_house

pytestmark = pytest.mark.anyio

SLOW: dict[str, Any] = {
    "question": "Is it? [[grade_ms=1 ttft_ms=1 tps=40 tokens=4000]]",
    "options": {"resumable": True},
}


async def test_a_stopped_answer_ends_upstream_and_nothing_of_it_is_kept() -> None:
    spans = Spans()
    house = scripted_house(processors=[spans])
    generator = house.parts.generator
    assert isinstance(generator, ScriptedGenerator)
    async with (
        open_keeper() as keeper,
        running(replace(house, keeper=keeper)) as server,
        client(server.base_url) as http,
    ):
        async with http.stream("POST", "/v1/answers", json=SLOW) as response:
            lines = response.aiter_lines()
            answer_id = (await anext(lines)).removeprefix("id: ").removesuffix(".1")
            await eventually(lambda: generator.open_drafts == 1)
            assert (await http.delete(f"/v1/answers/{answer_id}")).status_code == 204
            rest = [line async for line in lines]
            assert "event: done" in rest  # who still reads is told, never cut
        await eventually(lambda: generator.open_drafts == 0 and keeper.count == 0 and house.open_answers.count == 0)
        await eventually(lambda: spans.open == {})
        assert (await http.get(f"/v1/answers/{answer_id}/events")).json()["error"]["type"] == "answer_not_found"
        assert (await http.delete(f"/v1/answers/{answer_id}")).status_code == 404


async def test_a_finished_answer_is_forgotten() -> None:
    async with running(scripted_house()) as server, client(server.base_url) as http:
        told = await ask(server.base_url, "Is it?", options={"resumable": True})
        path = f"/v1/answers/{told.one('started')['answer_id']}"
        assert (await http.get(f"{path}/events")).status_code == 200
        assert (await http.delete(path)).status_code == 204
        assert (await http.get(f"{path}/events")).status_code == 404


async def test_an_answer_can_be_stopped_by_who_asked_alone() -> None:
    house = replace(scripted_house(), keys=Keys(("mine", "yours")))
    async with running(house) as server, client(server.base_url) as http:
        mine = {"authorization": "Bearer mine"}
        told = await ask(server.base_url, "Is it?", mine, options={"resumable": True})
        path = f"/v1/answers/{told.one('started')['answer_id']}"
        assert (await http.delete(path)).status_code == 401
        assert (await http.delete(path, headers={"authorization": "Bearer yours"})).status_code == 404
        assert (await http.delete(path, headers=mine)).status_code == 204


async def test_an_answer_that_another_gateway_gives_is_stopped_there(database_url: str) -> None:
    here = scripted_house()
    generator = here.parts.generator
    assert isinstance(generator, ScriptedGenerator)
    async with (
        open_pool(database_url, size=4) as one,
        open_pool(database_url, size=4) as other,
        open_keeper(None, StoredRecordings(one)) as first,
        open_keeper(None, StoredRecordings(other)) as second,
        running(replace(here, keeper=first)) as server,
        running(replace(scripted_house(), keeper=second)) as elsewhere,
        client(server.base_url) as http,
        client(elsewhere.base_url) as there,
    ):
        async with http.stream("POST", "/v1/answers", json=SLOW) as response:
            answer_id = (await anext(response.aiter_lines())).removeprefix("id: ").removesuffix(".1")
            await eventually(lambda: generator.open_drafts == 1)
            assert (await there.delete(f"/v1/answers/{answer_id}")).status_code == 204
            await eventually(lambda: generator.open_drafts == 0 and first.count == 0)
        assert (await there.get(f"/v1/answers/{answer_id}/events")).status_code == 404
