"""Disagreement between passages: the same sentence with other figures. Pure, and no more than what can be told without reading.

A model that grades sees more of it (grading.grade.Grade.conflicts); this sees it before anything is drafted and without a model.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from retrieval.names import undated
from retrieval.passage import Passage

FEWEST_WORDS = 4  # of four letters or more: a shorter sentence with another figure may be about another thing
LONGEST_SENTENCE = 240  # characters; a longer one is a table that was read as text, or too much to be shown
MOST = 3  # more are not shown to anyone

# Not the 4 of MP4. It begins with its digit, so that the engine can look for one: twice as fast as with the look behind in front.
_FIGURE = re.compile(r"[0-9](?<![^\s(€$£+-][0-9])(?:[0-9.,:/-]*[0-9])?(?![a-z0-9])")
_FIGURES_PLACE = "\x00"  # no text that is stored holds one
_ENDS = " .!?"
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
    first: dict[str, tuple[Passage, int]] = {}
    found: list[Disagreement] = []
    for passage in passages:
        for place, words in enumerate(_sentences(_FIGURE.sub(_FIGURES_PLACE, passage.text.lower()))):
            if _FIGURES_PLACE not in words or len(words) > LONGEST_SENTENCE:
                continue
            frame = words.strip(_ENDS)
            one, at = first.setdefault(frame, (passage, place))
            if (
                one.document_id == passage.document_id
                or not _is_about_a_matter(frame)
                or not _is_one_subject(one, passage)
            ):
                continue
            said, denied = _sentence(one, at), _sentence(passage, place)
            if _FIGURE.findall(said.lower()) != _FIGURE.findall(denied.lower()):
                found.append(Disagreement(one, passage, said, denied))
    return tuple(found[:MOST])


def _sentences(text: str) -> list[str]:
    """Cut by the plainest means, because this runs before every draft; no figure holds a cut, so a frame's place is its sentence's."""
    return text.replace("\n", ". ").split(". ")


def _sentence(passage: Passage, place: int) -> str:
    return _sentences(passage.text)[place].strip(_ENDS)


def _is_about_a_matter(frame: str) -> bool:
    return len(_LONG_WORD.findall(frame)) >= FEWEST_WORDS and _ABOUT_A_PAGE.search(frame) is None


def _is_one_subject(one: Passage, other: Passage) -> bool:
    """Whether the titles are the same but for version and date: of two villages or two years every figure differs."""
    return undated(one.title) == undated(other.title) != ""


def _called(passage: Passage) -> str:
    return passage.title or passage.document_id
