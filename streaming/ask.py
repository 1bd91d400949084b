"""What is asked: one question as the edge hands it over."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from retrieval.passage import Scalar
from streaming.ports import Turn


@dataclass(frozen=True, slots=True)
class Ask:
    """One question, cleaned and bounded, with the turns before it."""

    answer_id: str
    trace_id: str
    question: str
    collection: str = "default"
    history: tuple[Turn, ...] = ()
    filters: Mapping[str, Scalar] = field(default_factory=dict)
    tenant: str = "default"
