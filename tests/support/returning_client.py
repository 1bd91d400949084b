"""A client that wants its answer whatever happens: it does what the documents say and nothing cleverer.

It asks with an `Idempotency-Key`; turned away or cut off before its first event, it asks again under the key, after `Retry-After`;
cut off later, it reads on after its last event; told that the answer is lost or failed for now, it asks anew under the same key.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle

import anyio
from anyio.abc import ByteStream

from tests.support.cut_client import FRAME_END, Dechunked, Read, resuming

TURNED_AWAY = frozenset({429, 502, 503, 504})
NOTHING_KEPT = frozenset({404, 409})
PAUSE_S, PAUSE_MOST_S = 0.05, 1.0
CONNECT_S = 5.0
SILENCE_S = 30.0  # twice what passes between two pings


class Refused(Exception):
    """Raised when a server answers with a status that no client can do anything about."""


@dataclass(slots=True)
class Journey:
    """How one answer was got: what was read last, over how many connections, at which servers, turned away how often and asked anew why.

    `read_on` counts the connections that began after an event; those that another server served are `read_elsewhere`.
    """

    read: Read = field(default_factory=Read)
    connections: int = 0
    turned_away: int = 0
    read_on: int = 0
    read_elsewhere: int = 0
    anew: list[str] = field(default_factory=list)
    servers: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [name for _, name, _ in self.read.events]

    @property
    def is_in_order(self) -> bool:
        """Whether every event came once, none is missing, and `done` is the last."""
        ids = [int(each.partition(".")[2]) for each, _, _ in self.read.events]
        return ids == list(range(1, len(ids) + 1)) and self.names[-1:] == ["done"] and self.names.count("done") == 1


@dataclass(slots=True)
class Reply:
    """A response as far as it is read: its status and headers."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)


async def answer(
    port: int,
    question: str,
    key: str,
    *,
    cut: random.Random | None = None,
    limit_s: float = 60.0,
    others: Sequence[int] = (),
) -> Journey:
    """The whole answer. With `cut` the client's connection is broken now and then; each further one goes to the next of `others`.

    Raises TimeoutError, or Refused.
    """
    journey, ports = Journey(), cycle(others or [port])
    with anyio.fail_after(limit_s):
        while True:
            events = len(journey.read.events)
            request = resuming(journey.read.last_id) if events else asking(question, key)
            reply = await _connection(port, request, journey, _bytes_until_cut(cut))
            port = next(ports)
            if reply.status in TURNED_AWAY:
                journey.turned_away += 1
                await anyio.sleep(pause_s(reply))
            elif events and reply.status in NOTHING_KEPT:
                _ask_anew(journey, f"status {reply.status}")
            elif events and reply.status == 204:
                return journey
            elif reply.status not in (0, 200):
                raise Refused(f"status {reply.status}")
            elif journey.read.is_done:
                if "failed" not in journey.names:
                    return journey
                failed = next(data for _, name, data in journey.read.events if name == "failed")
                if not failed["retryable"]:
                    return journey
                _ask_anew(journey, failed["type"])
                await anyio.sleep(PAUSE_MOST_S)
            else:
                await anyio.sleep(PAUSE_S)


def pause_s(reply: Reply) -> float:
    return min(float(reply.headers.get("retry-after", PAUSE_S)), PAUSE_MOST_S)


def asking(question: str, key: str) -> bytes:
    body = json.dumps({"question": question, "options": {"resumable": True}}).encode()
    head = (
        "POST /v1/answers HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"idempotency-key: {key}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _ask_anew(journey: Journey, why: str) -> None:
    journey.anew.append(why)
    journey.read = Read()


def _bytes_until_cut(cut: random.Random | None) -> int | None:
    return cut.randint(1, 3_000) if cut is not None and cut.random() < 0.5 else None


async def _connection(port: int, request: bytes, journey: Journey, limit_bytes: int | None) -> Reply:
    """Sends `request` and reads until `done`, the end, or so many bytes of the body; a connection that breaks is an end."""
    reply, had = Reply(), bool(journey.read.events)
    try:
        with anyio.fail_after(CONNECT_S):
            stream = await anyio.connect_tcp("127.0.0.1", port)
        async with stream:
            await stream.send(request)
            journey.connections += 1
            await _read(stream, journey, reply, limit_bytes)
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError, TimeoutError):
        pass
    if had and reply.status == 200:
        journey.read_on += 1
        journey.read_elsewhere += journey.servers[-1] != journey.servers[-2]
    return reply


async def _read(stream: ByteStream, journey: Journey, reply: Reply, limit_bytes: int | None) -> None:
    raw = b""
    while b"\r\n\r\n" not in raw:
        raw += await _receive(stream)
    head, _, rest = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    reply.status = int(first.split(" ")[1])
    reply.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if reply.status != 200:
        return
    journey.servers.append(reply.headers.get("x-server", "").rpartition(", ")[2])  # nginx names all that it tried
    body, taken = Dechunked(), 0
    while True:
        for run in body.feed(rest):
            taken += len(run)
            body.text += run
            while FRAME_END in body.text:
                frame, _, body.text = body.text.partition(FRAME_END)
                journey.read.take(frame)
        if journey.read.is_done or (limit_bytes is not None and taken >= limit_bytes):
            return
        rest = await _receive(stream)


async def _receive(stream: ByteStream) -> bytes:
    with anyio.fail_after(SILENCE_S):
        return await stream.receive()
