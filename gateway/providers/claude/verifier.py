"""Claude as a verifier: one request for several sentences."""

from typing import TYPE_CHECKING

from gateway.providers.claude.structured import StructuredModel
from grading.faults import VerifierUnavailable
from grading.ports import Claim
from grading.prompts import VERIFIER_SCHEMA, VERIFIER_SYSTEM, verifier_message
from grading.replies import verdicts_in

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

LEAST_TOKENS = 64
TOKENS_A_SENTENCE = 24  # {"sentence": 12, "supported": false} takes about 14


class AnthropicVerifier:
    """grading.ports.Verifier by `model`. The client is the caller's to close. asyncio only."""

    def __init__(self, client: "AsyncAnthropic", model: str) -> None:
        self._model = StructuredModel(client, model)
        self.name = model

    async def supported(self, question: str, claims: tuple[Claim, ...]) -> tuple[bool, ...]:
        """As the port promises; a sentence without passages is unsupported, and where no other is left nobody is asked."""
        places = [place for place, claim in enumerate(claims) if claim.passages]
        if not places:
            return (False,) * len(claims)
        asked = [claims[place] for place in places]
        limit = LEAST_TOKENS + TOKENS_A_SENTENCE * len(asked)
        message = verifier_message(question, asked)
        said = await self._model.say(VERIFIER_SYSTEM, message, VERIFIER_SCHEMA, limit, VerifierUnavailable)
        found = dict(zip(places, verdicts_in(said.text, len(asked)), strict=True))
        return tuple(found.get(place, False) for place in range(len(claims)))
