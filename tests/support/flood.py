"""A generator that no client can keep up with."""

from collections.abc import AsyncIterator

import anyio.lowlevel

from streaming.ports import Piece, Prompt, Text


class Flood:
    """A generator that says more than any socket buffers, for as long as it is read."""

    name = "flood"

    def __init__(self) -> None:
        self.open_drafts = 0

    async def draft(self, prompt: Prompt) -> "Flood":
        self.open_drafts += 1
        return self

    def __aiter__(self) -> AsyncIterator[tuple[Piece, ...]]:
        return self._batches()

    async def _batches(self) -> AsyncIterator[tuple[Piece, ...]]:
        while True:
            await anyio.lowlevel.checkpoint()
            yield (Text("flood " * 1_000),)

    def cut(self) -> None:
        pass

    async def aclose(self) -> None:
        self.open_drafts -= 1
