"""Disagreement between passages: the same sentence with other figures. Pure, and no more than what can be told without reading.

A model that grades sees more of it (grading.grade.Grade.conflicts); this sees it before anything is drafted and without a model.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from retrieval.names import undated
from retrieval.passage import Passage

FEWEST_WORDS = 4  # of four letters or more: a shorter sentence with another figure may be about another thing
LONGEST_SENTENCE = 240  # characters; a longer one is a table that was read as text, or too much to be shown
MOST = 3  # more are not shown to anyone

_DIGIT = re.compile(r"\d")
_FIGURE = re.compile(r"(?<![^\s(€$£+-])\d[\d.,:/-]*(?![a-z\d])")  # not the 4 of MP4
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
# Sentences about a page and not about a matter: every page has its own figure there.
_ABOUT_A_PAGE = re.compile(
    r"\b(?:updated|modified|published|posted|written|copyright|page|pages|chapter|figure|table|section|step|version|footnote)\b"
)


@dataclass(frozen=True, slots=True)
class Disagreement:
    """`said` by passage `one` and `denied` by passage `other`: sentences that differ in their figures alone."""

    one: Passage
    other: Passage
    said: str
    denied: str

    @property
    def words(self) -> str:
        """For the person who asked."""
        return f"“{self.said}” ({_called(self.one)}), but “{self.denied}” ({_called(self.other)})"


def disagreements(passages: Sequence[Passage]) -> tuple[Disagreement, ...]:
    """At most MOST conflicts, those of the best passages first; never of a passage with itself or with its own document."""
    first: dict[str, tuple[Passage, str]] = {}
    found: list[Disagreement] = []
    for passage in passages:
        for sentence in _figured(passage.text):
            frame = _FIGURE.sub("#", sentence.lower())
            one, said = first.setdefault(frame, (passage, sentence))
            if said is sentence or one.document_id == passage.document_id:
                continue
            if _figures(said) != _figures(sentence) and _is_about_a_matter(frame) and _is_one_subject(one, passage):
                found.append(Disagreement(one, passage, said, sentence))
    return tuple(found[:MOST])


def _figured(text: str) -> Iterator[str]:
    """The sentences that state figures. Cut by the plainest means: this runs before every draft."""
    for sentence in text.replace("\n", ". ").split(". "):
        if len(sentence) <= LONGEST_SENTENCE and _DIGIT.search(sentence) is not None:
            yield sentence.strip(" .!?")


def _figures(sentence: str) -> list[str]:
    return [figure.rstrip(".,:/-") for figure in _FIGURE.findall(sentence)]


def _is_one_subject(one: Passage, other: Passage) -> bool:
    """Whether the titles are the same but for version and date: of two villages or two years every figure differs."""
    return undated(one.title) == undated(other.title) != ""


def _is_about_a_matter(frame: str) -> bool:
    return len(_LONG_WORD.findall(frame)) >= FEWEST_WORDS and _ABOUT_A_PAGE.search(frame) is None


def _called(passage: Passage) -> str:
    return passage.title or passage.document_id
