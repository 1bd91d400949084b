"""Sentences of an answer as it streams: where one ends, what it cites. Pure."""

import re
from dataclasses import dataclass

from streaming.ports import Cited, Piece, Text

LONGEST_CHARACTERS = 2_000  # a run without an end is cut here, so that what waits for a check is bounded
FEWEST_WORDS = 3  # "Yes." or "1." says nothing that could be checked: it goes with what follows

_CLOSERS = r"""["'”’»)\]*_`]*"""
_END = re.compile(
    rf"(?<![.!?…؟۔।])(?P<stop>[.!?…؟۔।]+){_CLOSERS}(?:\[\d+\])*(?=\s)\s*"  # a blank must follow: there is none in 3.14
    r"|[。｡！？]+[」』”’）】》]*\s*"
    r"|\n\s*"
)
_CJK = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"  # each of these signs counts as a word
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")
_INITIAL = re.compile(r"(?:^|[\s(\[“\"/-])(?:[^\W\d_]\.)*[^\W\d_]$")  # "J.", "U.S.", "e.g.", before the last full stop
_TITLES = "mr mrs ms dr prof st gen col lt sgt capt rev hon gov sen rep vs cf approx ca al ed eds viz bzw vgl"
_BEFORE_NUMBERS = "no nos nr vol pp p ch fig figs sec art jan feb mar apr jun jul aug sep sept oct nov dec"
_TITLE = re.compile(rf"\b(?:{'|'.join(_TITLES.split())})$", re.IGNORECASE)
_BEFORE_NUMBER = re.compile(rf"\b(?:{'|'.join(_BEFORE_NUMBERS.split())})$", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_LEADS_IN = re.compile(r"(?:^\s*#{1,6}\s[^\n]*|[:：][*_]*)$")  # a heading, or "as follows:"


@dataclass(frozen=True, slots=True)
class Sentence:
    """Characters `start` to `end` of the answer, the pieces that say them, and the passages cited for them."""

    start: int
    end: int
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        return "".join(p.text for p in self.pieces if isinstance(p, Text))

    @property
    def cited(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(p.n for p in self.pieces if isinstance(p, Cited)))

    @property
    def is_claim(self) -> bool:
        """Whether there is anything in it to check: a word that is said of the world."""
        return any(p.is_claim and re.search(r"[^\W_]", p.text) for p in self.pieces if isinstance(p, Text))


class Sentences:
    """Cuts pieces into sentences, the same ones however the text is divided into pieces. Their texts joined are the answer.

    A sentence ends at a stop that a blank follows, or at a line's end; white space after it belongs to it. A stop ends none after
    an abbreviation or an initial, before a small letter, or after fewer than FEWEST_WORDS words; a line's end none after a heading or a
    colon. A fenced block of code is one. A citation goes with the sentence it comes with, at the latest the one being said.
    """

    def __init__(self) -> None:
        self._open: list[Piece] = []
        self._said = ""  # the text in `_open`
        self._looked = 0  # up to here there is no end in `_said`
        self._start = 0
        self._is_code = False  # whether the open sentence began inside a fence

    def add(self, pieces: tuple[Piece, ...]) -> list[Sentence]:
        """The sentences that `pieces` complete. The last one said stays open until more comes, or `rest`."""
        complete: list[Sentence] = []
        for piece in pieces:
            self._open.append(piece)
            if isinstance(piece, Text):
                self._said += piece.text
                while (end := self._end()) is not None:
                    complete.append(self._cut(end))
        return complete

    def rest(self) -> list[Sentence]:
        """What is still open at the end of the answer."""
        return [self._cut(len(self._said))] if self._open else []

    def _end(self) -> int | None:
        """Where the open sentence ends; None as long as what comes next could change that."""
        said = self._said
        for found in _END.finditer(said, self._looked):
            if found.end() >= min(len(said), LONGEST_CHARACTERS + 1):
                break
            if self._ends(found):
                return found.end()
            self._looked = found.end()
        if len(said) <= LONGEST_CHARACTERS:
            return None
        blank = said.rfind(" ", LONGEST_CHARACTERS // 2, LONGEST_CHARACTERS)
        return blank + 1 if blank > 0 else LONGEST_CHARACTERS

    def _ends(self, found: re.Match[str]) -> bool:
        said, end = self._said, found.end()
        before = said[: found.start()]
        if len(_WORD.findall(before)) < FEWEST_WORDS or self._in_code(end):
            return False
        if "\n" in found.group():
            return _LEADS_IN.search(said[:end].rstrip()) is None
        stop, after = found["stop"], said[end]
        if stop is None:
            return True
        return not after.islower() and (stop != "." or not abbreviates(before, after))

    def _in_code(self, end: int) -> bool:
        return self._is_code != (len(_FENCE.findall(self._said, 0, end)) % 2 == 1)

    def _cut(self, end: int) -> Sentence:
        """The open sentence up to `end`, with what is cited there; a piece across `end` is divided."""
        is_code, length = self._in_code(end), 0
        pieces: list[Piece] = []
        later: list[Piece] = []
        for piece in self._open:
            if not isinstance(piece, Text):
                (later if later else pieces).append(piece)
                continue
            here = piece.text[: max(0, end - length)]
            length += len(piece.text)
            if here:
                pieces.append(Text(here, piece.is_claim))
            if len(here) < len(piece.text):
                later.append(Text(piece.text[len(here) :], piece.is_claim))
        sentence = Sentence(self._start, self._start + end, tuple(pieces))
        self._open, self._said, self._looked, self._is_code = later, self._said[end:], 0, is_code
        self._start += end
        return sentence


def abbreviates(before: str, after: str) -> bool:
    """Whether a full stop between `before` and `after` belongs to a word (`J.`, `e.g.`, `Dr.`, `No. 5`) and ends no sentence."""
    if _INITIAL.search(before) or _TITLE.search(before):
        return True
    return after.isdigit() and _BEFORE_NUMBER.search(before) is not None
