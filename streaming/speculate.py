"""Whether to draft before the verdict. Pure: from what retrieval already knows to a decision."""

from retrieval.passage import Passage
from streaming.ports import Decision


class Always:
    """Draft at once on every non-empty set."""

    def decide(self, question: str, passages: tuple[Passage, ...]) -> Decision:  # noqa: ARG002
        return Decision(delay_s=0.0, why="always")


class Never:
    """Wait for the verdict, then draft from the relevant passages: the classic sequential loop."""

    def decide(self, question: str, passages: tuple[Passage, ...]) -> Decision:  # noqa: ARG002
        return Decision(delay_s=None, why="never")
