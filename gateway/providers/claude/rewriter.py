"""Claude as a rewriter: one small request for each thing that it is asked to say in other words."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.providers.claude.structured import StructuredModel
from grading import prompts
from grading.faults import RewriterUnavailable
from grading.replies import numbers_in, query_in, question_in, questions_in
from grading.standalone import weighty
from retrieval.passage import Scalar
from streaming.ports import Turn

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

QUESTION_LIMIT_TOKENS = 256  # a question of 60 words takes about 100
FILTERS_LIMIT_TOKENS = 64
MOST_FILTERS = 200  # what is offered to choose from: about 3,000 tokens
MOST_TURNS = 12  # the last ones; a follow-up rarely means what was said before them
LONGEST_TURN = 2_000  # characters of a turn that are shown: an answer says what it is about in its beginning


class AnthropicRewriter:
    """grading.ports.Rewriter by `model`. The client is the caller's to close. asyncio only."""

    def __init__(self, client: "AsyncAnthropic", model: str) -> None:
        self._model = StructuredModel(client, model)
        self.name = model

    async def rewrite(self, question: str, missing: str | None) -> str:
        """As the port promises; one request."""
        message = prompts.rewrite_message(question, missing)
        return query_in(await self._say(prompts.REWRITE_SYSTEM, message, prompts.REWRITE_SCHEMA))

    async def decompose(self, question: str) -> tuple[str, ...]:
        """As the port promises; one request."""
        message = prompts.question_message(question)
        return questions_in(await self._say(prompts.DECOMPOSE_SYSTEM, message, prompts.DECOMPOSE_SCHEMA))

    async def standalone(self, question: str, history: Sequence[tuple[str, str]]) -> str:
        """As the port promises; one request, none where no turn has weight (blank ones and refused ones have none)."""
        turns = [(turn.role, turn.content[:LONGEST_TURN]) for turn in weighty([Turn(*each) for each in history])]
        if not turns:
            return question
        message = prompts.standalone_message(question, turns[-MOST_TURNS:])
        return question_in(await self._say(prompts.STANDALONE_SYSTEM, message, prompts.STANDALONE_SCHEMA)) or question

    async def filters(self, question: str, fields: Mapping[str, tuple[Scalar, ...]]) -> Mapping[str, Scalar]:
        """As the port promises; one request, none where there is no field. The model chooses by number among what there is."""
        known = [(name, value) for name, values in fields.items() for value in values][:MOST_FILTERS]
        if not known:
            return {}
        message = prompts.filters_message(question, known)
        said = await self._say(prompts.FILTERS_SYSTEM, message, prompts.FILTERS_SCHEMA, FILTERS_LIMIT_TOKENS)
        chosen: dict[str, Scalar] = {}
        for number in numbers_in(said, len(known)):
            chosen.setdefault(*known[number - 1])
        return chosen

    async def _say(
        self, system: str, message: str, schema: dict[str, object], limit_tokens: int = QUESTION_LIMIT_TOKENS
    ) -> str:
        return (await self._model.say(system, message, schema, limit_tokens, RewriterUnavailable)).text
