"""Clients that measure exactly, in a process of their own: one thread, plain sockets, the end stamped by the kernel with the last byte.

Reads `{port, questions, rate}` as JSON on stdin; writes on stdout, when the last answer is over, what `Measured` holds.
"""

import json
import selectors
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.support.gateway_process import ROOT

LIMIT_S = 180.0
READ_BYTES = 262_144
STAMP = 35  # SO_TIMESTAMPNS and SCM_TIMESTAMPNS of Linux: seconds and nanoseconds of the clock that spans use too
STAMPED = struct.Struct("qq")


@dataclass(slots=True)
class Measured:
    """What the clients went through: seconds and path by trace id; how late their own loop was; how many ends the kernel stamped."""

    total_s: dict[str, float] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    lags_s: list[float] = field(default_factory=list)
    stamped: int = 0


@dataclass(slots=True)
class Exchange:
    """One request: sent at `began_ns`, its newest byte came at `came_ns`."""

    stream: socket.socket
    began_ns: int
    came_ns: int = 0
    is_stamped: bool = False
    body: bytearray = field(default_factory=bytearray)

    def read(self) -> bool:
        """Takes what has come; whether that was all."""
        data, notes, _, _ = self.stream.recvmsg(READ_BYTES, socket.CMSG_SPACE(STAMPED.size))
        if not data:
            return True
        stamps = [STAMPED.unpack(note) for level, kind, note in notes if (level, kind) == (socket.SOL_SOCKET, STAMP)]
        self.is_stamped = bool(stamps)
        self.came_ns = stamps[0][0] * 1_000_000_000 + stamps[0][1] if stamps else time.time_ns()
        self.body += data
        return False

    def told(self, event: str) -> dict[str, Any]:
        """The data of one event of the answer."""
        text = unchunked(bytes(self.body)).decode()
        (block,) = [each for each in text.split("\n\n") if f"event: {event}\n" in each + "\n"]
        (data,) = [line.removeprefix("data: ") for line in block.splitlines() if line.startswith("data: ")]
        return dict(json.loads(data))


def unchunked(answer: bytes) -> bytes:
    """The body of an HTTP response in chunks."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        body, rest = body + rest[:length], rest[length + 2 :]
    return body


def begin(port: int, question: str) -> Exchange:
    """Connects, then sends; the time counts from before the sending."""
    stream = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
    stream.setsockopt(socket.SOL_SOCKET, STAMP, 1)
    body = json.dumps({"question": question}).encode()
    head = (
        "POST /v1/answers HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    began_ns = time.time_ns()
    stream.sendall(head.encode() + body)
    return Exchange(stream, began_ns)


def load(port: int, questions: Sequence[str], rate: float) -> Measured:
    """Asks at an even rate, whatever the answers take. Raises TimeoutError where they take LIMIT_S in all."""
    measured, began = Measured(), time.perf_counter()
    asked = finished = 0
    with selectors.DefaultSelector() as waiting:
        while finished < len(questions):
            now = time.perf_counter() - began
            if now > LIMIT_S:
                raise TimeoutError(f"{finished} of {len(questions)} answers within {LIMIT_S:g} s")
            due = asked / rate if asked < len(questions) else LIMIT_S
            if now >= due:
                measured.lags_s.append(now - due)
                exchange = begin(port, questions[asked])
                waiting.register(exchange.stream, selectors.EVENT_READ, exchange)
                asked += 1
                continue
            for key, _ in waiting.select(due - now):
                if key.data.read():
                    waiting.unregister(key.fileobj)
                    key.data.stream.close()
                    finished += 1
                    note(measured, key.data)
    return measured


def note(measured: Measured, exchange: Exchange) -> None:
    """An answer is over."""
    trace_id = exchange.told("started")["trace_id"]
    measured.total_s[trace_id] = (exchange.came_ns - exchange.began_ns) / 1e9
    measured.paths[trace_id] = exchange.told("done")["path"]
    measured.stamped += exchange.is_stamped


def measured_apart(port: int, questions: Sequence[str], rate: float) -> Measured:
    """`load` in a process of its own. Blocks. Raises CalledProcessError or TimeoutExpired."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.precise_client"],
        input=json.dumps({"port": port, "questions": list(questions), "rate": rate}),
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT_S + 30,
        check=True,
        cwd=ROOT,
    )
    return Measured(**json.loads(done.stdout))


if __name__ == "__main__":
    json.dump(asdict(load(**json.load(sys.stdin))), sys.stdout)
