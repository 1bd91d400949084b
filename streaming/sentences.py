"""Sentences of an answer as it streams: where one ends, what it cites. Pure."""

import re
from dataclasses import dataclass

from streaming.ports import Cited, Piece, Text

# A full stop, question or exclamation mark with its closing quotes, followed by space; or a line's end.
# A stop after a single letter or a number with more digits to come does not end a sentence.
_END = re.compile(r"""(?:(?<![\s.][A-Za-z])[.!?。！？]["')\]»”]*(?=\s)|(?<=[。！？])|\n)\s*""")


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
        return any(p.is_claim and re.search(r"\w", p.text) for p in self.pieces if isinstance(p, Text))


class Sentences:
    """Cuts pieces into sentences. A citation goes with the sentence it comes with, at the latest the one being said."""

    def __init__(self) -> None:
        self._open: list[Piece] = []
        self._start = 0
        self._length = 0

    def add(self, pieces: tuple[Piece, ...]) -> list[Sentence]:
        """The sentences that `pieces` complete. The last one said stays open until more comes, or `rest`."""
        complete: list[Sentence] = []
        for piece in pieces:
            if isinstance(piece, Text):
                self._say(piece, complete)
            else:
                self._open.append(piece)
        return complete

    def rest(self) -> list[Sentence]:
        """What is still open at the end of the answer."""
        return [self._cut()] if self._open else []

    def _say(self, piece: Text, complete: list[Sentence]) -> None:
        said = "".join(p.text for p in self._open if isinstance(p, Text))
        text, done = said + piece.text, 0
        for end in _END.finditer(text):
            if end.end() <= len(said) or end.end() == len(text):
                continue
            self._append(text[max(done, len(said)) : end.end()], piece)
            complete.append(self._cut())
            done = end.end()
        self._append(text[max(done, len(said)) :], piece)

    def _append(self, text: str, piece: Text) -> None:
        if text:
            self._open.append(Text(text, piece.is_claim))
            self._length += len(text)

    def _cut(self) -> Sentence:
        sentence = Sentence(self._start, self._length, tuple(self._open))
        self._open, self._start = [], self._length
        return sentence
