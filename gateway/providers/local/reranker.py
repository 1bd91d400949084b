"""The cross-encoder as a reranker."""

from gateway.providers.local.faults import told
from gateway.providers.local.pairs import PairScorer
from gateway.providers.local.readable import readable
from gateway.providers.local.slots import Urgency
from grading.words import first_words
from retrieval.faults import RetrievalUnavailable
from retrieval.passage import Passage


class CrossEncoder:
    """retrieval.ports.Reranker: question and passage are read together, 45 ms of one core per 200 tokens.

    Of each passage `words` are read, from its title on; all where that is None.
    """

    name = "ms-marco-MiniLM-L-12-int8"

    def __init__(self, pairs: PairScorer, words: int | None = None) -> None:
        self._pairs, self._words = pairs, words

    def glancing(self, words: int) -> "CrossEncoder":
        """One that reads so many words of each passage: for whoever has to have its order soon."""
        return CrossEncoder(self._pairs, words)

    async def rerank(self, question: str, passages: tuple[Passage, ...], k: int) -> tuple[Passage, ...]:
        """As the port says; equals keep their order. Raises RetrievalUnavailable when the model fails."""
        texts = [full_text(each) for each in passages]
        if self._words is not None:
            texts = [first_words(text, self._words) for text in texts]
        try:
            logits = await self._pairs.scores(question, texts, Urgency.VERDICT)
        except Exception as error:
            raise RetrievalUnavailable(told(error, f"the local reranker failed on {len(passages)} passages")) from error
        scored = [each.scored("rerank", logit) for each, logit in zip(passages, logits, strict=True)]
        return tuple(sorted(scored, key=lambda each: -each.score)[:k])


def full_text(passage: Passage) -> str:
    """What the local judges read of a passage: `title: text`."""
    return readable(passage).full
