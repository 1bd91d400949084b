"""One request to Claude whose answer is an object of a given form."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gateway.providers.claude.client import CLIENT_ERRORS, our_fault, post_message
from gateway.providers.claude.decoder import used
from gateway.providers.claude.faults import unavailable
from gateway.providers.claude.request import texts
from grading.grade import Grade
from retrieval.faults import GatewayFault
from streaming.faults import GeneratorFault
from streaming.ports import Usage

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

WHOLE = ("end_turn", "stop_sequence")


@dataclass(frozen=True, slots=True)
class Said:
    """The text of a whole answer, and what it took; `usage` is None where the service did not count."""

    text: str
    usage: Usage | None = None

    def counted(self, grade: Grade) -> Grade:
        """The grade that this text is, with its tokens."""
        if self.usage is None:
            return grade
        found = self.usage
        return replace(
            grade,
            input_tokens=found.input_tokens,
            output_tokens=found.output_tokens,
            cached_tokens=found.cached_tokens,
        )


class StructuredModel:
    """`model` behind `client`, which is the caller's to close; its time-outs bound connecting and silence. asyncio only."""

    def __init__(self, client: "AsyncAnthropic", model: str, *, keeps: bool = False) -> None:
        """`keeps`: the service is asked to keep what it has read of a message in parts."""
        self._client = client
        self._keeps = keeps
        self.name = model

    async def say(
        self,
        system: str,
        message: str | tuple[str, ...],
        schema: dict[str, Any],
        limit_tokens: int,
        fault: type[GatewayFault],
    ) -> Said:
        """The whole answer to a message, or to one in parts (gateway.providers.claude.request.texts).

        Raises `fault` when the request fails, the model refuses, or it is cut short.

        Where the request failed, its cause is the GeneratorFault that says how.

        On cancellation the request is closed.
        """
        content = message if isinstance(message, str) else texts(message, keeps=self._keeps)
        body = {
            "model": self.name,
            "max_tokens": limit_tokens,
            "system": system,
            "messages": [{"role": "user", "content": content}],
            "output_config": {"format": {"type": "json_schema", "schema": schema}},
        }
        try:
            return await self._answer(body)
        except Unfinished as stopped:
            raise fault(f"no answer: {stopped}") from None
        except GeneratorFault as outage:
            raise fault(f"no answer: {outage}") from outage

    async def _answer(self, body: dict[str, Any]) -> Said:
        """What is said to `body`. Raises Unfinished, or the GeneratorFault that says how the request failed."""
        try:
            response = await post_message(self._client, body, stream=False)
        except CLIENT_ERRORS as error:
            raise our_fault(error, self.name) from error
        try:
            message = response.json()
            return Said(text_of(message), usage_of(message))
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise unavailable("answered in a form that is not its own") from error


class Unfinished(Exception):
    """Raised when a message is not whole; it says why the model stopped."""


def usage_of(message: dict[str, Any]) -> Usage | None:
    """The tokens of a Messages response; None where it counts none that can be read. What was cached counts as input."""
    counts = message.get("usage")
    if not isinstance(counts, dict) or type(counts.get("input_tokens")) is not int:
        return None  # a grade is no worse for it
    return used(counts, None)


def text_of(message: dict[str, Any]) -> str:
    """The text of a Messages response. Raises Unfinished, and the errors of a form that is not one."""
    if (reason := message["stop_reason"]) not in WHOLE:
        raise Unfinished(f"the model stopped with {reason}")
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")
