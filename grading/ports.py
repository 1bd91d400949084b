"""What grading needs from others: Grader, Rewriter, Verifier."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from grading.grade import Grade
from retrieval.passage import Passage, Scalar


class Grader(Protocol):
    """Judges whether a set of passages supports an answer."""

    @property
    def name(self) -> str:
        """A short name from a closed set, used as a metric label and in the grade."""
        ...

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:
        """The grade of the whole set against the stand-alone question.

        Raises GraderUnavailable when no usable verdict can be had. On cancellation the running request is closed;
        local work already on a thread may finish unseen. Never blocks the event loop.
        """
        ...


class Rewriter(Protocol):
    """Says a question in other ways. Every method may decline with an empty result, which its caller skips.

    Raises RewriterUnavailable. On cancellation the running request is closed.
    """

    async def rewrite(self, question: str, missing: str | None) -> str:
        """The question as a search would find it better (other words, no small talk); "" for no better way."""
        ...

    async def decompose(self, question: str) -> tuple[str, ...]:
        """The sub-questions that together answer `question`, at most four; () when it is one question."""
        ...

    async def standalone(self, question: str, history: Sequence[tuple[str, str]]) -> str:
        """`question` made to stand alone, from the (role, content) turns before it; unchanged when it already does."""
        ...

    async def filters(self, question: str, fields: Mapping[str, tuple[Scalar, ...]]) -> Mapping[str, Scalar]:
        """Equalities on metadata that the question asks for. `fields` are the collection's own, with their frequent values.

        Names and values outside `fields` are never given back.
        """
        ...


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of an answer, and the passages it is to rest on (the cited ones; all of the set where none is cited)."""

    text: str
    passages: tuple[Passage, ...]


class Verifier(Protocol):
    """Checks sentences of an answer against passages."""

    @property
    def name(self) -> str:
        """A short name from a closed set."""
        ...

    async def supported(self, question: str, claims: tuple[Claim, ...]) -> tuple[bool, ...]:
        """For each claim, in order, whether its passages say it.

        Raises VerifierUnavailable. On cancellation as Grader. Several calls may run side by side.
        """
        ...
