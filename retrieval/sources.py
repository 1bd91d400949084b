"""The ordered hierarchy of sources: where to search first, and where next."""

from dataclasses import dataclass, replace

from retrieval.passage import Passage, Scalar
from retrieval.ports import Query, Retriever


@dataclass(frozen=True, slots=True)
class Source:
    """A named place to search. Sources are ordered: the first is the house's own, the rest are tried in turn.

    `external` marks text that nobody here vouches for: it is counted against the budget of external searches and never
    ranked before a passage of an internal source. A `parallel` source is searched while the first set is graded.
    """

    name: str
    retriever: Retriever
    external: bool = False
    parallel: bool = False

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        """As Retriever.retrieve; every passage is marked with `source` and `external` in its metadata."""
        found = await self.retriever.retrieve(query)
        mark: dict[str, Scalar] = {"source": self.name, "external": self.external}
        return tuple(replace(p, metadata={**p.metadata, **mark}) for p in found)
