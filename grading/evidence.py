"""A passage set packed into one text for a reader of limited length. Pure.

Method: the `reader` model was tuned on texts packed exactly so (gateway/models/reader/card.md); tests hold this file equal to its
reference script. All passages are joined as `title: text`. Over the budget, the sentences nearest the question are kept, then those that
share names and numbers with the three nearest: a second hop is often told in the words of the first.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import fsum, sqrt

from grading.words import STOP_WORDS, content_words, sentences, words

_NAME_OR_NUMBER = re.compile(r"\b[A-Z]\w+|\b\d{2,}\b")
_PUNCTUATION = re.compile(r"[^\w\s]")
# All five weights and the token estimate are the reference script's: the model was tuned with them.
_TOKENS_PER_WORD = 1.22
_TITLE_WEIGHT = 0.5
_FIRST_SENTENCE_WEIGHT = 0.15
_LINK_WEIGHT = 0.35
_LINK_DAMPING = 0.3
_LINK_SENTENCES = 3
_TITLE_PREFIX = 40  # characters; a text that begins with its own title is not given the title twice


@dataclass(frozen=True, slots=True)
class Piece:
    """A passage as the reader sees it; `title` may be empty."""

    title: str
    text: str

    @property
    def full(self) -> str:
        return f"{self.title}: {self.text}" if self.title else self.text


def piece(title: str | None, text: str) -> Piece:
    """Title and text stripped; the title left out where it is blank or the text begins with it."""
    title, text = (title or "").strip(), text.strip()
    repeated = text.lower().startswith(title.lower()[:_TITLE_PREFIX])
    return Piece("" if repeated else title, text)


def tokens(text: str) -> int:
    """An estimate of how many model tokens `text` takes."""
    return int(len(words(text)) * _TOKENS_PER_WORD) + len(_PUNCTUATION.findall(text))


def pack(question: str, pieces: Sequence[Piece], budget_tokens: int) -> str:
    """All pieces as one text of about `budget_tokens`, in their order; at least one sentence, if there is any, however long."""
    full = " ".join(each.full for each in pieces)
    if tokens(full) <= budget_tokens:
        return full
    candidates = [
        _Candidate(number, place, text, pieces[number].title, frozenset(content_words(text)))
        for number, each in enumerate(pieces)
        for place, text in enumerate(sentences(each.text))
    ]
    ranked = _ranked(frozenset(content_words(question)), candidates)
    return _joined(candidates, _kept(ranked, budget_tokens))


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Sentence number `place` of piece `number`."""

    number: int
    place: int
    text: str
    title: str
    words: frozenset[str]
    title_words: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "title_words", frozenset(content_words(self.title)))


def _ranked(asked: frozenset[str], candidates: list[_Candidate]) -> list[_Candidate]:
    """The candidates, best first; equals stay in reading order."""
    frequency = Counter(word for each in candidates for word in each.words)

    def weight(found: Iterable[str]) -> float:
        return fsum(1 / sqrt(frequency[word] + 1) for word in found)

    def nearness(each: _Candidate) -> float:
        first = _FIRST_SENTENCE_WEIGHT if each.place == 0 else 0
        in_title = weight((asked & each.title_words) - each.words)
        return weight(asked & each.words) + _TITLE_WEIGHT * in_title + first

    near = {id(each): nearness(each) for each in candidates}
    nearest = sorted(candidates, key=lambda each: -near[id(each)])[:_LINK_SENTENCES]
    links = {name.lower() for each in nearest for name in _NAME_OR_NUMBER.findall(each.text)} - asked - STOP_WORDS
    damping = 1 + _LINK_DAMPING * sqrt(len(links))

    def score(each: _Candidate) -> float:
        return near[id(each)] + _LINK_WEIGHT * weight(links & (each.words | each.title_words)) / damping

    scores = {id(each): score(each) for each in candidates}
    return sorted(candidates, key=lambda each: -scores[id(each)])


def _kept(ranked: list[_Candidate], budget_tokens: int) -> set[tuple[int, int]]:
    """Which sentences fit, best first; a piece's title is paid for once."""
    kept: set[tuple[int, int]] = set()
    titled: set[int] = set()
    left = budget_tokens
    for each in ranked:
        title_tokens = tokens(each.title) + 1 if each.title and each.number not in titled else 0
        cost = tokens(each.text) + title_tokens
        if cost <= left or not kept:
            kept.add((each.number, each.place))
            titled.add(each.number)
            left -= cost
        if left <= 0:
            break
    return kept


def _joined(candidates: list[_Candidate], kept: set[tuple[int, int]]) -> str:
    titled: set[int] = set()
    parts = []
    for each in candidates:
        if (each.number, each.place) not in kept:
            continue
        begins = each.title and each.number not in titled
        titled.add(each.number)
        parts.append(f"{each.title}: {each.text}" if begins else each.text)
    return " ".join(parts)
