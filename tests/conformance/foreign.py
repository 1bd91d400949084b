"""Two small gateways in other people's style, each wrong in its own way, for the suite to convict. Starlette over a Messages API.

`leaking` sends what its model writes as it is written, and takes it back when the verdict is bad; when the model fails, its body ends.
`lingering` holds its draft properly, but ends nothing that it has begun: a discarded draft is read to its end before anything else is
done, and an answer goes on when its client is gone.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
from anyio.abc import ObjectSendStream, TaskGroup
from anyio.streams.memory import MemoryObjectSendStream
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from gateway.open_answers import OpenAnswers
from gateway.server import Server, listen

ATTEMPTS = 2
FOUND = "a passage of search {}"
CHANNEL = 10_000


def event(name: str, **data: str) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


@dataclass(frozen=True, slots=True)
class Models:
    """The two models behind a server, by the Messages API."""

    http: httpx2.AsyncClient

    def _asked(self, model: str, question: str, attempt: int, *, stream: bool) -> dict[str, Any]:
        content = f"{FOUND.format(attempt)}\n\n{question}"
        return {
            "model": model,
            "max_tokens": 8_000,
            "stream": stream,
            "messages": [{"role": "user", "content": content}],
        }

    async def is_good(self, question: str, attempt: int) -> bool:
        """The verdict on what a search has found; anything that is no verdict is a bad one."""
        reply = await self.http.post("/v1/messages", json=self._asked("judge", question, attempt, stream=False))
        said = reply.json().get("content", [{}])
        return bool(said) and said[0].get("text") == "GOOD"

    async def written(self, question: str, attempt: int) -> AsyncIterator[str]:
        """The draft, as it is written. Raises ValueError when the model fails."""
        asked = self._asked("writer", question, attempt, stream=True)
        is_whole = False
        async with self.http.stream("POST", "/v1/messages", json=asked) as response:
            async for line in response.aiter_lines():
                value = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
                is_whole = is_whole or value.get("type") == "message_stop"
                if "text" in value.get("delta", {}):
                    yield value["delta"]["text"]
        if not is_whole:
            raise ValueError("the model's stream broke off")


@dataclass(slots=True)
class Verdict:
    """What the grader has said, once it has."""

    is_known: anyio.Event = field(default_factory=anyio.Event)
    is_good: bool = False

    async def ask(self, models: Models, question: str, attempt: int) -> None:
        self.is_good = await models.is_good(question, attempt)
        self.is_known.set()


def leaking(models: Models) -> Starlette:
    """Optimistic without a gate."""

    async def told(question: str) -> AsyncIterator[bytes]:
        for attempt in range(1, ATTEMPTS + 1):
            verdict = Verdict()
            send, receive = anyio.create_memory_object_stream[bytes](CHANNEL)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(race, tasks, verdict, question, attempt, send)
                with receive:
                    async for piece in receive:
                        yield piece
            if verdict.is_good:
                return
            yield event("reset", why="that was not good enough")
        yield event("sorry", why="nothing was found")
        yield event("end")

    async def race(
        tasks: TaskGroup, verdict: Verdict, question: str, attempt: int, send: ObjectSendStream[bytes]
    ) -> None:
        async with send, anyio.create_task_group() as both:
            both.start_soon(verdict.ask, models, question, attempt)
            both.start_soon(write, both, verdict, question, attempt, send)
            await verdict.is_known.wait()
            if not verdict.is_good:
                both.cancel_scope.cancel()

    async def write(
        both: TaskGroup, verdict: Verdict, question: str, attempt: int, send: ObjectSendStream[bytes]
    ) -> None:
        try:
            async for text in models.written(question, attempt):
                await send.send(event("delta", t=text))
        except (ValueError, httpx2.HTTPError):
            return
        await verdict.is_known.wait()
        if verdict.is_good:
            await send.send(event("end"))

    return served_by(told)


def lingering(models: Models, house: TaskGroup) -> Starlette:
    """A gate, and nothing that cancels. `house` outlives every request."""

    async def told(question: str) -> AsyncIterator[bytes]:
        send, receive = anyio.create_memory_object_stream[bytes](CHANNEL)
        house.start_soon(answer, question, send)
        with receive:
            async for piece in receive:
                yield piece

    async def answer(question: str, send: MemoryObjectSendStream[bytes]) -> None:
        with send:
            try:
                for attempt in range(1, ATTEMPTS + 1):
                    if await attempted(question, attempt, send):
                        return
                tell(send, event("sorry", why="nothing was found"))
            except* (ValueError, httpx2.HTTPError):
                tell(send, event("sorry", why="the model failed"))
            tell(send, event("end"))

    async def attempted(question: str, attempt: int, send: ObjectSendStream[bytes]) -> bool:
        verdict, held = Verdict(), list[bytes]()
        async with anyio.create_task_group() as both:
            both.start_soon(verdict.ask, models, question, attempt)
            async for text in models.written(question, attempt):
                held.append(event("delta", t=text))
                if verdict.is_known.is_set() and verdict.is_good:
                    tell(send, *held)
                    held.clear()
        if verdict.is_good:
            tell(send, *held, event("end"))
        return verdict.is_good

    return served_by(told)


def tell(send: Any, *pieces: bytes) -> None:
    """Sends to a client that may be gone: nobody looks."""
    for piece in pieces:
        try:
            send.send_nowait(piece)
        except anyio.BrokenResourceError:
            return


def served_by(told: Any) -> Starlette:
    async def ask(request: Request) -> StreamingResponse:
        return StreamingResponse(told((await request.json())["q"]), media_type="text/event-stream")

    return Starlette(routes=[Route("/ask", ask, methods=["POST"])])


@asynccontextmanager
async def serving(kind: str, models_url: str) -> AsyncIterator[str]:
    """The address of a `leaking` or `lingering` server whose models are at `models_url`; it runs inside the block."""
    listener = listen("127.0.0.1", 0)
    started = anyio.Event()
    limits = httpx2.Limits(max_connections=None)
    async with (
        httpx2.AsyncClient(
            base_url=models_url,
            timeout=None,
            headers={"x-api-key": "any"},
            trust_env=False,
            verify=False,
            limits=limits,
        ) as http,
        anyio.create_task_group() as house,
    ):
        app = leaking(Models(http)) if kind == "leaking" else lingering(Models(http), house)
        server = Server(app, OpenAnswers(), 0.0, on_start=started.set)
        house.start_soon(server.run_until_stopped, listener)
        await started.wait()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.stop_now()
            house.cancel_scope.cancel()
