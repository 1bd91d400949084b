"""A route that answers: a question in, its answer out, as a stream or as one JSON body.

The path is the same for every route; what differs is its `Form`: how a body is read, and in which wire format the answer goes
out. A new route is a module beside native_form.py with such a class, a format in streaming/wire/, and one line in app.py:
`Route(form.path, Answers(house, form), methods=["POST"])`.

Everything that a request takes (slot, span, tasks, outbox) is taken in a block of one coroutine that also gives it back.
"""

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from gateway.answering import Answering
from gateway.body import ClientGone, linger, read_json
from gateway.exchange import Exchange, while_connected
from gateway.house import House
from gateway.problems import headers_of, leaves_body_unread, send_json, status_of
from gateway.request import AnswerRequest
from gateway.request_trace import RequestTrace
from retrieval.faults import GatewayFault
from streaming.answer import Ask
from streaming.halt import Halt
from streaming.wire.format import Json, Wire
from streaming.wire.told import Told

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """What one request asks, and how it wants to be told: `wire` makes the format of its stream, `whole` its one body."""

    request: AnswerRequest
    wire: Callable[[Ask], Wire]
    whole: Callable[[Told, Ask], Json]


class Form(Protocol):
    """How one route is asked, and how it answers."""

    @property
    def path(self) -> str: ...

    def read(self, value: object) -> Asked:
        """What the JSON `value` of a body asks. Raises InvalidRequest, or another GatewayFault that says what is wrong."""
        ...

    def problem(self, fault: GatewayFault) -> Json:
        """The body that says `fault`, before anything else was sent."""
        ...


class Answers:
    """The ASGI application of a route."""

    def __init__(self, house: House, form: Form) -> None:
        self._house = house
        self._form = form

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        headers = Headers(scope=scope)
        trace = self._house.telemetry.request(headers, method="POST", route=self._form.path)
        try:
            self._house.keys.check(headers)
            with self._house.open_answers.one() as halt:
                await self._answer(exchange, trace, halt)
        except ClientGone:
            log.debug("a client left before its answer began")
        except GatewayFault as fault:
            await self._refuse(fault, exchange)
        finally:
            trace.end(exchange.status)

    async def _answer(self, exchange: Exchange, trace: RequestTrace, halt: Halt) -> None:
        asked = self._form.read(await read_json(exchange.scope, exchange.receive))
        ask = ask_for(asked.request, trace.trace_id)
        if not await while_connected(exchange.receive, self._house.collections.check(ask.collection, ask.tenant)):
            raise ClientGone
        answering = Answering(self._house, asked.request, ask, trace, halt)
        if asked.request.stream:
            await answering.stream(exchange, asked.wire(ask))
        else:
            await answering.send_whole(exchange, asked.whole)

    async def _refuse(self, fault: GatewayFault, exchange: Exchange) -> None:
        """Answers with the fault's status and body. After a response has begun the fault is a defect of ours, and is raised."""
        if exchange.status is not None:
            raise fault
        status = status_of(fault)
        unread = leaves_body_unread(fault)
        await send_json(exchange.send, status, self._form.problem(fault), headers_of(fault, status), last=not unread)
        if unread:
            await linger(exchange.receive, exchange.send)


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
