"""The local grader: the reader model judges the whole set, the cross-encoder says which passages matter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio

from gateway.providers.local.faults import told
from gateway.providers.local.judgement import JUNK_COST, Reading, judged
from gateway.providers.local.network import Network
from gateway.providers.local.pairs import PairScorer
from gateway.providers.local.slots import Slots, Urgency
from grading.evidence import Piece, pack, piece
from grading.faults import GraderUnavailable
from grading.grade import Grade, Verdict
from grading.words import first_words
from retrieval.passage import Passage

BUDGET_TOKENS = 250  # the evidence that the reader was tuned on; its card says what to expect beyond
LONGEST_TOKENS = 320
QUESTION_WORDS = 70


class ReaderGrader:
    """grading.ports.Grader: English, for a stand-alone question. What it was measured to do: models/reader/card.md, judgement.py."""

    name = "reader"

    def __init__(self, network: Network, pairs: PairScorer, slots: Slots, junk_cost: float = JUNK_COST) -> None:
        self._junk_cost = junk_cost
        self.network = network
        self._pairs = pairs
        self._slots = slots

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:
        """As the port says; one run over the set and one for each passage, side by side: 0.1 to 0.15 s for 5 passages on 2 cores."""
        if not passages:
            return Grade(Verdict.INSUFFICIENT, "everything: no passage was found", grader=self.name, p_sufficient=0.0)
        pieces = [piece(each.title, each.text) for each in passages]
        texts = [each.full for each in pieces]
        try:
            reading, logits = await self._measured(question, pieces, texts)
        except Exception as error:
            raise GraderUnavailable(told(error, f"the local grader failed on {len(passages)} passages")) from error
        return judged(question, texts, reading, logits, self._junk_cost)

    async def read(self, question: str, pieces: Sequence[Piece]) -> Reading:
        """The reader's logits for the set, packed to 250 tokens: one run of 25 to 70 ms. Raises what the network raises."""
        return await self._slots.run(
            Urgency.VERDICT, lambda: self._reading(question, pack(question, pieces, BUDGET_TOKENS))
        )

    async def read_text(self, question: str, text: str, urgency: Urgency = Urgency.VERDICT) -> Reading:
        """The logits for a text that is packed already; as `read`."""
        return await self._slots.run(urgency, partial(self._reading, question, text))

    async def _measured(self, question: str, pieces: list[Piece], texts: list[str]) -> tuple[Reading, list[float]]:
        readings: list[Reading] = []

        async def read() -> None:
            readings.append(await self.read(question, pieces))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            logits = await self._pairs.scores(question, texts, Urgency.VERDICT)
        return readings[0], logits

    def _reading(self, question: str, text: str) -> Reading:
        logits = self.network.run(first_words(question, QUESTION_WORDS), text)[0]
        return Reading(*(float(each) for each in logits))
