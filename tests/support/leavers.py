"""Clients that leave at a random moment, on every route that answers."""

import json
import random
from contextlib import suppress
from dataclasses import dataclass

import anyio

from tests.support.raw_client import reset_on_close

LONGEST_S = 0.25  # an answer of these scripts takes about as long: some clients leave after its end
SCRIPTS = (
    "[[retrieve_ms=20 grade_ms=60 ttft_ms=40 tps=200 tokens=20]]",
    "[[verdict=partial,sufficient grade_ms=30 ttft_ms=20 tps=200 tokens=20]]",
    "[[verdict=insufficient grade_ms=30 ttft_ms=20]]",
    "[[fault=server_error@5 grade_ms=10 ttft_ms=40 tps=100]]",
)
MOST_BYTES, MORE_THAN_ALL_BYTES = 6_000, 1_000_000
LIMIT_S = 20.0  # a bound for a busy machine


@dataclass(frozen=True, slots=True)
class Route:
    """A route, and how a question is put to it."""

    path: str
    whole: bool = False

    def request(self, question: str) -> bytes:
        match self.path:
            case "/v1/answers":
                body: dict[str, object] = {"question": question, "stream": not self.whole}
            case "/api/chat":
                body = {"messages": [{"role": "user", "parts": [{"type": "text", "text": question}]}]}
            case _:
                messages = [{"role": "user", "content": question}]
                body = {"model": "gateway", "messages": messages, "stream": not self.whole}
        sent = json.dumps(body).encode()
        head = f"POST {self.path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(sent)}"
        head += "\r\nconnection: close"
        return head.encode() + b"\r\n\r\n" + sent


ROUTES = (
    Route("/v1/answers"),
    Route("/v1/answers", whole=True),
    Route("/v1/chat/completions"),
    Route("/v1/chat/completions", whole=True),
    Route("/api/chat"),
)


async def come_and_go(port: int, count: int, seed: int, at_once: int = 10) -> int:
    """`count` clients, `at_once` of them at a time, every route in turn; how many had read something before they left.

    Every other one leaves at a random moment, the rest after a random number of bytes; half of each by RST.
    """
    chance = random.Random(seed)
    readers = 0
    room = anyio.Semaphore(at_once)

    async def one(number: int, route: Route, script: str, stays_s: float, reads_bytes: int) -> None:
        nonlocal readers
        async with room, await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(route.request(f"Number {seed}.{number}? {script}"))
            read_bytes = 0
            with anyio.move_on_after(stays_s), suppress(anyio.EndOfStream):
                while read_bytes < reads_bytes:
                    read_bytes += len(await stream.receive(reads_bytes - read_bytes))
            readers += read_bytes > 0
            if number % 4 < 2:
                reset_on_close(stream)

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            stays_s, reads_bytes = chance.uniform(0, LONGEST_S), MORE_THAN_ALL_BYTES
            if number % 2:
                stays_s, reads_bytes = LIMIT_S, chance.randint(1, MOST_BYTES)
            tasks.start_soon(one, number, ROUTES[number % len(ROUTES)], chance.choice(SCRIPTS), stays_s, reads_bytes)
    return readers
