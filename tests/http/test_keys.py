"""Keys from the database at work: roles, collections, rotation and the end of a key, at every gateway and without a restart."""

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
import psycopg
import pytest

from gateway.access.caller import Role
from gateway.access.key_ring import open_key_ring
from gateway.access.keys import Keys
from gateway.access.secret import PREFIX
from gateway.access.stored_keys import NewKey
from tests.support.clients import client
from tests.support.gateway_app import Running, Spans, running, scripted_house
from tests.support.tenants import MINE, Tenants

pytestmark = pytest.mark.anyio

ASKED = {"question": "What is it?", "stream": False}
CHAT = {"model": "gateway", "messages": [{"role": "user", "content": "What is it?"}]}
UI = {
    "id": "c",
    "trigger": "submit-message",
    "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "What?"}]}],
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def server(tenants: Tenants) -> AsyncIterator[Running]:
    async with running(tenants.house) as served:
        yield served


def bearing(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


async def made(tenants: Tenants, *roles: Role, **bound: Any) -> str:
    """The secret of a new key of MINE, once the gateway knows it."""
    _, secret = await tenants.stored_keys.create(NewKey(MINE, "test", frozenset(roles), **bound))
    with anyio.fail_after(10):
        while not await knows(tenants.house.keys, secret):  # noqa: ASYNC110  a ring tells nobody
            await anyio.sleep(0.01)
    return secret


async def knows(keys: Keys, secret: str) -> bool:
    from gateway.problems import Unauthorized

    try:
        keys.caller(bearing(secret))
    except Unauthorized:
        return False
    return True


ROUTES: list[tuple[str, str, Any, frozenset[Role]]] = [
    ("POST", "/v1/answers", ASKED, frozenset({Role.ASK})),
    ("POST", "/v1/chat/completions", CHAT, frozenset({Role.ASK})),
    ("POST", "/api/chat", UI, frozenset({Role.ASK})),
    ("GET", "/v1/models", None, frozenset({Role.ASK})),
    ("GET", "/v1/models/gateway", None, frozenset({Role.ASK})),
    ("GET", "/v1/answers/0123/events", None, frozenset({Role.ASK})),
    ("DELETE", "/v1/answers/0123", None, frozenset({Role.ASK})),
    ("GET", "/v1/passages/mine-default:0", None, frozenset({Role.ASK})),
    ("GET", "/v1/documents", None, frozenset({Role.ASK, Role.INGEST})),
    ("POST", "/v1/documents", {"title": "Tea", "text": "Tea."}, frozenset({Role.INGEST})),
    ("DELETE", "/v1/documents/none", None, frozenset({Role.INGEST})),
    ("GET", "/v1/gaps", None, frozenset({Role.GAPS})),
]


async def test_each_role_opens_its_routes_and_no_other(tenants: Tenants, server: Running) -> None:
    secrets = {role: await made(tenants, role) for role in Role}
    async with client(server.base_url) as http:
        for method, path, body, roles in ROUTES:
            for role, secret in secrets.items():
                response = await http.request(method, path, headers=bearing(secret), json=body)
                is_let_in = role in roles or role is Role.ADMIN
                assert (response.status_code == 403) is not is_let_in, (method, path, role, response.text)
                if not is_let_in:
                    error = response.json().get("error", response.json())
                    assert "role" in str(error)
                    assert secret not in response.text
            assert (await http.request(method, path, json=body)).status_code == 401


async def test_without_keys_a_name_that_was_led_here_gets_nothing_and_probes_are_answered() -> None:
    """DNS rebinding: to the browser the page is of the same origin. A kubelet asks by the pod's address."""
    async with running(scripted_house()) as served, client(served.base_url) as http:
        for method, path, body, _ in ROUTES:
            response = await http.request(method, path, json=body, headers={"host": f"evil.example:{served.port}"})
            assert response.status_code == 403, (method, path, response.text)
            assert "GATEWAY_ALLOWED_HOSTS" in response.text
        for path in ("/healthz", "/readyz"):
            assert (await http.get(path, headers={"host": "10.0.0.7:8080"})).status_code == 200
        named = await http.post("/v1/answers", json=ASKED, headers={"host": f"localhost:{served.port}"})
        assert named.status_code == 200
    kept = replace(scripted_house(), keys=Keys(["one"]))
    async with running(kept) as served, client(served.base_url, headers=bearing("one")) as http:
        led = await http.post("/v1/answers", json=ASKED, headers={"host": "evil.example"})
        assert led.status_code == 200, "a key says who asks"


async def test_each_wire_says_no_in_its_own_shape(tenants: Tenants, server: Running) -> None:
    secret = await made(tenants, Role.GAPS)
    async with client(server.base_url) as http:
        for headers, status, kind in (({}, 401, "unauthorized"), (bearing(secret), 403, "forbidden")):
            native = await http.post("/v1/answers", headers=headers, json=ASKED)
            assert (native.status_code, native.json()["error"]["type"]) == (status, kind)
            assert native.json()["error"]["retryable"] is False
            chat = await http.post("/v1/chat/completions", headers=headers, json=CHAT)
            assert (chat.status_code, chat.json()["error"]["code"]) == (
                status,
                {401: "invalid_api_key"}.get(status, kind),
            )
            assert chat.json()["error"]["type"] == {401: "authentication_error", 403: "permission_error"}[status]
            assert (await http.post("/api/chat", headers=headers, json=UI)).status_code == status
            assert ("www-authenticate" in native.headers) is (status == 401)


async def test_a_key_of_one_collection_has_it_alone(tenants: Tenants, server: Running) -> None:
    secret = await made(tenants, Role.ADMIN, collections=frozenset({"default"}))
    async with client(server.base_url, headers=bearing(secret)) as http:
        assert (await http.post("/v1/answers", json=ASKED)).status_code == 200
        other = {"collection": "shared-name"}
        for refused in (
            await http.post("/v1/answers", json=ASKED | other),
            await http.post("/v1/answers", json=ASKED | {"collection": "there-is-none"}),
            await http.post("/v1/chat/completions", json=CHAT | {"model": "shelf"}),
            await http.get("/v1/models/shelf"),
            await http.get("/v1/documents", params=other),
            await http.post("/v1/documents", json={"title": "Tea", "text": "Tea.", **other}),
            await http.get("/v1/gaps", params=other),
        ):
            assert refused.status_code == 403, refused.text
            assert "bound to other collections" in refused.text
        assert (await http.get("/v1/passages/mine-shared-name:0")).status_code == 404
        assert (await http.delete("/v1/documents/mine-shared-name")).status_code == 404
        assert [one["id"] for one in (await http.get("/v1/models")).json()["data"]] == ["gateway", "plain"]
        corrected = ASKED | {"question": "What? [[verdict=insufficient,sufficient]]", "options": {"max_retries": 2}}
        answer = (await http.post("/v1/answers", json=corrected)).json()
        assert "shared-name" not in str(answer["sources"]), "the source that is another collection is not searched"
        assert "next_source" not in str(answer["retries"])


async def test_the_cache_gives_a_bound_key_nothing_of_a_collection_that_is_not_its_own(
    tenants: Tenants, server: Running
) -> None:
    gated = {"verify": "gate", "max_retries": 2}
    asked = ASKED | {"question": "Which is it? [[verdict=insufficient,sufficient]]", "options": gated}
    free, bound = await made(tenants, Role.ASK), await made(tenants, Role.ASK, collections=frozenset({"default"}))
    async with client(server.base_url) as http:
        for attempts in (3, 0):
            answer = (await http.post("/v1/answers", headers=bearing(free), json=asked)).json()
            assert answer["attempts"] == attempts, "found in another collection, then given from the cache"
            assert "shared-name" in str(answer["sources"])
        answer = (await http.post("/v1/answers", headers=bearing(bound), json=asked)).json()
        assert answer["attempts"] > 0
        assert "shared-name" not in str(answer)


async def test_gaps_of_other_collections_are_not_shown_to_a_key_that_is_bound(
    tenants: Tenants, server: Running
) -> None:
    everything, bound = (
        await made(tenants, Role.ADMIN),
        await made(tenants, Role.GAPS, collections=frozenset({"default"})),
    )
    async with client(server.base_url) as http:
        for collection in ("default", "shared-name"):
            refused = {
                "question": f"Who in {collection}? [[verdict=insufficient]]",
                "collection": collection,
                "stream": False,
            }
            await http.post("/v1/answers", headers=bearing(everything), json=refused)
        all_of_them = (await http.get("/v1/gaps", headers=bearing(everything))).json()["gaps"]
        assert {gap["collection"] for gap in all_of_them} == {"default", "shared-name"}
        shown = (await http.get("/v1/gaps", headers=bearing(bound))).json()["gaps"]
        assert [gap["collection"] for gap in shown] == ["default"]


async def test_keys_are_rotated_without_a_restart_and_one_that_is_revoked_stops_at_every_gateway(
    tenants: Tenants, database_url: str
) -> None:
    async with (
        open_key_ring(database_url) as elsewhere,
        running(tenants.house) as here,
        running(replace(scripted_house(), keys=Keys((), elsewhere))) as there,
        client(here.base_url) as http,
        client(there.base_url) as other,
    ):

        async def statuses(secret: str) -> set[int]:
            return {(await one.get("/v1/models", headers=bearing(secret))).status_code for one in (http, other)}

        old_id, old = await tenants.stored_keys.create(NewKey(MINE, "old", frozenset({Role.ASK})))
        await until(statuses, old, {200})
        _, new = await tenants.stored_keys.create(NewKey(MINE, "new", frozenset({Role.ASK})))
        await until(statuses, new, {200})
        assert await statuses(old) == {200}, "both are good until the old one is revoked"
        assert await tenants.stored_keys.revoke(old_id)
        await until(statuses, old, {401})
        assert await statuses(new) == {200}
        assert not await tenants.stored_keys.revoke(old_id)


async def until(statuses: Any, secret: str, wanted: set[int]) -> None:
    with anyio.fail_after(10):
        while await statuses(secret) != wanted:  # noqa: ASYNC110  a ring tells nobody
            await anyio.sleep(0.01)


async def test_a_change_by_hand_is_heard_too_and_a_lost_connection_is_made_again(
    tenants: Tenants, server: Running, database_url: str
) -> None:
    secret = await made(tenants, Role.ASK)
    with psycopg.connect(database_url, autocommit=True) as owner:
        everyone = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        owner.execute(f"SELECT pg_terminate_backend(pid) {everyone}".encode())
        owner.execute("UPDATE api_key SET revoked_at = now() WHERE name = 'test'")
    keys = tenants.house.keys
    with anyio.fail_after(15):
        while await knows(keys, secret):  # noqa: ASYNC110  a ring tells nobody
            await anyio.sleep(0.02)


async def test_no_secret_is_written_anywhere(
    tenants: Tenants, caplog: pytest.LogCaptureFixture, database_url: str
) -> None:
    spans = Spans()
    house = replace(tenants.house, telemetry=scripted_house(processors=[spans]).telemetry)
    secret = tenants.keys[MINE]
    with caplog.at_level(logging.DEBUG):
        async with running(house) as served, client(served.base_url) as http:
            seen = ""
            for given in (secret, secret + "x", secret[:-1]):
                for method, path, body, _ in ROUTES:
                    seen += (await http.request(method, path, headers=bearing(given), json=body)).text
            for path in ("/readyz", "/healthz", "/metrics", "/openapi.json", "/latency/slowest"):
                seen += (await http.get(path, headers=bearing(secret))).text
    told = [*(record.getMessage() for record in caplog.records if record.name != "httpcore"), seen]
    told += [
        f"{span.name} {dict(span.attributes or {})} {[(e.name, dict(e.attributes or {})) for e in span.events]}"
        for span in spans.ended
    ]
    assert spans.ended
    assert not [text for text in told if secret[len(PREFIX) : -1] in text]
    with psycopg.connect(database_url) as connection:
        stored = str(connection.execute("SELECT k::text, encode(digest, 'escape') FROM api_key k").fetchall())
    assert secret[len(PREFIX) :] not in stored
