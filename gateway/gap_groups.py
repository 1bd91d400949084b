"""Groups of coverage gaps as they are read: each question that was not covered, with its repeats."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

LIMIT = 50  # groups that are read unless somebody asks for more
LIMIT_MOST = 500
WORDINGS = 5  # different wordings of a group's question that are shown


@dataclass(frozen=True, slots=True)
class GapGroup:
    """A question that was not covered, asked `count` times.

    `id` is that of the first gap and of the group. `questions` are its latest different wordings, newest first; `reason`, `missing`,
    `searched` and `attempts` are the latest gap's.
    """

    id: str
    question: str
    collection: str
    count: int
    first_at: datetime
    last_at: datetime
    reason: str
    missing: str | None
    searched: Sequence[str]
    attempts: int
    questions: Sequence[str]


@dataclass(frozen=True, slots=True)
class StoredGap:
    """One refusal's record."""

    id: str
    question: str
    reason: str
    missing: str | None
    searched: Sequence[str]
    attempts: int
    answer_id: str
    at: datetime


class GapGroups(Protocol):
    """Reads groups of coverage gaps."""

    async def newest(
        self, limit: int = LIMIT, collections: Iterable[str] | None = None, tenant: str = "default"
    ) -> tuple[GapGroup, ...]:
        """At most `limit` groups, the one asked last first; of every collection without `collections`. Raises RetrievalUnavailable."""
        ...


class NoGapGroups:
    """There are none: nothing is kept without a database."""

    async def newest(
        self,
        limit: int = LIMIT,  # noqa: ARG002
        collections: Iterable[str] | None = None,  # noqa: ARG002
        tenant: str = "default",  # noqa: ARG002
    ) -> tuple[GapGroup, ...]:
        """As the port promises."""
        return ()


def golden(group: GapGroup) -> dict[str, object]:
    """The group as an item of a golden set, to be labelled: nobody has said yet whether it can be answered, and how."""
    return {
        "id": group.id,
        "question": group.question,
        "answerable": None,
        "answers": [],
        "evidence": [],
        "kind": group.reason,
        "source": "gap",
    }
