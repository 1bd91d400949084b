"""The scripted upstream: a Messages API for any gateway. What a question will meet is written in the question.

Of a request it needs to know two things: the question, which it finds by its mark wherever the gateway has put it, and whether the
grader or the generator asks, which the mapping says. asyncio only.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from gateway.bench.messages_api import Connection, MessagesApi
from gateway.bench.messages_log import Exchange
from gateway.bench.messages_wire import (
    ERRORS,
    Part,
    Reply,
    Request,
    Wire,
    error_reply,
    fault_and_due,
    generator_reply,
    judging_reply,
    said_text,
)
from gateway.providers.script import FaultKind, GraderFault, Script
from tests.conformance.mapping import GraderSpeech

ASKED = re.compile(r"Conformance question \d+:.*?\[\[.*?\]\]", re.DOTALL)
DEFAULTS = Script()


class Upstream(MessagesApi):
    """The server; `speech` says how to tell who asks."""

    def __init__(self, speech: GraderSpeech) -> None:
        super().__init__(DEFAULTS)
        self._speech = speech

    def answer(
        self, connection: int, path: str, headers: dict[str, str], body: bytes, received_s: float
    ) -> tuple[Reply, Exchange | None]:
        """As the base; what is asked about no question of this suite is refused."""
        if not self._speech.says:
            return super().answer(connection, path, headers, body, received_s)
        try:
            request = self._read(json.loads(body), body)
        except (KeyError, ValueError, TypeError) as error:
            return error_reply(400, "invalid_request_error", f"not understood: {error!r}"), None
        script = Script.parse(request.question, DEFAULTS)
        exchange = self._exchange(connection, request, received_s)
        if request.kind == "generator":
            return generator_reply(request, script, Wire(), exchange.attempt, exchange.draft), exchange
        return self._verdict(request, script, exchange.attempt), exchange

    def _read(self, sent: dict[str, Any], body: bytes) -> Request:
        found = next((match.group() for text in strings(sent) for match in ASKED.finditer(text)), None)
        if found is None:
            raise ValueError("no question of the suite is in it")
        schema = sent.get("output_config", {}).get("format", {}).get("schema", {})
        by_schema = self._speech.schema is not None and self._speech.schema in schema.get("properties", {})
        is_grader = by_schema or sent["model"] == self._speech.model
        return Request(
            kind="grader" if is_grader else "generator",
            wanted="verdict" if is_grader else "",
            model=sent["model"],
            question=found,
            passages=tuple(strings(sent["messages"])),
            lines=(),
            results=(),
            max_tokens=sent["max_tokens"],
            is_streamed=bool(sent.get("stream")),
            input_tokens=len(body) // 4,
        )

    def _verdict(self, request: Request, script: Script, attempt: int) -> Reply:
        fault, due_s = fault_and_due(request, script, attempt)
        if fault in (GraderFault.FAIL, GraderFault.RATE_LIMITED):
            return error_reply(*ERRORS[FaultKind.OVERLOADED])
        if fault is GraderFault.STALL:
            return judging_reply(request, script, Wire(), attempt)
        said = self._speech.says[script.grade(attempt, 1).verdict.value]
        text = said if fault is GraderFault.NONE else said_text({}, fault)[0]
        message = {
            "id": "msg_scripted",
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": request.input_tokens, "output_tokens": len(text) // 4},
        }
        return Reply(iter([Part(due_s, json.dumps(message).encode())]), content_type="application/json", due_s=due_s)


def strings(value: object) -> Iterator[str]:
    """Every string in a JSON value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


@asynccontextmanager
async def upstream(speech: GraderSpeech, port: int = 0) -> AsyncIterator[Upstream]:
    """A running one on this event loop; at the end every connection is broken and the port is free."""
    api = Upstream(speech)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(api), "127.0.0.1", port)
    api.port = server.sockets[0].getsockname()[1]
    try:
        yield api
    finally:
        server.close()
        for connection in tuple(api.connections):
            connection.abort()
        with anyio.move_on_after(2, shield=True):
            await server.wait_closed()
            await api.emptied()
