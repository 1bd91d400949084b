"""One request to Claude whose answer is an object of a given form."""

from typing import TYPE_CHECKING, Any

from gateway.providers.claude.client import CLIENT_ERRORS, our_fault
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
        try:
            answer = await self._client.messages.create(
                model=self.name,
                max_tokens=limit_tokens,
                system=system,
                messages=[{"role": "user", "content": message}],
                output_config={"format": {"type": "json_schema", "schema": schema}},
            )
        except CLIENT_ERRORS as error:
            raise fault(f"no answer: {our_fault(error, self.name)}") from error
        if answer.stop_reason not in WHOLE:
            raise fault(f"no answer: the model stopped with {answer.stop_reason}")
        return "".join(block.text for block in answer.content if block.type == "text")
