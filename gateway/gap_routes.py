"""`GET /v1/gaps`: what was asked and not covered, newest first, repeats in one group."""

from datetime import UTC, datetime

from starlette.datastructures import Headers, QueryParams
from starlette.types import Receive, Scope, Send

from gateway.access.caller import Role
from gateway.gap_groups import LIMIT, LIMIT_MOST, GapGroup
from gateway.house import House
from gateway.parameters import number_of, parameters_of
from gateway.problems import body_of, headers_of, send_json, status_of
from gateway.request import clean_collection
from retrieval.faults import GatewayFault

ROUTE = "/v1/gaps"
PARAMETERS = ("collection", "limit")


class Gaps:
    """The ASGI application of the route."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        try:
            caller = self._house.keys.caller(Headers(scope=scope))
            caller.require(Role.GAPS)
            limit, collection = wanted(parameters_of(scope, PARAMETERS))
            if collection is not None:
                caller.require_collection(collection)
            collections = caller.collections if collection is None else {collection}
            groups = await self._house.gaps.newest(limit, collections, caller.tenant)
            await send_json(send, 200, {"gaps": [said(group) for group in groups]})
        except GatewayFault as fault:
            status = status_of(fault)
            await send_json(send, status, body_of(fault), headers_of(fault, status))


def wanted(parameters: QueryParams) -> tuple[int, str | None]:
    """How many groups, and of which collection. Raises InvalidRequest, naming what is wrong."""
    collection = parameters.get("collection")
    return number_of(parameters, "limit", LIMIT, LIMIT_MOST), None if collection is None else clean_collection(
        collection
    )


def said(group: GapGroup) -> dict[str, object]:
    """A group as JSON; times are UTC."""
    return {
        "id": group.id,
        "question": group.question,
        "collection": group.collection,
        "count": group.count,
        "first_at": utc(group.first_at),
        "last_at": utc(group.last_at),
        "reason": group.reason,
        "missing": group.missing,
        "searched": list(group.searched),
        "attempts": group.attempts,
        "questions": list(group.questions),
    }


def utc(at: datetime) -> str:
    """A moment as `2026-11-29T10:00:00Z`."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
