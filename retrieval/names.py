"""Names: the runs of words in a text that may be some passage's title, normalised as the database's `name_of` does. Pure."""

import re
from collections.abc import Iterable, Sequence

LONGEST_NAME = 8  # words
MOST_NAMES = 2000  # a lookup each in an index, all in one statement; eight passages of 100 words hold about 1,000
FEWEST_LETTERS = 3

_WORD = re.compile(
    r"[0-9A-Za-z\x80-\U0010ffff]+"
)  # ASCII letters and digits, and whatever is not ASCII: as in SQL, whatever its locale
_BRACKETS = re.compile(r" *\([^()]*\) *$")
_BREAK = re.compile(r"[.;:!?\n]\s|\n")
_DATED_NAME = re.compile(
    r"\b(?:v ?\d[\d ]*|(?:version|rev|revision|release) \d[\d ]*|(?:19|20)\d\d(?: \d\d? \d\d?)?)\b"
)


def names_in(text: str) -> tuple[str, ...]:
    """Every run of up to LONGEST_NAME words that begins with a capital or a digit and crosses no sentence end, in order, none twice.

    In lower case, single blanks between the words. Most are no title of anything; which are, the collection knows.
    """
    names = (name for clause in _BREAK.split(text) for name in _runs(clause))
    return tuple(dict.fromkeys(names))[:MOST_NAMES]


def words_of(text: str) -> frozenset[str]:
    """The words of a text as names spell them."""
    return frozenset(_normal(_WORD.findall(text)).split(" "))


def name_of(title: str) -> str:
    """What a title names: its last part (document › section), without what stands in brackets at its end; as SQL's `name_of`."""
    return _normal(_WORD.findall(_BRACKETS.sub("", title.rsplit(" › ", 1)[-1])))


def undated(title: str) -> str:
    """The title's name without its version and date: the same for two versions of one thing."""
    return " ".join(_DATED_NAME.sub(" ", name_of(title)).split())


def _normal(words: Sequence[str]) -> str:
    """In lower case as far as ASCII goes."""
    return b" ".join(word.encode("utf-8", "replace").lower() for word in words).decode()


def _runs(clause: str) -> Iterable[str]:
    words = _WORD.findall(clause)
    lowered = _normal(words).split(" ") if words else []
    for start, first in enumerate(words):
        if not (first[0].isupper() or first[0].isdigit()):
            continue
        name = ""
        for word in lowered[start : start + LONGEST_NAME]:
            name = f"{name} {word}" if name else word
            if len(name) >= FEWEST_LETTERS and not name.isdigit():
                yield name
