"""A client of resumable answers that is cut off again and again, at bytes that chance picks, and reads on where it stopped."""

import json
import random
from dataclasses import dataclass, field
from typing import Any

import anyio

LIMIT_S = 30.0
FRAME_END = b"\n\n"


@dataclass(slots=True)
class Read:
    """What arrived whole: events as (id, name, data), over all connections."""

    events: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    connections: int = 0
    ports: list[int] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(data["text"] for _, name, data in self.events if name == "token")

    @property
    def last_id(self) -> str:
        return self.events[-1][0] if self.events else ""

    @property
    def is_done(self) -> bool:
        return bool(self.events) and self.events[-1][1] == "done"

    def take(self, frame: bytes) -> None:
        fields = dict(line.split(b": ", 1) for line in frame.splitlines() if not line.startswith(b":"))
        if fields:
            self.events.append((fields[b"id"].decode(), fields[b"event"].decode(), json.loads(fields[b"data"])))


async def read_with_cuts(
    ports: list[int], question: str, chance: random.Random, *, cuts: int, bytes_most: int, key: str | None = None
) -> Read:
    """Asks at the first of `ports`, is cut `cuts` times after 1 to `bytes_most` bytes of the response, and goes on, at any of `ports`."""
    read = Read()
    with anyio.fail_after(LIMIT_S):
        while not read.is_done:
            limit = chance.randint(1, bytes_most) if read.connections < cuts else None
            if read.events:
                head = resuming(read.last_id)
                port = chance.choice(ports)
            else:  # cut before the first event arrived: its id is not known, so it is asked again, under the key
                head = asking(question, key)
                port = ports[0]
            read.ports.append(port)
            read.connections += 1
            await one_connection(port, head, limit, read)
    return read


def asking(question: str, key: str | None) -> bytes:
    body = json.dumps({"question": question, "options": {"resumable": True}}).encode()
    headers = [
        "POST /v1/answers HTTP/1.1",
        "host: localhost",
        "content-type: application/json",
        f"content-length: {len(body)}",
        *([] if key is None else [f"idempotency-key: {key}"]),
    ]
    return "\r\n".join(headers).encode() + b"\r\n\r\n" + body


def resuming(last_id: str) -> bytes:
    answer_id = last_id.partition(".")[0]
    return (
        f"GET /v1/answers/{answer_id}/events HTTP/1.1\r\nhost: localhost\r\nlast-event-id: {last_id}\r\n\r\n".encode()
    )


async def one_connection(port: int, request: bytes, limit: int | None, read: Read) -> None:
    """Sends `request` and takes what arrives, until `done`, the end, or `limit` bytes of the response's body."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(request)
        raw = b""
        while b"\r\n\r\n" not in raw:
            raw += await stream.receive()
        head, _, rest = raw.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise AssertionError(raw.decode("latin-1"))
        body, taken = Dechunked(), 0
        while True:
            for byte_run in body.feed(rest):
                room = len(byte_run) if limit is None else min(len(byte_run), limit - taken)
                taken += room
                body.text += byte_run[:room]
                while FRAME_END in body.text:
                    frame, _, body.text = body.text.partition(FRAME_END)
                    read.take(frame)
                    if read.events and read.events[-1][1] == "failed":
                        raise AssertionError(read.events[-1])
                if read.is_done or (limit is not None and taken >= limit):
                    return
            try:
                rest = await stream.receive()
            except anyio.EndOfStream:
                return


class Dechunked:
    """The data of a body in chunks."""

    def __init__(self) -> None:
        self.text = b""
        self._raw = b""

    def feed(self, data: bytes) -> list[bytes]:
        self._raw += data
        found = []
        while b"\r\n" in self._raw:
            size, _, rest = self._raw.partition(b"\r\n")
            length = int(size, 16)
            if len(rest) < length + 2:
                break
            found.append(rest[:length])
            self._raw = rest[length + 2 :]
        return found
