"""The words of a text: which carry content, where sentences end, how much of a question a text covers. Pure."""

import re
from collections.abc import Iterable
from functools import lru_cache

# Words that say nothing about the subject. The list is part of the reader model's input format (models/reader/card.md): do not edit.
_STOP_WORDS = (
    "the a an of in on at to for from by with and or is are was were be been being do does did has have had what which who whom whose "
    "when where why how that this these those it its as than then there their they he she his her him you your i my me we our us not no "
    "can could would should will may might into about over under between during after before also if so such only other more most some "
    "any all each both one two"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'“(\[]?[A-Z0-9])|\n+")
_ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ied", "ers", "er", "ed", "es", "ly", "s", "e", "y")
_SHORTEST_STEM = 3
STEMS_KEPT = 16_384  # a set of five passages has about 300 different words, and most sets have the same ones
_COMMON_PREFIX = 5  # letters; "reserve" and "reservation" share it, "contest" and "content" do not


def words(text: str) -> list[str]:
    """Every word of `text` in lower case, in order."""
    return _WORD.findall(text.lower())


def content_words(text: str) -> list[str]:
    """The words of two letters or more that are no stop words, in lower case, in order, with repeats."""
    return [word for word in words(text) if word not in STOP_WORDS and len(word) > 1]


def sentences(text: str) -> list[str]:
    """The sentences of plain text, in order; a line break ends one too. None is blank."""
    return [part for part in _SENTENCE_END.split(text.strip()) if part and part.strip()]


@lru_cache(maxsize=STEMS_KEPT)
def stem(word: str) -> str:
    """A crude stem of a lower-case word, only for comparing words: the commonest English endings are cut."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word


def cover(question: str, texts: Iterable[str]) -> float:
    """The share (0..1) of the question's different content words that occur in any of `texts`; 1.0 when it has none."""
    asked = dict.fromkeys(content_words(question))
    if not asked:
        return 1.0
    said = _Said(texts)
    return sum(said.has(word) for word in asked) / len(asked)


def uncovered(question: str, texts: Iterable[str]) -> tuple[str, ...]:
    """The runs of the question's content words that occur in none of `texts`, as written and in order, each word once.

    Neighbours stay together ("refurbished phones"); a stop word or a covered word parts them.
    """
    said = _Said(texts)
    named: set[str] = set()
    runs: list[list[str]] = [[]]
    for word in _WORD.findall(question):
        if content_words(word) and word.lower() not in named and not said.has(word.lower()):
            named.add(word.lower())
            runs[-1].append(word)
        elif runs[-1]:
            runs.append([])
    return tuple(" ".join(run) for run in runs if run)


class _Said:
    """What `texts` say, for looking words up by stem or by a shared beginning."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._words = {word for text in texts for word in words(text)}
        self._stems = {stem(word) for word in self._words}

    def has(self, word: str) -> bool:
        return word in self._words or stem(word) in self._stems or self._begins(stem(word))

    def _begins(self, stemmed: str) -> bool:
        return len(stemmed) >= _COMMON_PREFIX and any(
            known.startswith(stemmed) or (len(known) >= _COMMON_PREFIX and stemmed.startswith(known))
            for known in self._stems
        )


def first_words(text: str, limit: int) -> str:
    """The first `limit` blank-separated words of `text`, joined by single blanks."""
    return " ".join(text.split()[:limit])
