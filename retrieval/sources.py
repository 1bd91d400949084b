"""The ordered hierarchy of sources: where to search first, and where next."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from retrieval.faults import GatewayFault
from retrieval.passage import Passage, Scalar
from retrieval.ports import Query, Retriever

HOUSE = "house"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Source:
    """A named place to search. Sources are ordered: the first is the house's own, the rest are tried in turn.

    `external` marks text that nobody here vouches for: it is counted against the budget of external searches and never
    ranked before a passage of an internal source. A `parallel` source is searched while the first set is graded. `collection` names the
    one of the house's own that it searches, where that is not the one that is asked.
    """

    name: str
    retriever: Retriever
    external: bool = False
    parallel: bool = False
    collection: str | None = None

    async def retrieve(
        self, query: Query, pass_over: Callable[[str], None] = lambda _name: None
    ) -> tuple[Passage, ...]:
        """As Retriever.retrieve; passages from outside the house are marked with `source` and `external` in their metadata.

        Only the house's own search can fail: another source that fails has found nothing, the log says why, and `pass_over` is told its
        name.
        """
        if self.name == HOUSE:
            return await self.retriever.retrieve(query)
        try:
            found = await self.retriever.retrieve(query)
        except GatewayFault as fault:
            _log.warning("source %r was passed over: %s", self.name, fault)
            pass_over(self.name)
            return ()
        mark: dict[str, Scalar] = {"source": self.name, "external": self.external}
        return tuple(replace(p, metadata={**p.metadata, **mark}) for p in found)


def house(retriever: Retriever) -> tuple[Source, ...]:
    """The hierarchy of a house that has only its own documents."""
    return (Source(HOUSE, retriever),)
