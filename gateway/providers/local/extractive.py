"""An answer made of sentences quoted from the passages: what this gateway says when no model writes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from anyio import lowlevel

from gateway.providers.local.faults import told
from gateway.providers.local.pairs import PairScorer
from gateway.providers.local.quotes import Quote, quotes, unrepeated
from gateway.providers.local.reranker import full_text
from gateway.providers.local.slots import Urgency
from grading.words import content_words, stem
from retrieval.passage import Passage
from streaming.faults import GeneratorUnavailable
from streaming.ports import Cited, Draft, Piece, Prompt, Stopped, StopReason, Text

PREAMBLE = "Quoted from your documents; no model wrote this.\n\n"
MOST_QUOTES = 4
MOST_PER_PASSAGE = 2
MOST_CANDIDATES = (
    8  # sentences of a passage that are scored: those that share most words with the question; 8 ms of a core each
)
# Sentence logit + 0.5 x passage logit, and the margin below the best so far within which a sentence is still quoted: on 50 sufficient
# sets each, a margin of 5 quoted the key fact in .57 (multihop), .80 (rgb_en), .96 (squad2) of the cases with 2.2, 2.2 and 1.3 sentences on
# average; a margin of 3 in .49, .72, .96 with 1.8, 1.7, 1.2. Ranking all sentences before the first is sent did no better (.53, .80, .98).
PASSAGE_WEIGHT = 0.5
MARGIN = 5.0
HIGHEST_LOGIT = 11.0  # the cross-encoder's; a passage none of whose sentences can reach the margin is not read
CHARACTERS_PER_TOKEN = 4
SENTENCE_ENDS = (".", "!", "?", '."', ".”", ".)")


class ExtractiveGenerator:
    """streaming.ports.Generator: 1 to 4 sentences by cross-encoder logit + 0.5 x that of their passage, best passage first."""

    name = "extractive"

    def __init__(self, pairs: PairScorer) -> None:
        self._pairs = pairs

    async def draft(self, prompt: Prompt) -> Draft:
        """At once; everything is computed as the draft is read."""
        return ExtractiveDraft(prompt, self._pairs)


class ExtractiveDraft:
    """Its first batch says what it is; then one batch for each sentence, as soon as its passage is read. Counts no usage."""

    def __init__(self, prompt: Prompt, pairs: PairScorer) -> None:
        self._batches = _batches(prompt, pairs)

    def __aiter__(self) -> AsyncIterator[tuple[Piece, ...]]:
        return self._batches

    def cut(self) -> None:
        """There is no request upstream."""

    async def aclose(self) -> None:
        await self._batches.aclose()


async def _batches(prompt: Prompt, pairs: PairScorer) -> AsyncGenerator[tuple[Piece, ...], None]:
    page = Page(prompt.max_tokens * CHARACTERS_PER_TOKEN)
    yield (page.opening(),)
    picks = Picks()
    reason = StopReason.END
    for n, passage, logit in await _ranked(prompt, pairs):
        if not picks.may_gain(logit):
            break
        for quote in picks.pick(await _scored(prompt.question, n, passage, logit, pairs)):
            await lowlevel.checkpoint()  # scores that are known already are had without waiting
            if page.has_room(quote):
                yield page.quoted(quote)
            else:
                reason = StopReason.LENGTH
    yield (Stopped(reason),)


async def _ranked(prompt: Prompt, pairs: PairScorer) -> list[tuple[int, Passage, float]]:
    """The passages with their numbers and logits, best first. At the grade's urgency, which asks for the same pairs."""
    texts = [full_text(passage) for _, passage in prompt.passages]
    with _faults_named():
        logits = await pairs.scores(prompt.question, texts, Urgency.VERDICT)
    ranked = [(n, passage, logit) for (n, passage), logit in zip(prompt.passages, logits, strict=True)]
    return sorted(ranked, key=lambda each: -each[2])


async def _scored(question: str, n: int, passage: Passage, logit: float, pairs: PairScorer) -> list[Scored]:
    candidates = nearest(question, quotes(n, passage.text, passage.title), MOST_CANDIDATES)
    with _faults_named():
        logits = await pairs.scores(question, [quote.shown for quote in candidates], Urgency.DRAFT)
    return [Scored(quote, own + PASSAGE_WEIGHT * logit) for quote, own in zip(candidates, logits, strict=True)]


@contextmanager
def _faults_named() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise GeneratorUnavailable(told(error, "the local model that picks the quotes failed")) from error


@dataclass(frozen=True, slots=True)
class Scored:
    quote: Quote
    score: float


class Picks:
    """Which sentences are quoted, decided passage by passage. Pure.

    Passages come best first, so their sentences can be sent before the next passage is read: a later sentence is quoted
    when it comes within MARGIN of the best one so far.
    """

    def __init__(self) -> None:
        self._picked: list[Quote] = []
        self._best = float("-inf")

    def may_gain(self, logit: float) -> bool:
        """Whether a passage of this logit may still hold a sentence to quote."""
        reach = HIGHEST_LOGIT + PASSAGE_WEIGHT * logit
        return len(self._picked) < MOST_QUOTES and (not self._picked or reach >= self._best - MARGIN)

    def pick(self, scored: Sequence[Scored]) -> list[Quote]:
        """The sentences of one passage to quote, in reading order."""
        best_first = sorted(scored, key=lambda each: -each.score)
        self._best = max([self._best, *(each.score for each in best_first[:1])])
        near = [each.quote for each in best_first if each.score >= self._best - MARGIN]
        fresh = [quote for quote in unrepeated(near) if not self._says(quote)]
        chosen = fresh[: min(MOST_PER_PASSAGE, MOST_QUOTES - len(self._picked))]
        self._picked += chosen
        return sorted(chosen, key=lambda quote: quote.place)

    def _says(self, quote: Quote) -> bool:
        return any(quote.key in picked.key or picked.key in quote.key for picked in self._picked)


class Page:
    """The answer's text as it grows, in characters: the sentences of a passage are a paragraph, others stand alone. Pure."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._length = 0
        self._last: Quote | None = None

    def opening(self) -> Text:
        self._length = len(PREAMBLE)
        return Text(PREAMBLE, is_claim=False)

    def has_room(self, quote: Quote) -> bool:
        """Whether the quote keeps the answer within its limit; the first one always has room."""
        return self._last is None or self._length + len(quote.shown) < self._limit

    def quoted(self, quote: Quote) -> tuple[Text, Cited]:
        """The quote's text and its citation, whose offsets leave out what parts it from the quote before."""
        gap = "" if self._last is None else " " if self._goes_on(quote) else "\n\n"
        start = self._length + len(gap)
        self._length, self._last = start + len(quote.shown), quote
        return Text(gap + quote.shown), Cited(quote.n, start, self._length, quote.raw)

    def _goes_on(self, quote: Quote) -> bool:
        """Whether the quote follows a whole sentence of the same passage, not a list item or a table row."""
        return self._last is not None and self._last.n == quote.n and self._last.shown.endswith(SENTENCE_ENDS)


def nearest(question: str, found: list[Quote], most: int) -> list[Quote]:
    """The `most` quotes that share most words with the question, in reading order; the first ones among equals."""
    asked = {stem(word) for word in content_words(question)}

    def strangeness(quote: Quote) -> int:
        return -len(asked & {stem(word) for word in content_words(quote.shown)})

    kept = sorted(unrepeated(found), key=strangeness)[:most]
    return sorted(kept, key=lambda quote: quote.place)
