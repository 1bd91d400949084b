"""Resuming: `GET /v1/answers/{id}/events`, and a question that comes again with the id of the last event that arrived."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from gateway.access.caller import Caller, Role
from gateway.exchange import Exchange
from gateway.house import House
from gateway.keeping.idempotency import HEADER as KEY_HEADER
from gateway.keeping.idempotency import digest_of, key_of
from gateway.keeping.keeper import Keeper
from gateway.keeping.recording import Recording
from gateway.keeping.recordings import Claim, Held
from gateway.keeping.replay import Replay
from gateway.problems import (
    AnswerNotFound,
    BadLastEventId,
    NothingToResume,
    body_of,
    headers_of,
    send_json,
    status_of,
)
from retrieval.faults import GatewayFault

log = logging.getLogger(__name__)

ROUTE = "/v1/answers/{id}/events"
ONE_ROUTE = "/v1/answers/{id}"
HEADER = "last-event-id"
_ANSWER_ID = re.compile(r"[0-9a-f]{1,64}")
_EVENT_ID = re.compile(rf"({_ANSWER_ID.pattern})\.([0-9]{{1,9}})")


@dataclass(frozen=True, slots=True)
class Place:
    """An event of an answer: the last that a client has."""

    answer_id: str
    n: int


@dataclass(frozen=True, slots=True)
class Wish:
    """What a question says about keeping its answer: who asks, what (as digests), under which key, and from where on."""

    caller: Caller
    digest: str
    key: str | None
    place: Place | None

    @staticmethod
    def of(headers: Headers, body: object, caller: Caller) -> "Wish":
        """Raises InvalidRequest and BadLastEventId."""
        return Wish(caller, digest_of(body), key_of(headers), place_of(headers))

    def claim(self, answer_id: str) -> Claim:
        """What is claimed for an answer of that id."""
        return Claim(answer_id, self.caller.owner, self.digest, self.key, self.caller.tenant)


class Events:
    """The ASGI application of the route."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange, headers = Exchange(scope, receive, send), Headers(scope=scope)
        trace = self._house.telemetry.request(headers, method=scope["method"], route=ROUTE, path=scope["path"])
        try:
            caller = self._house.keys.caller(headers)
            caller.require(Role.ASK)
            replay = await self._found(scope["path_params"]["id"], headers, caller)
            if replay is None:
                await send_nothing(exchange)
            else:
                await replay.tell(exchange, self._house.sse, trace)
        except GatewayFault as fault:
            if exchange.status is not None:
                raise
            status = status_of(fault)
            await send_json(exchange.send, status, body_of(fault), headers_of(fault, status))
        finally:
            trace.end(exchange.status)

    async def _found(self, answer_id: str, headers: Headers, caller: Caller) -> Replay | None:
        place = place_of(headers)
        if place is not None and place.answer_id != answer_id:
            raise BadLastEventId("the Last-Event-ID is of another answer")
        keeper = self._house.keeper if is_id(answer_id) else None
        found = None if keeper is None else await keeper.find(answer_id, caller.owner, caller.tenant)
        if found is None:
            raise AnswerNotFound("no answer of this id is kept: only resumable ones are, and not for long")
        return rest(Replay(found[0], 0 if place is None else place.n), found[1])


class Stop:
    """`DELETE /v1/answers/{id}`: ends a kept answer that its client will not come back for. The others end with their connection."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange, headers = Exchange(scope, receive, send), Headers(scope=scope)
        trace = self._house.telemetry.request(headers, method=scope["method"], route=ONE_ROUTE, path=scope["path"])
        try:
            caller = self._house.keys.caller(headers)
            caller.require(Role.ASK)
            keeper, answer_id = self._house.keeper, scope["path_params"]["id"]
            if keeper is None or not is_id(answer_id) or not await keeper.stop(answer_id, caller.owner, caller.tenant):
                raise AnswerNotFound("no answer of this id is kept: only resumable ones are, and not for long")
            await send_nothing(exchange)
        except GatewayFault as fault:
            status = status_of(fault)
            await send_json(exchange.send, status, body_of(fault), headers_of(fault, status))
        finally:
            trace.end(exchange.status)


async def asked_again(keeper: Keeper | None, place: Place, wish: Wish, *, is_whole: bool) -> Replay | None:
    """The rest of the answer that `place` is in, when it answers the same body; None when there is none. Raises NothingToResume."""
    caller = wish.caller
    found = None if keeper is None else await keeper.find(place.answer_id, caller.owner, caller.tenant)
    if found is None or found[1].digest != wish.digest:
        raise NothingToResume(
            "the answer of this Last-Event-ID is not kept; without the header the question is asked anew"
        )
    return rest(Replay(found[0], 0 if is_whole else place.n, is_whole), found[1])


def is_id(answer_id: str) -> bool:
    """Whether an answer can have that id. No other is looked for: a database fails on some of what a path can hold."""
    return _ANSWER_ID.fullmatch(answer_id) is not None


def is_about_keeping(headers: Headers) -> bool:
    """Whether a request has one of the headers that only kept answers know."""
    return KEY_HEADER in headers or HEADER in headers


def place_of(headers: Mapping[str, str]) -> Place | None:
    """What the Last-Event-ID says; None without one, or an empty one as browsers may send. Raises BadLastEventId."""
    written = headers.get(HEADER, "").strip()
    if not written:
        return None
    found = _EVENT_ID.fullmatch(written)
    if found is None:
        raise BadLastEventId("a Last-Event-ID here is the id of an answer, a dot and the number of an event")
    return Place(found[1], int(found[2]))


def rest(replay: Replay, held: Held) -> Replay | None:
    """`replay`; None when there is nothing after its place. Raises BadLastEventId for a place beyond the end.

    Of an answer that another server still gives, what a client has may not be known here yet: then it is waited for.
    """
    if replay.n > held.last and (held.is_ended or isinstance(replay.source, Recording)):
        raise BadLastEventId(f"the answer has {held.last} events so far")
    return None if held.is_ended and replay.n == held.last and not replay.is_whole else replay


async def send_nothing(exchange: Exchange) -> None:
    """204: an EventSource that gets it does not come again."""
    await exchange.send({"type": "http.response.start", "status": 204, "headers": [(b"cache-control", b"no-store")]})
    await exchange.send({"type": "http.response.body", "body": b"", "more_body": False})
