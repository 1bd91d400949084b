"""Clients of the native stream for tests: independent parsers over real sockets."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

# httpx-sse imports httpx by name; httpx2 is that library's next version under another name (and comes with the anthropic SDK).
sys.modules.setdefault("httpx", httpx2)

import json  # noqa: E402

from httpx_sse import EventSource, ServerSentEvent  # noqa: E402

LIMIT_S = 15.0  # a bound for a hung test, not an expectation


@dataclass(slots=True)
class Told:
    """The events of one stream, as an independent parser read them."""

    status: int
    headers: httpx2.Headers
    events: list[ServerSentEvent] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [event.event for event in self.events]

    def data(self, name: str) -> list[dict[str, Any]]:
        """The data of every event of that name."""
        return [json.loads(event.data) for event in self.events if event.event == name]

    def one(self, name: str) -> dict[str, Any]:
        """The data of the only event of that name."""
        (found,) = self.data(name)
        return found

    @property
    def text(self) -> str:
        return "".join(token["text"] for token in self.data("token"))


@asynccontextmanager
async def client(base_url: str, **settings: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that no proxy setting of the machine touches. It loads no certificates: they cost 60 ms, and this is plain HTTP."""
    async with httpx2.AsyncClient(
        base_url=base_url, timeout=LIMIT_S, trust_env=False, verify=False, **settings
    ) as opened:
        yield opened


def events_of(response: httpx2.Response) -> AsyncIterator[ServerSentEvent]:
    """The events of a response, as they come."""
    return EventSource(response).aiter_sse()


async def ask(base_url: str, question: str, headers: dict[str, str] | None = None, **fields: Any) -> Told:
    """Asks, reads the stream to its end and returns what it told."""
    async with (
        client(base_url) as http,
        http.stream(
            "POST",
            "/v1/answers",
            content=json.dumps({"question": question, **fields}),
            headers={"content-type": "application/json", **(headers or {})},
        ) as response,
    ):
        told = Told(response.status_code, response.headers)
        async for event in EventSource(response).aiter_sse():
            told.events.append(event)
        return told
