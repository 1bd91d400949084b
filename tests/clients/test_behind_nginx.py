"""nginx with its default buffering between the clients and the gateway: they see the same, and as soon."""

from collections.abc import AsyncIterator

import pytest

from tests.support import installed
from tests.support.clients import ask, client
from tests.support.conversations import (
    FAULT,
    REFUSED,
    assert_nothing_goes_on,
    assert_something_goes_on,
    question,
    text_of,
)
from tests.support.gateway_app import Running
from tests.support.nginx import nginx_before
from tests.support.npm_clients import NpmClients, npm_clients

pytestmark = pytest.mark.anyio

CLIENTS = ["openai", "ai useChat", "eventsource", "fetch-event-source"]


@pytest.fixture(scope="module")
async def proxy(gateway: Running, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    folder = tmp_path_factory.mktemp("nginx")
    async with nginx_before(installed.nginx(), gateway.port, folder) as address:
        yield address


@pytest.fixture(scope="module")
async def npm(anyio_backend: object, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NpmClients]:
    async with npm_clients(installed.npm_clients(), tmp_path_factory.mktemp("clients")) as clients:
        yield clients


@pytest.mark.parametrize("name", CLIENTS)
async def test_every_scenario_is_seen_through_nginx_as_without_it(
    gateway: Running, proxy: str, npm: NpmClients, name: str
) -> None:
    for scenario in ("clean", "retry"):
        seen = await npm.ask(proxy, name, scenario, question(scenario))
        assert (seen["outcome"], seen["text"], seen["error"]) == ("finished", text_of(scenario), None)
    seen = await npm.ask(proxy, name, "refusal", question("refusal"))
    assert seen["outcome"] == "finished"
    assert seen["text"].startswith(REFUSED)
    seen = await npm.ask(proxy, name, "fault", question("fault"))
    assert seen["outcome"] == "failed"
    assert FAULT in seen["error"]
    seen = await npm.ask(proxy, name, "stop", question("stop"))
    assert seen["outcome"] == "stopped"
    await assert_nothing_goes_on(gateway)


ROUTES = {
    "/v1/answers": {"question": question("stop")},
    "/v1/chat/completions": {
        "model": "gateway",
        "stream": True,
        "messages": [{"role": "user", "content": question("stop")}],
    },
    "/api/chat": {"messages": [{"role": "user", "parts": [{"type": "text", "text": question("stop")}]}]},
}


@pytest.mark.parametrize("route", ROUTES)
async def test_nothing_is_held_back_not_even_by_compression(gateway: Running, proxy: str, route: str) -> None:
    async with client(proxy) as http:
        async with http.stream("POST", route, json=ROUTES[route], headers={"accept-encoding": "gzip"}) as response:
            assert response.headers["content-encoding"] == "gzip"  # nginx compresses here what it was asked not to
            async for line in response.aiter_lines():
                if "a1d1w0" in line:
                    break
            await assert_something_goes_on(gateway)  # five thousand tokens at twenty a second are still to come
        await assert_nothing_goes_on(gateway)


async def test_silence_longer_than_nginx_waits_is_bridged(
    gateway: Running, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("impatient")
    async with nginx_before(installed.nginx(), gateway.port, folder, "proxy_read_timeout 1s;") as address:
        told = await ask(address, "What is it? [[grade_ms=2500 tokens=3]]")
    assert told.names[-1] == "done"
    assert told.text.count("w") == 3
