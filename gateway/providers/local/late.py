"""Late interaction: each word piece of a question beside the word piece of a text that is nearest in meaning."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from gateway.providers.local.network import Network
from gateway.providers.local.slots import Slots, Urgency
from grading.words import first_words

if TYPE_CHECKING:
    import numpy

QUESTION_WORDS = 70
LONGEST_TOKENS = 400  # the reader's packed evidence is about 250


class LateInteraction:
    """The answerai-colbert-small network, its last layer compared by cosine. Source of the method: ColBERT, arXiv:2004.12832."""

    def __init__(self, network: Network, slots: Slots) -> None:
        self.network = network
        self._slots = slots

    async def similar(self, question: str, text: str, urgency: Urgency) -> tuple[tuple[str, float], ...]:
        """Each word piece of the question (at most 70 words) with its highest cosine in `text`; 8 + 30 ms of one core for 250 tokens.

        Empty where one of both is blank. Raises what the network raises.
        """
        return await self._slots.run(urgency, partial(self._similar, question, text))

    async def similar_to_all(
        self, questions: Sequence[str], texts: Sequence[str], urgency: Urgency
    ) -> list[tuple[tuple[str, float], ...]]:
        """For each question what `similar` gives, its highest cosines in any of `texts`, each of which is read once."""
        return await self._slots.run(urgency, partial(self._similar_to_all, questions, texts))

    def _similar_to_all(self, questions: Sequence[str], texts: Sequence[str]) -> list[tuple[tuple[str, float], ...]]:
        import numpy

        there = [self._vectors(text) for text in texts if text.strip()]
        if not there:
            return [()] * len(questions)
        everything = numpy.concatenate(there)
        return [self._nearest(first_words(question, QUESTION_WORDS), everything) for question in questions]

    def _similar(self, question: str, text: str) -> tuple[tuple[str, float], ...]:
        return self._nearest(first_words(question, QUESTION_WORDS), self._vectors(text))

    def _nearest(self, asked: str, there: numpy.ndarray) -> tuple[tuple[str, float], ...]:
        pieces = self.network.pieces(asked)[1:-1]
        here = self._vectors(asked)
        if not len(here) or not len(there):
            return ()
        best = (here @ there.T).max(axis=1)
        return tuple((piece, float(value)) for piece, value in zip(pieces, best, strict=True))

    def _vectors(self, text: str) -> numpy.ndarray:
        """One unit vector for each word piece, without the marks around the text."""
        import numpy

        states = self.network.run(text)[0][1:-1]
        vectors: numpy.ndarray = states / numpy.linalg.norm(states, axis=1, keepdims=True)
        return vectors
