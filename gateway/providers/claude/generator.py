"""Claude as a generator: one streamed request per draft, read as bytes by our own decoder.

The SDK's own event objects cost 37 to 64 microseconds of CPU per token, the bytes with a lean decoder less than half of that.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from gateway.providers.claude.body import Body
from gateway.providers.claude.client import CLIENT_ERRORS, our_fault, post_message
from gateway.providers.claude.decoder import Decoder
from gateway.providers.claude.request import citable, messages
from gateway.providers.claude.rest import Rest
from grading.prompts import GENERATOR_SYSTEM
from streaming.ports import Piece, Prompt

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

# How long the end of the body is waited for after `message_stop`, before the stop is handed on: the last chunk comes with the event or
# right after it, and only a body read to its end gives its connection back (a new one costs a TCP and a TLS handshake).
BODY_END_LIMIT_S = 0.05
MUCH_BYTES = 4_096  # thirty tokens: a read that brings so many was worth its price, and is followed by no rest


class AnthropicGenerator:
    """Drafts with `model`. The client is the caller's to close; its time-outs bound connecting and silence. asyncio only.

    `keeps`: the service is asked to keep what it has read of a prompt (gateway.providers.claude.request). Its drafts
    take the `rest` that they are given.
    """

    def __init__(self, client: "AsyncAnthropic", model: str, *, keeps: bool = False, rest: Rest | None = None) -> None:
        self._client = client
        self._keeps = keeps
        self._rest = rest or Rest()
        self.name = model

    async def draft(self, prompt: Prompt) -> "AnthropicDraft":
        """As the port promises: returns when the service has answered with a status of success, before the first token."""
        body = {
            "model": self.name,
            "max_tokens": prompt.max_tokens,
            "system": GENERATOR_SYSTEM,
            "messages": messages(prompt, keeps=self._keeps),
            "stream": True,
        }
        try:
            response = await post_message(self._client, body, stream=True)
        except CLIENT_ERRORS as error:
            raise our_fault(error, self.name) from error
        decoder = Decoder(tuple(n for n, _ in citable(prompt)), self.name)
        return AnthropicDraft(Body(response), decoder, self.name, self._rest)


class AnthropicDraft:
    """One streamed answer. A batch is what one chunk of the body brought; empty where the model is at work and says nothing (it thinks).

    Pings bring no batch: a service is not at work because it keeps the connection open.
    """

    def __init__(self, body: Body, decoder: Decoder, model: str, rest: Rest) -> None:
        self._body = body
        self._rest = rest
        self._decoder = decoder
        self._model = model
        self._clock = asyncio.get_running_loop().time  # anyio's, which looks for it each time
        self._heard = 0
        self._brought = MUCH_BYTES
        self._is_read = self._is_closed = False
        rest.begin()

    def __aiter__(self) -> AsyncIterator[tuple[Piece, ...]]:
        return self

    async def __anext__(self) -> tuple[Piece, ...]:
        if self._is_read:
            raise StopAsyncIteration
        decoder = self._decoder
        while not decoder.is_ended:
            has_spoken = decoder.has_spoken
            if has_spoken and self._brought < MUCH_BYTES:
                rest_s = self._rest.until(self._clock())
                # Whoever waits for what comes next need not wake up for the end of the rest.
                if rest_s > 0 and not self._body.rest(rest_s, MUCH_BYTES) and not self._body.has_come:
                    await anyio.sleep(rest_s)
            try:
                data = await self._body.read()
            except CLIENT_ERRORS as error:
                if decoder.is_stopping:
                    break
                raise our_fault(error, self._model) from error
            if not data:
                break
            self._brought = len(data) if has_spoken else MUCH_BYTES  # its second read tells how fast it comes
            pieces = decoder.feed(data)
            if pieces or decoder.heard > self._heard:
                self._heard = decoder.heard
                return pieces
        if decoder.is_ended and not self._body.has_come:
            await self._read_end_of_body()
        self._is_read = True
        return decoder.end()

    def cut(self) -> None:
        """As the port promises."""
        self._is_read = True
        self._body.cut()

    async def aclose(self) -> None:
        """Closes the connection at once, unless the body was read to its end: then it is free for the next request."""
        self._is_read = True
        if not self._is_closed:
            self._is_closed = True
            self._rest.end()
        await self._body.aclose()

    async def _read_end_of_body(self) -> None:
        self._body.wake()  # a rest that began while there was something to read has not ended with it
        with anyio.move_on_after(BODY_END_LIMIT_S), suppress(*CLIENT_ERRORS):  # the answer is whole, come what may
            while await self._body.read():
                pass
