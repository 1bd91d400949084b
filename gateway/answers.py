"""`POST /v1/answers`: a question in, the events of its answer out, or one JSON body.

Everything that a request takes (slot, span, tasks, outbox) is taken in a block of one coroutine that also gives it back. The
owner task runs the answer and alone puts events into the outbox; the response alone reads it and writes to the client.
"""

import logging
import secrets
from collections.abc import Awaitable
from dataclasses import dataclass

import anyio
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from gateway.body import ClientGone, linger, read_json
from gateway.house import House
from gateway.outbox import Batch, Outbox
from gateway.problems import body_of, headers_of, leaves_body_unread, send_json, status_of
from gateway.request import AnswerRequest, answer_request
from gateway.request_trace import RequestTrace
from gateway.sse import Frames, stream
from gateway.traced import traced
from gateway.whole import Whole
from retrieval.faults import GatewayFault
from streaming.answer import Ask, answer
from streaming.attempt import Emit
from streaming.events import Done, Failed, Path
from streaming.halt import Halt

log = logging.getLogger(__name__)

ROUTE = "/v1/answers"
BATCHES = 16  # what the owner may be ahead of the socket, in batches; the held text itself is bounded in bytes by Room


@dataclass(slots=True)
class Exchange:
    """One HTTP exchange; `status` is None until a response has begun."""

    scope: Scope
    receive: Receive
    _send: Send
    status: int | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


class Answers:
    """The ASGI application of the route."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        headers = Headers(scope=scope)
        trace = self._house.telemetry.request(headers, method="POST", route=ROUTE)
        try:
            self._house.keys.check(headers)
            with self._house.open_answers.one() as halt:
                await self._answer(exchange, trace, halt)
        except ClientGone:
            log.debug("a client left before its answer began")
        except GatewayFault as fault:
            await refuse(fault, exchange)
        finally:
            trace.end(exchange.status)

    async def _answer(self, exchange: Exchange, trace: RequestTrace, halt: Halt) -> None:
        request = answer_request(await read_json(exchange.scope, exchange.receive))
        ask = ask_for(request, trace.trace_id)
        if not await while_connected(exchange.receive, self._house.collections.check(ask.collection, ask.tenant)):
            raise ClientGone
        answering = Answering(self._house, request, ask, trace, halt)
        if request.stream:
            await answering.stream(exchange)
        else:
            await answering.send_whole(exchange)


def ask_for(request: AnswerRequest, trace_id: str) -> Ask:
    """The question as the race takes it, under a new answer id."""
    return Ask(
        answer_id=secrets.token_hex(12),
        trace_id=trace_id,
        question=request.question,
        collection=request.collection,
        history=request.history,
        filters=request.filters,
    )


@dataclass(frozen=True, slots=True)
class Answering:
    """One answer on its way to one client."""

    house: House
    request: AnswerRequest
    ask: Ask
    trace: RequestTrace
    halt: Halt

    async def stream(self, exchange: Exchange) -> None:
        """Sends the events as they come. When the client leaves, the answer is cancelled; when it has `done`, what is still
        to be closed upstream closes after it, without it.
        """
        outbox = Outbox(BATCHES)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._own, outbox.put, name=f"answer {self.ask.answer_id}")
            is_told = await stream(
                Frames(self.ask.answer_id, outbox),
                exchange.scope,
                exchange.receive,
                exchange.send,
                self.house.sse,
                self.trace.first_answer_byte,
            )
            if not is_told:
                tasks.cancel_scope.cancel()

    async def send_whole(self, exchange: Exchange) -> None:
        """Sends the answer, once it is complete, as one JSON body. Otherwise as `stream`."""
        whole = Whole()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._own, whole.take, name=f"answer {self.ask.answer_id}")
            if await while_connected(exchange.receive, whole.wait()):
                if whole.has_text:
                    self.trace.first_answer_byte()
                await send_json(exchange.send, whole.status, whole.body(self.ask), whole.headers())
            else:
                tasks.cancel_scope.cancel()

    async def _own(self, emit: Emit) -> None:
        try:
            await self._run(emit)
        except Exception:
            log.exception("answer %s failed outside its own handling", self.ask.answer_id)
            await emit(last_words())

    async def _run(self, emit: Emit) -> Path:
        house, options = self.house, self.request.options
        parts = house.parts_for(options, self.ask.collection)
        self.trace.begin_answer(
            self.ask, generator=parts.generator.name, grader=parts.grader.name, provider=house.provider
        )
        return await answer(
            self.ask, traced(parts, self.trace), house.limits_for(options), emit, observer=self.trace, halt=self.halt
        )


def last_words() -> Batch:
    """The end of a stream whose answer broke in a way that it did not tell: never a bare end."""
    return (
        Failed("internal_error", "something went wrong inside the gateway", retryable=False),
        Done(Path.FAILED, "error", 0, {}),
    )


async def while_connected(receive: Receive, work: Awaitable[object]) -> bool:
    """Awaits `work` and returns True; when the client leaves first, cancels it and returns False. What `work` raises is raised."""
    fault: Exception | None = None
    is_finished = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel_when_gone, receive, tasks.cancel_scope)
        try:
            await work
            is_finished = True
        except Exception as raised:  # out of the group as itself, not in an exception group
            fault = raised
        tasks.cancel_scope.cancel()
    if fault is not None:
        raise fault
    return is_finished


async def cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    """Cancels `scope` once the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def refuse(fault: GatewayFault, exchange: Exchange) -> None:
    """Answers with the fault's status and JSON body. After a response has begun the fault is a defect of ours, and is raised."""
    if exchange.status is not None:
        raise fault
    status = status_of(fault)
    unread = leaves_body_unread(fault)
    await send_json(exchange.send, status, body_of(fault), headers_of(fault, status), last=not unread)
    if unread:
        await linger(exchange.receive, exchange.send)
