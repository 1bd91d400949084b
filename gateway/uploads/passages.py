"""`GET /v1/passages/{id}`: a passage whole, as a source that an answer cites shows it in short."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from gateway.access.caller import Role
from gateway.problems import PassageNotFound, body_of, headers_of, send_json, status_of
from retrieval.faults import GatewayFault

if TYPE_CHECKING:
    from gateway.house import House
    from retrieval.store import PassageStore, StoredPassage

ROUTE = "/v1/passages/{id:path}"


class Passages(Protocol):
    """The passages of the gateway's own documents."""

    async def passage(self, passage_id: str, tenant: str) -> "StoredPassage | None":
        """The passage of that id; None where the tenant has none. Raises RetrievalUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class StoredPassages:
    """Passages in PostgreSQL (Passages)."""

    store: "PassageStore"

    async def passage(self, passage_id: str, tenant: str) -> "StoredPassage | None":
        return await self.store.passage(passage_id, tenant)


class NoPassages:
    """A scripted search has no database (Passages)."""

    async def passage(self, passage_id: str, tenant: str) -> None:
        """None."""


class PassageRoute:
    """The ASGI application of the route."""

    def __init__(self, house: "House") -> None:
        self._house = house

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        try:
            caller = self._house.keys.caller(Headers(scope=scope))
            caller.require(Role.ASK)
            found = await self._house.passages.passage(scope["path_params"]["id"], caller.tenant)
            if found is None or not caller.may_use(found.collection):
                raise PassageNotFound("no document here has a passage of this id")
            await send_json(send, 200, said(found))
        except GatewayFault as fault:
            status = status_of(fault)
            await send_json(send, status, body_of(fault), headers_of(fault, status))


def said(passage: "StoredPassage") -> dict[str, object]:
    """A passage as JSON."""
    return {
        "id": passage.id,
        "document_id": passage.document_id,
        "title": passage.title,
        "url": passage.url,
        "text": passage.text,
    }
