"""Claude as a generator: one streamed request per draft, read as bytes by our own decoder.

The SDK's own event objects cost 37 to 64 microseconds of CPU per token, the bytes with a lean decoder less than half of that.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from gateway.providers.claude.client import CLIENT_ERRORS, our_fault, post_message, read_limit_s
from gateway.providers.claude.decoder import Decoder
from gateway.providers.claude.faults import unavailable
from gateway.providers.claude.request import citable, messages
from grading.prompts import GENERATOR_SYSTEM
from streaming.ports import Piece, Prompt

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from httpx2 import Response

# How long the end of the body is waited for after `message_stop`, before the stop is handed on: the last chunk comes with the event or
# right after it, and only a body read to its end gives its connection back (a new one costs a TCP and a TLS handshake).
BODY_END_LIMIT_S = 0.05
SILENCE_GRACE_S = 0.5  # the client's own limit comes first; but after broken chunk framing aiohttp 3.14 forgets it


class AnthropicGenerator:
    """Drafts with `model`. The client is the caller's to close; its time-outs bound connecting and silence. asyncio only."""

    def __init__(self, client: "AsyncAnthropic", model: str) -> None:
        self._client = client
        self.name = model

    async def draft(self, prompt: Prompt) -> "AnthropicDraft":
        """As the port promises: returns when the service has answered with a status of success, before the first token."""
        body = {
            "model": self.name,
            "max_tokens": prompt.max_tokens,
            "system": GENERATOR_SYSTEM,
            "messages": messages(prompt),
            "stream": True,
        }
        try:
            response = await post_message(self._client, body, stream=True)
        except CLIENT_ERRORS as error:
            raise our_fault(error, self.name) from error
        decoder = Decoder(tuple(n for n, _ in citable(prompt)), self.name)
        return AnthropicDraft(response, decoder, self.name, read_limit_s(self._client))


class AnthropicDraft:
    """One streamed answer. A batch is what one chunk of the body brought.

    `silence_s` bounds how long pings alone keep it waiting; without them the client's own limit on a read does.
    """

    def __init__(self, response: "Response", decoder: Decoder, model: str, silence_s: float) -> None:
        self._response = response
        self._chunks = response.aiter_bytes()
        self._decoder = decoder
        self._model = model
        self._silence_s = silence_s
        self._heard = 0
        self._silent_since_s: float | None = None
        self._is_read = False

    def __aiter__(self) -> AsyncIterator[tuple[Piece, ...]]:
        return self

    async def __anext__(self) -> tuple[Piece, ...]:
        if self._is_read:
            raise StopAsyncIteration
        while not self._decoder.is_ended:
            data = await self._read()
            if data is None:
                break
            pieces = self._decoder.feed(data)
            self._mind_silence()
            if pieces:
                return pieces
        if self._decoder.is_ended:
            await self._read_end_of_body()
        self._is_read = True
        return self._decoder.end()

    async def aclose(self) -> None:
        """Closes the connection at once, unless the body was read to its end: then it is free for the next request."""
        self._is_read = True
        await self._response.aclose()
        await self._chunks.aclose()

    async def _read(self) -> bytes | None:
        """The next chunk of the body; None at its end, which may be a broken one once the stop reason is known."""
        try:
            with anyio.fail_after(self._silence_s + SILENCE_GRACE_S):
                return await anext(self._chunks, None)
        except TimeoutError as error:
            raise unavailable("was silent for too long") from error
        except CLIENT_ERRORS as error:
            if self._decoder.is_stopping:
                return None
            raise our_fault(error, self._model) from error

    async def _read_end_of_body(self) -> None:
        with anyio.move_on_after(BODY_END_LIMIT_S), suppress(*CLIENT_ERRORS):  # the answer is whole, come what may
            while await anext(self._chunks, None) is not None:
                pass

    def _mind_silence(self) -> None:
        if self._decoder.heard > self._heard:
            self._heard, self._silent_since_s = self._decoder.heard, None
            return
        now_s = anyio.current_time()
        if self._silent_since_s is None:
            self._silent_since_s = now_s
        elif now_s - self._silent_since_s > self._silence_s:
            raise unavailable(f"sent nothing but pings for {self._silence_s:g} s")
