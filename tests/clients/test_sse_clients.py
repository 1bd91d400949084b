"""Two event stream parsers for Python on the native route, `httpx-sse` and `sseclient-py`: five scenarios each."""

import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from anyio import to_thread
from sseclient import SSEClient

from tests.support.clients import client, events_of
from tests.support.conversations import FAULT, REFUSED, assert_nothing_goes_on, question, text_of
from tests.support.gateway_app import Running

pytestmark = pytest.mark.anyio


@dataclass(slots=True)
class Seen:
    """The names and data that a client dispatched, in order."""

    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(data["text"] for name, data in self.events if name == "token")

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.events]

    def one(self, name: str) -> dict[str, Any]:
        (found,) = [data for seen, data in self.events if seen == name]
        return found

    def take(self, name: str, data: str, scenario: str) -> bool:
        """Whether the client goes on reading."""
        self.events.append((name, json.loads(data)))
        return not (scenario == "stop" and name == "token")


async def by_httpx_sse(gateway: Running, scenario: str) -> Seen:
    seen = Seen()
    async with (
        client(gateway.base_url) as http,
        http.stream("POST", "/v1/answers", json={"question": question(scenario)}) as response,
    ):
        async for event in events_of(response):
            if not seen.take(event.event, event.data, scenario):
                break
    return seen


async def by_sseclient(gateway: Running, scenario: str) -> Seen:
    return await to_thread.run_sync(in_a_thread, gateway.base_url, scenario)


class Bytes(Iterator[bytes]):
    """A response as sseclient-py reads one: its bytes as they come, and a way to close it."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self._bytes = response.iter_bytes()

    def __next__(self) -> bytes:
        return next(self._bytes)

    def close(self) -> None:
        self._response.close()


def in_a_thread(base_url: str, scenario: str) -> Seen:
    seen = Seen()
    with (
        httpx2.Client(base_url=base_url, trust_env=False, verify=False, timeout=15) as http,
        http.stream("POST", "/v1/answers", json={"question": question(scenario)}) as response,
    ):
        for event in SSEClient(Bytes(response)).events():
            if not seen.take(event.event, event.data, scenario):
                break
    return seen


Reader = Callable[[Running, str], Awaitable[Seen]]
READERS = pytest.mark.parametrize("read", [by_httpx_sse, by_sseclient])


@READERS
async def test_clean_answer_is_whole(gateway: Running, read: Reader) -> None:
    seen = await read(gateway, "clean")
    assert seen.text == text_of("clean")
    assert [passage["n"] for passage in seen.one("sources")["passages"]] == [1, 2, 3]
    assert (seen.names[0], seen.names[-1]) == ("started", "done")
    assert seen.one("done")["path"] == "clean"


@READERS
async def test_second_search_is_told_before_the_text(gateway: Running, read: Reader) -> None:
    seen = await read(gateway, "retry")
    assert seen.text == text_of("retry")
    assert seen.names.index("retry") < seen.names.index("token")
    assert seen.one("done")["path"] == "recovered"


@READERS
async def test_refusal_has_an_event_of_its_own(gateway: Running, read: Reader) -> None:
    seen = await read(gateway, "refusal")
    assert seen.one("refusal")["message"].startswith(REFUSED)
    assert seen.text == ""
    assert seen.one("done")["path"] == "refused"


@READERS
async def test_fault_after_text_was_sent_is_told(gateway: Running, read: Reader) -> None:
    seen = await read(gateway, "fault")
    assert seen.one("failed")["message"] == FAULT
    assert seen.text
    assert text_of("fault").startswith(seen.text)
    assert seen.names[-1] == "done"


@READERS
async def test_closing_the_response_cancels_upstream(gateway: Running, read: Reader) -> None:
    seen = await read(gateway, "stop")
    assert text_of("stop").startswith(seen.text)
    assert seen.names[-1] == "token"
    await assert_nothing_goes_on(gateway)
