"""Claude as a grader: one request per set, answered in the form of a grade."""

from typing import TYPE_CHECKING

from gateway.providers.claude.structured import StructuredModel
from grading.faults import GraderUnavailable
from grading.grade import Grade
from grading.parse import parse_grade
from grading.prompts import GRADE_SCHEMA, GRADER_SYSTEM, grader_parts
from retrieval.passage import Passage

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

GRADE_LIMIT_TOKENS = 512  # a grade has about 60; a long list of numbers and two sentences about 200


class AnthropicGrader:
    """Grades with `model`. The client is the caller's to close; its time-outs bound connecting and silence. asyncio only."""

    def __init__(self, client: "AsyncAnthropic", model: str, *, keeps: bool = False) -> None:
        self._model = StructuredModel(client, model, keeps=keeps)
        self.name = model

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:
        """As the port promises. A grader that refuses, is cut short or answers nonsense is unavailable; it is never a bad grade."""
        message = grader_parts(question, passages)
        said = await self._model.say(GRADER_SYSTEM, message, GRADE_SCHEMA, GRADE_LIMIT_TOKENS, GraderUnavailable)
        return said.counted(parse_grade(said.text, self.name))
