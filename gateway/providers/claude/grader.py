"""Claude as a grader: one request per set, answered in the form of a grade."""

from typing import TYPE_CHECKING

from gateway.providers.claude.client import CLIENT_ERRORS, our_fault
from grading.faults import GraderUnavailable
from grading.grade import Grade
from grading.parse import parse_grade
from grading.prompts import GRADE_SCHEMA, GRADER_SYSTEM, grader_message
from retrieval.passage import Passage

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from anthropic.types import Message

GRADE_LIMIT_TOKENS = 512  # a grade has about 60; a long list of numbers and two sentences about 200
WHOLE = ("end_turn", "stop_sequence")


class AnthropicGrader:
    """Grades with `model`. The client is the caller's to close; its time-outs bound connecting and silence. asyncio only."""

    def __init__(self, client: "AsyncAnthropic", model: str) -> None:
        self._client = client
        self.name = model

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:
        """As the port promises. A grader that refuses, is cut short or answers nonsense is unavailable; it is never a bad grade."""
        try:
            message = await self._client.messages.create(
                model=self.name,
                max_tokens=GRADE_LIMIT_TOKENS,
                system=GRADER_SYSTEM,
                messages=[{"role": "user", "content": grader_message(question, passages)}],
                output_config={"format": {"type": "json_schema", "schema": GRADE_SCHEMA}},
            )
        except CLIENT_ERRORS as error:
            raise GraderUnavailable(f"no verdict: {our_fault(error, self.name)}") from error
        return self._read(message)

    def _read(self, message: "Message") -> Grade:
        if message.stop_reason not in WHOLE:
            raise GraderUnavailable(f"no verdict: the grader stopped with {message.stop_reason}")
        text = "".join(block.text for block in message.content if block.type == "text")
        return parse_grade(text, self.name)
