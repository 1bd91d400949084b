"""One request to Claude whose answer is an object of a given form."""

from typing import TYPE_CHECKING, Any

from gateway.providers.claude.client import CLIENT_ERRORS, our_fault, post_message
from gateway.providers.claude.faults import unavailable
from retrieval.faults import GatewayFault

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

WHOLE = ("end_turn", "stop_sequence")


class StructuredModel:
    """`model` behind `client`, which is the caller's to close; its time-outs bound connecting and silence. asyncio only."""

    def __init__(self, client: "AsyncAnthropic", model: str) -> None:
        self._client = client
        self.name = model

    async def say(
        self, system: str, message: str, schema: dict[str, Any], limit_tokens: int, fault: type[GatewayFault]
    ) -> str:
        """The text of the whole answer. Raises `fault` when the request fails, the model refuses, or it is cut short.

        On cancellation the request is closed.
        """
        body = {
            "model": self.name,
            "max_tokens": limit_tokens,
            "system": system,
            "messages": [{"role": "user", "content": message}],
            "output_config": {"format": {"type": "json_schema", "schema": schema}},
        }
        try:
            response = await post_message(self._client, body, stream=False)
        except CLIENT_ERRORS as error:
            raise fault(f"no answer: {our_fault(error, self.name)}") from error
        try:
            return text_of(response.json())
        except Unfinished as stopped:
            raise fault(f"no answer: {stopped}") from None
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise fault(f"no answer: {unavailable('answered in a form that is not its own')}") from error


class Unfinished(Exception):
    """Raised when a message is not whole; it says why the model stopped."""


def text_of(message: dict[str, Any]) -> str:
    """The text of a Messages response. Raises Unfinished, and the errors of a form that is not one."""
    if (reason := message["stop_reason"]) not in WHOLE:
        raise Unfinished(f"the model stopped with {reason}")
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")
