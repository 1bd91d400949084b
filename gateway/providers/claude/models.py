"""Claude's models, by name, over one client."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.graders import GraderName
from gateway.providers.claude.generator import AnthropicGenerator
from gateway.providers.claude.grader import AnthropicGrader
from gateway.providers.claude.passages_grader import ModelPassagesGrader
from grading.ports import Grader

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


class ClaudeModels:
    """Makes what generates and what grades with a model (gateway.chat.profiles_of.Models)."""

    def __init__(self, client: "AsyncAnthropic") -> None:
        self._client = client

    def generator(self, model: str) -> AnthropicGenerator:
        return AnthropicGenerator(self._client, model)

    def graders(self, model: str) -> Mapping[GraderName, Grader]:
        return {
            "model": AnthropicGrader(self._client, model),
            "model-passages": ModelPassagesGrader(self._client, model),
        }
