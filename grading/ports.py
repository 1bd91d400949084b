"""What grading needs from others: Grader. (Rewriter and Verifier join it with the corrective loop.)"""

from typing import Protocol

from grading.grade import Grade
from retrieval.passage import Passage


class Grader(Protocol):
    """Judges whether a set of passages supports an answer."""

    @property
    def name(self) -> str:
        """A short name from a closed set, used as a metric label and in the grade."""
        ...

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:
        """The grade of the whole set against the stand-alone question.

        Raises GraderUnavailable when no usable verdict can be had. On cancellation the running request is closed; local work already on a
        thread may finish unseen. Never blocks the event loop.
        """
        ...
