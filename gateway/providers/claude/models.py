"""Claude's models, by name, over one client."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.graders import GraderName
from gateway.providers.claude.generator import AnthropicGenerator
from gateway.providers.claude.grader import AnthropicGrader
from gateway.providers.claude.passages_grader import ModelPassagesGrader
from gateway.providers.claude.rest import Rest
from grading.ports import Grader

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


class ClaudeModels:
    """Makes what generates and what grades with a model (gateway.chat.profiles_of.Models).

    `keeps`: the service is asked to keep what it has read of a prompt (gateway.providers.claude.request). `rest` is that of all drafts.
    """

    def __init__(self, client: "AsyncAnthropic", *, keeps: bool = False, rest: Rest | None = None) -> None:
        self._client = client
        self._keeps = keeps
        self._rest = rest or Rest()

    def generator(self, model: str) -> AnthropicGenerator:
        return AnthropicGenerator(self._client, model, keeps=self._keeps, rest=self._rest)

    def graders(self, model: str) -> Mapping[GraderName, Grader]:
        return {
            "model": AnthropicGrader(self._client, model, keeps=self._keeps),
            "model-passages": ModelPassagesGrader(self._client, model, keeps=self._keeps),
        }
