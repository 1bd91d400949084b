"""Relevance of one text for a question, by the cross-encoder; each pair is computed once."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial

import anyio

from gateway.providers.local.network import Network
from gateway.providers.local.slots import Slots, Urgency
from grading.words import first_words
from retrieval.traceless import traceless

REMEMBERED_PAIRS = 2_048  # about 2 MB of text; the grade, the rerank and the draft of one answer ask for the same pairs
QUESTION_WORDS = 70
LONGEST_TOKENS = (
    320  # a pair of 200 tokens takes 45 ms of one core, time grows with length; passages are cut at about 250 tokens
)


class PairScorer:
    """Logits of (question, text) pairs. Raises what the network raises."""

    def __init__(self, network: Network, slots: Slots) -> None:
        self.network = network
        self._slots = slots
        self._known: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._coming: dict[tuple[str, str], anyio.Event] = {}

    @property
    def known(self) -> int:
        """How many pairs are remembered."""
        return len(self._known)

    async def score(self, question: str, text: str, urgency: Urgency) -> float:
        """The logit: above 0 usually relevant, below -5 hardly ever. A pair that is being computed for another caller is waited for."""
        pair = (first_words(question, QUESTION_WORDS), text)
        while pair not in self._known:
            coming = self._coming.get(pair)
            if coming is None:
                await self._compute(pair, urgency)
            else:
                await coming.wait()
        self._known.move_to_end(pair)
        return self._known[pair]

    async def scores(self, question: str, texts: list[str], urgency: Urgency) -> list[float]:
        """The logits of several texts, in order, computed side by side."""
        found: list[float] = [0.0] * len(texts)

        async def place(index: int) -> None:
            found[index] = await self.score(question, texts[index], urgency)

        async with anyio.create_task_group() as tasks:
            for index in range(len(texts)):
                tasks.start_soon(traceless, place, index)
        return found

    async def _compute(self, pair: tuple[str, str], urgency: Urgency) -> None:
        self._coming[pair] = done = anyio.Event()
        try:
            logit = await self._slots.run(urgency, partial(self._logit, *pair))
            self._known[pair] = logit
            while len(self._known) > REMEMBERED_PAIRS:
                self._known.popitem(last=False)
        finally:
            del self._coming[pair]
            done.set()

    def _logit(self, question: str, text: str) -> float:
        return float(self.network.run(question, text)[0][0])
