"""A page: plain text put together block by block, with the places of its headings."""

import re

from retrieval.chunk import Heading
from retrieval.cleaning import storable


class Page:
    """Text being put together, block by block."""

    def __init__(self, title: str = "") -> None:
        self.title = title
        self.headings: list[Heading] = []
        self._blocks: list[str] = []
        self._length = 0

    @property
    def text(self) -> str:
        return "".join(self._blocks)

    def add(self, words: str, level: int = 0, gap: str = "\n\n") -> None:
        """Appends a block (a heading when `level` is given), `gap` after the one before; blank ones are left out."""
        words = tidy(words)
        if not words:
            return
        if self._blocks:
            self._blocks.append(gap)
            self._length += len(gap)
        if level:
            words = " ".join(words.split())
            self.headings.append(Heading(level, words, self._length))
        self._blocks.append(words)
        self._length += len(words)


def tidy(words: str) -> str:
    """`words` without NUL, surrogates, other control characters and white space at the ends; a run of LONGEST_BLANK or more is cut short.

    White space counts for no token, so that a passage could hold a megabyte of it, and every pattern that looks for blanks would walk it.
    """
    text = _CONTROL.sub("", storable(words).replace("\r\n", "\n").replace("\r", "\n")).strip()
    return _LONG_BLANK.sub(lambda blank: "\n\n" if "\n" in blank.group() else " ", text)


LONGEST_BLANK = 100  # characters: more than any column of a table is wide
_LONG_BLANK = re.compile(rf"\s{{{LONGEST_BLANK},}}")

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")
