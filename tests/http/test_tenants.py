"""Two tenants at one gateway: whatever one asks, in whatever way, it meets nothing of the other."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from gateway.gap_groups import LIMIT_MOST
from gateway.uploads.routes import cursor
from tests.support.clients import client
from tests.support.gateway_app import Running, running
from tests.support.tenants import MINE, WORDS, YOURS, Tenants

pytestmark = pytest.mark.anyio

QUESTION = "What does the vault of mine open with?"
REFUSED = "Who sweeps the vault of mine? [[verdict=insufficient]]"
CHECKED = "Which vault is it? [[verdict=sufficient]]"
COLLECTIONS = ("default", "shared-name")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def server(tenants: Tenants) -> AsyncIterator[Running]:
    async with running(tenants.house) as served:
        yield served


class Http:
    """One tenant's client. `read` collects every body that it was ever sent."""

    def __init__(self, http: httpx2.AsyncClient, key: str) -> None:
        self._http, self._key = http, key
        self.read = ""
        self.requests = 0

    async def send(self, method: str, path: str, headers: dict[str, str] | None = None, **sent: Any) -> httpx2.Response:
        given = {"authorization": f"Bearer {self._key}", **(headers or {})}
        response = await self._http.request(method, path, headers=given, **sent)
        self.read += response.text
        self.requests += 1
        return response

    async def ask(self, question: str, headers: dict[str, str] | None = None, **fields: Any) -> httpx2.Response:
        body = {"question": question, "stream": False, **fields}
        return await self.send("POST", "/v1/answers", headers, json=body)


async def test_no_way_of_asking_meets_another_tenants_documents(tenants: Tenants, server: Running) -> None:
    async with client(server.base_url) as http:
        mine, yours = Http(http, tenants.keys[MINE]), Http(http, tenants.keys[YOURS])
        for one in (mine, yours):
            for collection in COLLECTIONS:
                for stream in (True, False):
                    await one.ask(QUESTION, collection=collection, stream=stream)
                for named in ("source", "tenant", "collection_id"):
                    await one.ask(QUESTION, collection=collection, filters={named: MINE})
            for collection in (f"{MINE}/default", "mine", "default' OR tenant = 'mine", "*", "%"):
                assert (await one.ask(QUESTION, collection=collection)).status_code in (404, 422)
            corrected = await one.ask(f"{QUESTION} [[verdict=insufficient,insufficient]]", options={"max_retries": 2})
            assert corrected.json()["refusal"]["searched"]
            for model in ("gateway", "plain", "shelf"):
                chat = {"model": model, "messages": [{"role": "user", "content": QUESTION}]}
                assert (await one.send("POST", "/v1/chat/completions", json=chat)).status_code == 200
            for model in (f"{MINE}/gateway", MINE):
                chat = {"model": model, "messages": [{"role": "user", "content": QUESTION}]}
                assert (await one.send("POST", "/v1/chat/completions", json=chat)).status_code == 404
            part = {"id": "m", "role": "user", "parts": [{"type": "text", "text": QUESTION}]}
            ui = {"id": "c", "trigger": "submit-message", "messages": [part]}
            assert (await one.send("POST", "/api/chat", json=ui)).status_code == 200
    assert WORDS[MINE] in mine.read
    assert WORDS[YOURS] not in mine.read
    assert WORDS[YOURS] in yours.read
    assert WORDS[MINE] not in yours.read


async def test_no_id_of_a_document_passage_or_gap_is_good_for_another_tenant(tenants: Tenants, server: Running) -> None:
    async with client(server.base_url) as http:
        mine, yours = Http(http, tenants.keys[MINE]), Http(http, tenants.keys[YOURS])
        gap_id = (await mine.ask(REFUSED)).json()["refusal"]["gap_id"]
        assert gap_id in (await mine.send("GET", "/v1/gaps")).text
        for path in ("/v1/gaps", "/v1/gaps?collection=default", f"/v1/gaps?limit={LIMIT_MOST}"):
            assert (await yours.send("GET", path)).json() == {"gaps": []}
        listed = (await mine.send("GET", "/v1/documents")).json()["documents"]
        assert [one["id"] for one in listed] == [f"{MINE}-default"]
        for collection in COLLECTIONS:
            document_id = f"{MINE}-{collection}"
            assert WORDS[MINE] in (await mine.send("GET", f"/v1/passages/{document_id}:0")).text
            assert (await yours.send("GET", f"/v1/passages/{document_id}:0")).status_code == 404
            assert (await yours.send("DELETE", f"/v1/documents/{document_id}")).status_code == 404
            theirs = (await yours.send("GET", f"/v1/documents?collection={collection}")).json()["documents"]
            assert [one["id"] for one in theirs] == [f"{YOURS}-{collection}"]
        page = cursor((datetime.max.replace(tzinfo=UTC), f"{MINE}-default"))
        assert MINE not in (await yours.send("GET", f"/v1/documents?after={page}")).text
        for collection in COLLECTIONS:  # a document of the same name, in a collection of the same name
            same = {"title": f"{MINE}-{collection}", "text": "Yours, under the name of mine.", "collection": collection}
            assert (await yours.send("POST", "/v1/documents", json=same)).status_code == 200
            assert WORDS[MINE] in (await mine.send("GET", f"/v1/passages/{MINE}-{collection}:0")).text
    assert WORDS[MINE] not in yours.read
    assert gap_id not in yours.read


async def test_no_kept_answer_is_resumed_stopped_or_given_again_to_another_tenant(
    tenants: Tenants, server: Running
) -> None:
    async with client(server.base_url) as http:
        mine, yours = Http(http, tenants.keys[MINE]), Http(http, tenants.keys[YOURS])
        key = {"idempotency-key": "the-same"}
        answer_id = (await mine.ask(QUESTION, key)).json()["answer_id"]
        assert (await mine.ask(QUESTION, key)).json()["answer_id"] == answer_id
        again = (await yours.ask(QUESTION, key)).json()
        assert again["answer_id"] != answer_id
        assert (await yours.ask("Another question?", {"idempotency-key": "of-mine"})).status_code == 200
        assert (await mine.ask(QUESTION, {"idempotency-key": "of-mine"})).status_code == 200
        events = f"/v1/answers/{answer_id}/events"
        for last in (None, f"{answer_id}.0", f"{answer_id}.2"):
            headers = {} if last is None else {"last-event-id": last}
            assert (await yours.send("GET", events, headers)).status_code == 404
        for last in (f"{answer_id}.0", f"{answer_id}.1"):
            assert (await yours.ask(QUESTION, {"last-event-id": last})).status_code == 409
        assert (await yours.send("DELETE", f"/v1/answers/{answer_id}")).status_code == 404
        assert (await mine.send("GET", events)).status_code == 200
    assert answer_id not in yours.read.replace(events, "")
    assert WORDS[MINE] not in yours.read


async def test_what_one_tenants_answer_left_in_the_cache_is_not_the_others(tenants: Tenants, server: Running) -> None:
    async with client(server.base_url) as http:
        mine, yours = Http(http, tenants.keys[MINE]), Http(http, tenants.keys[YOURS])
        gated = {"options": {"verify": "gate"}}
        first, second = [(await mine.ask(CHECKED, **gated)).json() for _ in range(2)]
        assert (first["attempts"], second["attempts"]) == (1, 0), "the cache gives it to its own tenant"
        assert (await yours.ask(CHECKED, **gated)).json()["attempts"] == 1
    assert WORDS[MINE] in mine.read
    assert WORDS[MINE] not in yours.read
