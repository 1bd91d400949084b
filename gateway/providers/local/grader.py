"""The local grader: the reader model judges the whole set, the cross-encoder says which passages matter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio

from gateway.providers.local.faults import told
from gateway.providers.local.judgement import JUNK_COST, Reading, judged
from gateway.providers.local.network import Network
from gateway.providers.local.pairs import PairScorer
from gateway.providers.local.readable import readable
from gateway.providers.local.slots import Slots, Urgency
from grading.evidence import Piece, pack
from grading.faults import GraderUnavailable
from grading.grade import Grade, Verdict
from grading.words import first_words
from retrieval.passage import Passage
from retrieval.traceless import traceless

BUDGET_TOKENS = 250  # the evidence that the reader was tuned on; its card says what to expect beyond
LONGEST_TOKENS = 320
QUESTION_WORDS = 70
# Five retrieved passages are four times what the reader takes in: what answers can drown among sentences that only resemble the
# question. On 300 questions of squad2 over its whole corpus (five passages found by the embeddings, half of the questions
# unanswerable) the better of set and single passages has an AUC of .893 against .865 for the set alone, and at 5 % of the
# unanswerable released answers .67 against .52 of the others. On sets that were put together by hand it changes little
# (multihop .898 against .914, mtrag_wiki .790 / .795, mtrag_govt .776 / .744, rgb_en .711 / .680; about 130 cases each).
READ_ALONE = 3


class ReaderGrader:
    """grading.ports.Grader: English, for a stand-alone question. What it was measured to do: models/reader/card.md, judgement.py."""

    name = "reader"

    def __init__(self, network: Network, pairs: PairScorer, slots: Slots, junk_cost: float = JUNK_COST) -> None:
        self._junk_cost = junk_cost
        self.network = network
        self._pairs = pairs
        self._slots = slots

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:
        """As the port says; one run over the set and one for each passage, side by side: 0.1 to 0.15 s for 5 passages on
        2 cores. A set that does not convince has its likeliest passages read alone, which takes 0.05 to 0.1 s more.
        """
        if not passages:
            return Grade(Verdict.INSUFFICIENT, "everything: no passage was found", grader=self.name, p_sufficient=0.0)
        pieces = [readable(each) for each in passages]
        texts = [each.full for each in pieces]
        try:
            reading, logits = await self._measured(question, pieces, texts)
            alone = await self._alone(question, pieces, reading, logits)
        except Exception as error:
            raise GraderUnavailable(told(error, f"the local grader failed on {len(passages)} passages")) from error
        return judged(question, texts, reading, logits, self._junk_cost, alone)

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
            tasks.start_soon(traceless, read)
            logits = await self._pairs.scores(question, texts, Urgency.VERDICT)
        return readings[0], logits

    async def _alone(
        self, question: str, pieces: list[Piece], reading: Reading, logits: Sequence[float]
    ) -> dict[int, Reading]:
        """What the reader says of single passages, by number: of none where the set convinces or is one passage."""
        if len(pieces) < 2 or reading.verdict(self._junk_cost) is Verdict.SUFFICIENT:
            return {}
        likeliest = sorted(range(len(pieces)), key=lambda place: -logits[place])[:READ_ALONE]
        readings: dict[int, Reading] = {}

        async def read(place: int) -> None:
            readings[place + 1] = await self.read(question, [pieces[place]])

        async with anyio.create_task_group() as tasks:
            for place in likeliest:
                tasks.start_soon(traceless, read, place)
        return readings

    def _reading(self, question: str, text: str) -> Reading:
        logits = self.network.run(first_words(question, QUESTION_WORDS), text)[0]
        return Reading(*(float(each) for each in logits))
