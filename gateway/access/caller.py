"""A caller: whose a request is, and what it may do."""

from dataclasses import dataclass
from enum import StrEnum

from gateway.problems import CollectionForbidden, Forbidden
from retrieval.tenancy import DEFAULT


class Role(StrEnum):
    """What a key may do. `admin` may do everything that the others may."""

    ASK = "ask"  # ask, read on, stop; read the passages that answers cite, and the list of documents
    INGEST = "ingest"  # bring documents, remove them, list them
    GAPS = "gaps"  # read what was asked and not covered
    ADMIN = "admin"


EVERYTHING = frozenset({Role.ADMIN})


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a request comes from. `owner` is its key's digest, empty where no key is needed; `collections` None: every one of the tenant."""

    tenant: str = DEFAULT
    owner: str = ""
    roles: frozenset[Role] = EVERYTHING
    collections: frozenset[str] | None = None

    def may(self, *roles: Role) -> bool:
        """Whether it has one of `roles`."""
        return Role.ADMIN in self.roles or not self.roles.isdisjoint(roles)

    def may_use(self, collection: str) -> bool:
        """Whether `collection` is one of its own; not whether there is one of this name."""
        return self.collections is None or collection in self.collections

    def require(self, *roles: Role) -> None:
        """Raises Forbidden unless it has one of `roles`."""
        if not self.may(*roles):
            raise Forbidden(f"this key has no right to do that: it needs the role {' or '.join(roles)}")

    def require_collection(self, collection: str) -> None:
        """Raises CollectionForbidden unless it may use `collection`."""
        if not self.may_use(collection):
            raise CollectionForbidden("this key is bound to other collections")
