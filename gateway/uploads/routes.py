"""`/v1/documents`: documents taken in (POST), listed (GET) and removed (DELETE)."""

import base64
import binascii
import logging
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING

import anyio
from starlette.datastructures import Headers, QueryParams
from starlette.types import Receive, Scope, Send

from gateway.access.caller import Caller, Role
from gateway.body import ClientGone, linger
from gateway.exchange import Exchange, while_connected
from gateway.gap_routes import utc
from gateway.house import House
from gateway.parameters import bad_parameter, number_of, parameters_of
from gateway.problems import (
    DocumentNotFound,
    TooManyUploads,
    body_of,
    headers_of,
    leaves_body_unread,
    send_json,
    status_of,
)
from gateway.request import clean_collection
from gateway.sse import MEDIA_TYPE, Out, stream
from gateway.uploads.documents import Before, Finished, Ingest, Step
from gateway.uploads.progress import End, IngestFrames, IngestHead, whole
from gateway.uploads.upload import Upload, uploaded
from retrieval.faults import GatewayFault
from streaming.halt import Halt
from streaming.wire.format import Json

if TYPE_CHECKING:
    from retrieval.store import StoredDocument

log = logging.getLogger(__name__)

ROUTE = "/v1/documents"
ONE_ROUTE = "/v1/documents/{id}"
PARAMETERS = ("after", "collection", "limit")
LIMIT, LIMIT_MOST = 50, 200  # documents of one page
TURN_LIMIT_S = 20.0
AT_ONCE = 4  # uploads that are read or ingested; the next ones wait, so that disk and memory are bounded


class DocumentsRoute:
    """The ASGI application of `/v1/documents` and of one document below it."""

    turn_limit_s = TURN_LIMIT_S

    def __init__(self, house: House) -> None:
        self._house = house
        self._turns = anyio.CapacityLimiter(AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange, headers = Exchange(scope, receive, send), Headers(scope=scope)
        route = ONE_ROUTE if "id" in scope["path_params"] else ROUTE
        trace = self._house.telemetry.request(headers, scope["method"], route, path=scope["path"])
        try:
            await self._answer(exchange, headers, self._house.keys.caller(headers))
        except ClientGone:
            log.debug("a client left before its documents were taken")
        except GatewayFault as fault:
            await refuse(fault, exchange)
        finally:
            trace.end(exchange.status)

    async def _answer(self, exchange: Exchange, headers: Headers, caller: Caller) -> None:
        match exchange.scope["method"]:
            case "POST":
                caller.require(Role.INGEST)
                with self._house.open_answers.one() as halt:
                    async with self._turn():
                        await self._take(exchange, headers, halt, caller)
            case "DELETE":
                caller.require(Role.INGEST)
                await self._remove(exchange, caller)
            case _:
                caller.require(Role.ASK, Role.INGEST)
                await self._list(exchange, caller)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """One of the few uploads at once. Raises TooManyUploads when none of those before it ends in time: some arrive slowly."""
        with anyio.move_on_after(self.turn_limit_s) as waiting:
            await self._turns.acquire()
        if waiting.cancelled_caught:
            raise TooManyUploads(
                f"{AT_ONCE} uploads are being taken, as many as this server takes at once; send it again"
            )
        try:
            yield
        finally:
            self._turns.release()

    async def _take(self, exchange: Exchange, headers: Headers, halt: Halt, caller: Caller) -> None:
        async with uploaded(exchange.scope, exchange.receive, self._house.upload_bytes) as upload:
            parameters_of(exchange.scope)  # there are none: a collection said there would not be the one that is used
            caller.require_collection(upload.collection)
            taking = Taking(self._house, upload, halt, caller.tenant)
            if wants_events(headers):
                await taking.stream(exchange)
            else:
                await taking.send_whole(exchange)

    async def _list(self, exchange: Exchange, caller: Caller) -> None:
        limit, before, collection = wanted(parameters_of(exchange.scope, PARAMETERS))
        caller.require_collection(collection)
        found = await self._house.documents.newest(limit + 1, before, collection, caller.tenant)
        page = found[:limit]
        after = None if len(found) <= limit else cursor((page[-1].ingested_at, page[-1].id))
        listed: Json = {"documents": [listing(one) for one in page], "next": after}
        await send_json(exchange.send, 200, listed)

    async def _remove(self, exchange: Exchange, caller: Caller) -> None:
        document_id = exchange.scope["path_params"]["id"]
        if not await self._house.documents.remove(document_id, caller.tenant, caller.collections):
            raise DocumentNotFound("no document has this id")
        await exchange.send(
            {"type": "http.response.start", "status": 204, "headers": [(b"cache-control", b"no-store")]}
        )
        await exchange.send({"type": "http.response.body", "body": b"", "more_body": False})


class Taking:
    """One upload on its way into the store, and its client."""

    def __init__(self, house: House, upload: Upload, halt: Halt, tenant: str) -> None:
        self._house, self._upload, self._halt, self._tenant = house, upload, halt, tenant
        self._finished: list[Finished] = []
        self._fault: GatewayFault | None = None

    async def send_whole(self, exchange: Exchange) -> None:
        """Sends one JSON body when all is done. When the client leaves, the ingest is cancelled between two documents or in one."""
        if not await while_connected(exchange.receive, self._whole()):
            raise ClientGone
        fault = self._fault or refusal(self._finished)
        status = 200 if fault is None else status_of(fault)
        headers = [] if fault is None else headers_of(fault, status)
        await send_json(exchange.send, status, whole(self._upload.collection, self._finished, fault), headers)

    async def stream(self, exchange: Exchange) -> None:
        """Sends each step as it comes. Otherwise as `send_whole`."""
        ingests: list[Ingest] = []

        async def begin() -> None:
            ingests.append(await self._house.documents.begin(self._upload, self._tenant))

        if not await while_connected(exchange.receive, begin()):
            raise ClientGone
        steps, told = anyio.create_memory_object_stream[Step | End](math.inf)  # of at most 500 documents
        with steps, told:
            async with anyio.create_task_group() as tasks:

                async def own() -> None:
                    await self._run(ingests[0], steps.send_nowait)
                    steps.send_nowait(End(self._fault))

                tasks.start_soon(own, name="ingest")

                async def tell(out: Out) -> None:
                    async for frame in IngestFrames(self._upload.collection, told):
                        await out.write(frame)
                    await out.end(b"")

                if not await stream(exchange, IngestHead(), self._house.sse, tell):
                    tasks.cancel_scope.cancel()

    async def _whole(self) -> None:
        await self._run(await self._house.documents.begin(self._upload, self._tenant), self._keep)

    def _keep(self, step: Step) -> None:
        if isinstance(step, Finished):
            self._finished.append(step)

    async def _run(self, ingest: Ingest, tell: Callable[[Step], None]) -> None:
        """Runs `ingest`; a fault, or the server's halt, ends it and is kept."""
        with anyio.CancelScope() as scope:
            self._halt.bind(scope)
            try:
                await ingest.run(tell)
            except GatewayFault as fault:
                self._fault = fault
            except Exception:
                log.exception("an ingest failed outside its own handling")
                self._fault = GatewayFault("something went wrong inside the gateway")
        if scope.cancelled_caught:
            self._fault = self._halt.fault


def wants_events(headers: Headers) -> bool:
    """Whether the client asks for server-sent events."""
    return any(kind.partition(";")[0].strip().lower() == MEDIA_TYPE for kind in headers.get("accept", "").split(","))


def refusal(finished: Sequence[Finished]) -> GatewayFault | None:
    """Why nothing at all could be taken: the first document's fault; None where something could."""
    faults = [one.fault for one in finished if one.fault is not None]
    return faults[0] if len(faults) == len(finished) else None


def wanted(parameters: QueryParams) -> tuple[int, Before | None, str]:
    """How many documents, after which one, of which collection. Raises InvalidRequest, naming what is wrong."""
    after = parameters.get("after")
    return (
        number_of(parameters, "limit", LIMIT, LIMIT_MOST),
        None if after is None else before_of(after),
        clean_collection(parameters.get("collection", "default")),
    )


def cursor(place: Before) -> str:
    """A place in the list, for the client to give back."""
    return base64.urlsafe_b64encode(f"{place[0].isoformat()} {place[1]}".encode()).decode("ascii").rstrip("=")


def before_of(written: str) -> Before:
    """The place that `cursor` wrote. Raises InvalidRequest."""
    try:
        at, _, document_id = base64.urlsafe_b64decode(written + "=" * (-len(written) % 4)).decode().partition(" ")
        moment = datetime.fromisoformat(at)
        if moment.tzinfo is not None and document_id:
            return moment, document_id
    except (binascii.Error, ValueError):
        pass
    raise bad_parameter("after", "must be what `next` of an earlier page said")


def listing(document: "StoredDocument") -> Json:
    """A document as listed; times are UTC."""
    return {
        "id": document.id,
        "name": document.source,
        "title": document.title,
        "url": document.url,
        "passages": document.passages,
        "ingested_at": utc(document.ingested_at),
    }


async def refuse(fault: GatewayFault, exchange: Exchange) -> None:
    """Answers with the fault's status and JSON body. After a response has begun the fault is a defect of ours, and is raised."""
    if exchange.status is not None:
        raise fault
    status, unread = status_of(fault), leaves_body_unread(fault)
    await send_json(exchange.send, status, body_of(fault), headers_of(fault, status), last=not unread)
    if unread:
        await linger(exchange.receive, exchange.send)
