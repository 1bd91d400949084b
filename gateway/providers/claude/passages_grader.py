"""Claude as a grader of passages one by one: one request for all of them, the verdict on the set derived from theirs."""

from typing import TYPE_CHECKING

from gateway.providers.claude.structured import StructuredModel
from grading.faults import GraderUnavailable
from grading.grade import Grade, Verdict
from grading.prompts import PASSAGES_SCHEMA, PASSAGES_SYSTEM, grader_parts
from grading.replies import passages_grade_in
from retrieval.passage import Passage

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

LEAST_TOKENS = 384  # the parts and a conflict
TOKENS_A_PASSAGE = 24


class ModelPassagesGrader:
    """grading.ports.Grader by `model`, strict for each passage. The client is the caller's to close. asyncio only.

    Method: the document-wise judgement of corrective RAG, arXiv:2401.15884, with the question's parts in place of one score, so that a
    set whose passages answer it together is not refused.
    """

    def __init__(self, client: "AsyncAnthropic", model: str, *, keeps: bool = False) -> None:
        self._model = StructuredModel(client, model, keeps=keeps)
        self.name = model

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:
        """As the port promises. An answer that leaves a passage out, or names one or a part that does not exist, is none."""
        if not passages:
            return Grade(Verdict.INSUFFICIENT, grader=self.name)
        limit = LEAST_TOKENS + TOKENS_A_PASSAGE * len(passages)
        message = grader_parts(question, passages)
        said = await self._model.say(PASSAGES_SYSTEM, message, PASSAGES_SCHEMA, limit, GraderUnavailable)
        return said.counted(passages_grade_in(said.text, len(passages), self.name))
