"""A route that answers: a question in, its answer out, as a stream or as one JSON body.

The path is the same for every route; what differs is its `Form`: how a body is read, and in which wire format the answer goes
out. A new route is a module beside native_form.py with such a class, a format in streaming/wire/, and one more name in `forms` of
app.py.

Everything that a request takes (slot, span, tasks, outbox) is taken in a block of one coroutine that also gives it back.
"""

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from gateway.access.caller import Caller, Role
from gateway.answering import Answering
from gateway.body import ClientGone, linger, read_json
from gateway.exchange import Exchange, while_connected
from gateway.hold import Hold
from gateway.house import House
from gateway.keeping.replay import Replay
from gateway.keeping.resume import Place, Wish, asked_again, is_about_keeping, send_nothing
from gateway.observing.request_trace import RequestTrace
from gateway.problems import TooManyKept, defect, headers_of, leaves_body_unread, send_json, status_of
from gateway.request import AnswerRequest
from retrieval.faults import GatewayFault
from streaming.ask import Ask
from streaming.attempt import Emit
from streaming.halt import Halt
from streaming.wire.format import Json, Wire
from streaming.wire.told import Told

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """What one request asks, and how it wants to be told: `wire` makes the format of its stream, `whole` its one body.

    What can be kept, for a client that comes back, is the native format.
    """

    request: AnswerRequest
    wire: Callable[[Ask], Wire]
    whole: Callable[[Told, Ask], Json]
    can_be_kept: bool = False


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
        ending = Hold(lambda: trace.end(exchange.status))  # an answer that is kept outlives its request
        try:
            caller = self._house.keys.caller(headers)
            caller.require(Role.ASK)
            with self._house.open_answers.one() as halt:
                kept = await self._answer(exchange, caller, trace, ending, halt)
            if kept is not None:  # its owner has a slot of its own
                await kept.tell(exchange, self._house.sse, trace)
        except ClientGone:
            log.debug("a client left before its answer began")
        except GatewayFault as fault:
            await self._refuse(fault, exchange)
        except Exception:
            if exchange.status is None:
                await self._refuse(defect(), exchange)
            raise  # the server logs it, and closes what was under way
        finally:
            ending.let_go()

    async def _answer(
        self, exchange: Exchange, caller: Caller, trace: RequestTrace, ending: Hold, halt: Halt
    ) -> Replay | None:
        """Answers; what is kept for a client that may come back is returned instead, to be told."""
        body = await read_json(exchange.scope, exchange.receive)
        asked = self._form.read(body)
        caller.require_collection(asked.request.collection)
        self._house.check_question(asked.request.question)
        wish = self._wish(asked, caller, exchange, body)
        if wish is not None and wish.place is not None:
            return await self._resume(wish, wish.place, exchange, is_whole=not asked.request.stream)
        ask = ask_for(asked.request, trace.trace_id, caller.tenant)
        begun = self._begun(wish, asked, ask)
        if begun is not None:
            return begun
        slot = await self._slot(caller.owner, exchange)
        try:
            await self._require_collection(ask, exchange)
            meter = self._house.admission.meter(caller.owner)
            answering = Answering(self._house, asked.request, ask, trace, halt, meter, caller)
            if wish is not None:
                return await self._keep(wish, answering, ending, slot)
            if asked.request.stream:
                await answering.stream(exchange, asked.wire(ask))
            else:
                await answering.send_whole(exchange, asked.whole)
        finally:
            slot.let_go()
        return None

    async def _slot(self, key: str, exchange: Exchange) -> Hold:
        """A place among the open answers. Raises as Admission.slot, or ClientGone."""
        admission = self._house.admission
        if not admission.is_full:
            return await admission.slot(key)
        found: list[Hold] = []

        async def wait() -> None:
            found.append(await admission.slot(key))

        is_here = False
        try:
            is_here = await while_connected(exchange.receive, wait())
        finally:
            if not is_here:
                for slot in found:
                    slot.let_go()
        if not is_here:
            raise ClientGone
        return found[0]

    async def _require_collection(self, ask: Ask, exchange: Exchange) -> None:
        """Raises CollectionNotFound, or ClientGone. One that is known is not waited for, and nobody is watched meanwhile."""
        known, where = self._house.collections, (ask.collection, ask.tenant)
        if not known.knows(*where) and not await while_connected(exchange.receive, known.check(*where)):
            raise ClientGone

    def _wish(self, asked: Asked, caller: Caller, exchange: Exchange, body: object) -> Wish | None:
        """What is wished about keeping the answer; None, at no cost, where nothing is."""
        headers = Headers(scope=exchange.scope)
        if not asked.can_be_kept or not (asked.request.is_resumable or is_about_keeping(headers)):
            return None
        return Wish.of(headers, body, caller)

    async def _resume(self, wish: Wish, place: Place, exchange: Exchange, *, is_whole: bool) -> Replay | None:
        replay = await asked_again(self._house.keeper, place, wish, is_whole=is_whole)
        if replay is None:
            await send_nothing(exchange)
        return replay

    def _begun(self, wish: Wish | None, asked: Asked, ask: Ask) -> Replay | None:
        """The answer that its key stands for already: it is only read, so it takes no slot and counts as no second question."""
        keeper = self._house.keeper
        if wish is None or keeper is None:
            return None
        source = keeper.begun(wish.claim(ask.answer_id))
        return None if source is None else Replay(source, is_whole=not asked.request.stream)

    async def _keep(self, wish: Wish, answering: Answering, ending: Hold, slot: Hold) -> Replay:
        """The answer, on its way in a task of the server's own, in the request's slot and trace."""
        house = self._house
        if house.keeper is None:
            raise TooManyKept("this server keeps no answers; ask without `resumable` and without an Idempotency-Key")

        async def run(emit: Emit, halt: Halt) -> None:
            with ending.held(), slot.held():
                await replace(answering, halt=halt).run(emit)

        source = await house.keeper.begin(wish.claim(answering.ask.answer_id), run, house.open_answers)
        return Replay(source, is_whole=not answering.request.stream)

    async def _refuse(self, fault: GatewayFault, exchange: Exchange) -> None:
        """Answers with the fault's status and body. After a response has begun the fault is a defect of ours, and is raised."""
        if exchange.status is not None:
            raise fault
        status = status_of(fault)
        unread = leaves_body_unread(fault)
        await send_json(exchange.send, status, self._form.problem(fault), headers_of(fault, status), last=not unread)
        if unread:
            await linger(exchange.receive, exchange.send)


def ask_for(request: AnswerRequest, trace_id: str, tenant: str) -> Ask:
    """The question as the race takes it, under a new answer id."""
    return Ask(
        answer_id=secrets.token_hex(12),
        trace_id=trace_id,
        question=request.question,
        collection=request.collection,
        history=request.history,
        filters=request.filters,
        tenant=tenant,
    )
