"""Pages of other origins: none may ask by default, those that are named may, over a real socket."""

from dataclasses import replace

import pytest

from gateway.access.keys import Keys
from gateway.settings import SettingsInvalid, read_settings
from tests.support.clients import client
from tests.support.gateway_app import running, scripted_house

pytestmark = pytest.mark.anyio

NAMED, OTHER = "https://app.example", "https://evil.example"
ROUTES = ("/v1/answers", "/v1/chat/completions", "/api/chat", "/v1/documents")


def preflight(origin: str) -> dict[str, str]:
    return {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,last-event-id,x-stainless-lang,cache-control",
    }


def asked_from(origin: str) -> dict[str, str]:
    return {"origin": origin, "sec-fetch-site": "cross-site"}


@pytest.mark.parametrize("route", ROUTES)
async def test_by_default_no_page_of_another_origin_is_let_in(route: str) -> None:
    async with running(scripted_house()) as server, client(server.base_url) as http:
        asked = await http.options(route, headers=preflight(NAMED))
        assert asked.status_code == 405
        assert not [name for name in asked.headers if name.startswith("access-control")]


@pytest.mark.parametrize("route", ROUTES)
async def test_a_browser_is_told_of_the_origins_that_are_named_and_of_no_other(route: str) -> None:
    house = replace(scripted_house(), origins=(NAMED,))
    async with running(house) as server, client(server.base_url) as http:
        named, other = [await http.options(route, headers=preflight(origin)) for origin in (NAMED, OTHER)]
    assert (named.status_code, named.headers["access-control-allow-origin"]) == (200, NAMED)
    assert "POST" in named.headers["access-control-allow-methods"]
    assert (other.status_code, other.headers.get("access-control-allow-origin")) == (400, None)


async def test_an_answer_is_shown_to_pages_of_the_named_origin_alone() -> None:
    house = replace(scripted_house(), origins=(NAMED,), keys=Keys(origins=(NAMED,)))
    async with running(house) as server, client(server.base_url) as http:
        for stream in (True, False):
            body = {"question": "Is it?", "stream": stream}
            named = await http.post("/v1/answers", json=body, headers=asked_from(NAMED))
            assert (named.status_code, named.headers["access-control-allow-origin"]) == (200, NAMED)
            assert named.text.count("clean") == 1
            other = await http.post("/v1/answers", json=body, headers=asked_from(OTHER))
            assert (other.status_code, other.headers.get("access-control-allow-origin")) == (403, None)


@pytest.mark.parametrize("origin", ["*", "null", "app.example", "https://app.example/", "https://app.example:port"])
def test_only_an_origin_as_browsers_write_it_can_be_named(origin: str) -> None:
    with pytest.raises(SettingsInvalid, match="GATEWAY_CORS_ORIGINS"):
        read_settings(cors_origins=f"https://one.example,{origin}")


async def test_a_page_of_a_named_origin_needs_a_key_where_one_is_needed() -> None:
    house = replace(scripted_house(), origins=(NAMED,), keys=Keys(["secret"], origins=(NAMED,)))
    async with running(house) as server, client(server.base_url) as http:
        refused = await http.post("/v1/answers", json={"question": "Is it?"}, headers=asked_from(NAMED))
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, NAMED)
