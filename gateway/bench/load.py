"""The load client of a bench: one raw connection per question, every read stamped as it arrives. asyncio only."""

import asyncio
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import anyio

ANSWER_LIMIT_S = 30.0
ANSWER_MARK = b"event: token"
REFUSAL_MARK = b"event: refusal"


@dataclass(slots=True)
class Reply:
    """What a client received, byte for byte, and when (`time.monotonic()`, from before it connected). A refusal is an answer too."""

    began_s: float
    asked_s: float | None = None
    """When it was connected and the request was written."""
    received: bytearray = field(default_factory=bytearray)
    first_answer_s: float | None = None
    refused_s: float | None = None
    ended_s: float | None = None

    def take(self, data: bytes, now_s: float) -> None:
        """Notes `data`; the answer begins where the first `token` event does."""
        seen = max(0, len(self.received) - len(REFUSAL_MARK))
        self.received += data
        if self.first_answer_s is None and ANSWER_MARK in self.received[seen:]:
            self.first_answer_s = now_s
        if self.refused_s is None and REFUSAL_MARK in self.received[seen:]:
            self.refused_s = now_s

    @property
    def events(self) -> list[tuple[str, dict[str, Any]]]:
        """The events of the stream, read after it has ended."""
        return events(unchunked(bytes(self.received)))

    @property
    def text(self) -> str:
        return "".join(data["text"] for name, data in self.events if name == "token")

    @property
    def done(self) -> dict[str, Any]:
        """The data of the last event. Raises AssertionError where it is not `done`."""
        name, data = self.events[-1]
        assert name == "done", (name, data)
        return data


class Reading(asyncio.Protocol):
    """Sends one request and stamps what comes back, as it comes off the socket."""

    def __init__(self, request: bytes, reply: Reply) -> None:
        self._request = request
        self._reply = reply
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._reply.asked_s = time.monotonic()
        cast(asyncio.Transport, transport).write(self._request)  # uvloop's own are not registered as such

    def data_received(self, data: bytes) -> None:
        self._reply.take(data, time.monotonic())

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._reply.ended_s = time.monotonic()
        self.ended.set()


async def ask(port: int, question: str, fields: Mapping[str, object], leave_after_s: float | None = None) -> Reply:
    """Asks on a connection of its own and reads to its end, or leaves (the connection is aborted) after so many seconds."""
    request = request_bytes(question, fields)
    reply = Reply(time.monotonic())
    transport, reading = await asyncio.get_running_loop().create_connection(
        lambda: Reading(request, reply), "127.0.0.1", port
    )
    try:
        with anyio.fail_after(ANSWER_LIMIT_S), anyio.move_on_after(leave_after_s):
            await reading.ended.wait()
    finally:
        transport.abort()
    return reply


def request_bytes(question: str, fields: Mapping[str, object]) -> bytes:
    """A question as a whole request, the last one on its connection."""
    body = json.dumps({"question": question, **fields}).encode()
    head = "POST /v1/answers HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def unchunked(response: bytes) -> bytes:
    """The body of a whole chunked response. Raises AssertionError for any status but 200 and for a body that is cut short."""
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), response[:300]
    whole = bytearray()
    while True:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            return bytes(whole)
        assert body[length : length + 2] == b"\r\n"
        whole += body[:length]
        body = body[length + 2 :]


def events(body: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Name and data of every event of a native stream, in order."""
    found = []
    for block in re.split(rb"\n\n", body):
        fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if line and not line.startswith(b":"))
        if b"event" in fields:
            found.append((fields[b"event"].decode(), json.loads(fields[b"data"])))
    return found


def in_turns(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """One of each, alternating, so that what disturbs the machine disturbs both."""
    return [each for pair in zip(first, second, strict=True) for each in pair]
