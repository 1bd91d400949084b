"""Sentences worth quoting from a passage: plain text, text that was Markdown, or Markdown as it is. Pure."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from grading.words import words

LONGEST_QUOTE = (
    600  # characters; a longer run without a full stop (a list in a sentence, text out of a PDF) is parted at a blank
)
NEARLY_LONGEST = 560  # what is longer and ends without a sign was parted, and is shown so
FEWEST_WORDS = 3  # "Yes." or "Note:" quoted alone says nothing
LONGEST_TERM = 5  # words that the first of two cells may have to be shown as a term and its meaning
ENDS = (".", "!", "?", "…", ":", ";")

_FENCE = re.compile(r"\s*(```|~~~)")
_FENCE_LINES = re.compile(r"^\s*(?:```|~~~).*$", re.MULTILINE)
_HEADING = re.compile(r"\s{0,3}#{1,6}\s|\s*(=+|-{3,}|\*{3,}|_{3,})\s*$|\s*(<[^>]*>\s*)+$")
_ITEM = re.compile(r"\s*(?:>\s?)*(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_ROW = re.compile(r"\s*\|.*\|\s*$|.*\S \| \S")
_RULE = re.compile(r"[\s|:-]+$")
_DRAWN = re.compile(
    r".*(?:[^\s|] {3,}[^\s|]|-\+|\+-|-{5,}|[─│┌└├]|\| {3,}\S.*[^|\s]\s*$)"
)  # a diagram, a listing aligned by blanks
_INDENTED = re.compile(r"(?: {4}|\t)\s*\S")
_END = re.compile(r"[.!?][\"”’')\]*_`]*\s+(?=[\"“‘'(\[*_`]*[A-Z0-9])")
_ABBREVIATION = re.compile(
    r"(?:e\.g|i\.e|cf|etc|vs|approx|fig|no|dr|mr|mrs|ms|st|prof|gen|col|lt|inc|ltd|co|corp|jr|sr|al|ca|[a-z])\.",
    re.IGNORECASE,
)
_BARE_NUMBER = re.compile(r"\d+\.")
_QUOTED_LINE = re.compile(r"\n\s*>\s?")
_CELL_END = re.compile(r"\s+\|\s+")
_PATH_MARK = " › "  # parts the headings in a passage's title (retrieval/chunk.py)
_LINK = re.compile(r"!?\[([^\]]*)\]\((?:[^()\s]|\([^()]*\))*(?:\s+\"[^\"]*\")?\)")
_EMPHASIS = re.compile(r"(\*\*|__)(?=\S)|(?<=\S)(\*\*|__)|^(\*\*|__)|(\*\*|__)$")


@dataclass(frozen=True, slots=True)
class Quote:
    """Characters of passage number `n`: `raw` as they stand there, `shown` as they read in an answer; `place` is their offset."""

    n: int
    place: int
    raw: str
    shown: str

    @property
    def key(self) -> str:
        """Equal for quotes that say the same words."""
        return " ".join(words(self.shown))


def quotes(n: int, text: str, title: str = "") -> list[Quote]:
    """The sentences, list items and table rows of a passage, in reading order; no headings, no code, no rules.

    A line that repeats a part of `title` is a heading too. When nothing is left (the passage is code), its beginning is
    the one quote; none only for blank text.
    """
    headings = {_ITEM.sub("", part.strip(), count=1) for part in title.split(_PATH_MARK)}
    spans = ((start, end) for start, end in _spans(text) if text[start:end].strip() not in headings)
    found = [quote for start, end in spans if (quote := _quote(n, text, start, end)) and is_telling(quote)]
    if found:
        return found
    code = _FENCE_LINES.sub(lambda match: " " * len(match.group()), text)  # offsets stay
    start, end = len(code) - len(code.lstrip()), len(code.rstrip())
    quote = _quote(n, text, *next(_parts(text, start, end), (start, start)))
    return [quote] if quote else []


def is_telling(quote: Quote) -> bool:
    return len(words(quote.shown)) >= FEWEST_WORDS


def shown(raw: str) -> str:
    """The source as a line of prose: links by their text, no bold marks, a table row as `word: what is said of it`, blanks single."""
    line = _row_shown(raw) if _ROW.match(raw) else _QUOTED_LINE.sub("\n", raw)
    prose = " ".join(_EMPHASIS.sub("", _LINK.sub(r"\1", line)).split())
    return f"{prose} …" if len(raw) > NEARLY_LONGEST and prose[-1:] not in ENDS else prose


def _row_shown(row: str) -> str:
    cells = [cell.strip().replace("\\|", "|") for cell in _CELL_END.split(row.strip().strip("|"))]
    is_edged = row.lstrip().startswith("|")
    if not is_edged and (len(cells) > 2 or len(cells[0].split()) > LONGEST_TERM):
        return row  # perhaps no table at all
    return f"{cells[0]}: {'; '.join(cell for cell in cells[1:] if cell)}"


def _quote(n: int, text: str, start: int, end: int) -> Quote | None:
    raw = text[start:end]
    return Quote(n, start, raw, shown(raw)) if raw.strip() else None


def _spans(text: str) -> Iterator[tuple[int, int]]:
    for start, end in _blocks(text):
        if _ROW.match(text[start:end]):
            yield from _parts(text, start, end)
        else:
            yield from _sentences(text, start, end)


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Paragraphs, list items and table rows as offsets, without list markers."""
    block: tuple[int, int] | None = None
    for kind, start, end in _lines(text):
        if kind == "text" and block is not None:
            block = (block[0], end)
            continue
        if block is not None:
            yield block
        block = (start, end) if kind in ("text", "item") else None
        if kind == "row":
            yield start, end
    if block is not None:
        yield block


def _lines(text: str) -> Iterator[tuple[str, int, int]]:
    """Each line as what it is: text, item (starts a block), row, or none of these (ends a block)."""
    lines = list(_offsets(text))
    fenced = in_item = False
    before = ""
    for number, (start, end) in enumerate(lines):
        line = text[start:end]
        after = text[slice(*lines[number + 1])] if number + 1 < len(lines) else ""
        marker, skipped = _ITEM.match(line), 0
        if _FENCE.match(line):
            fenced, kind = not fenced, "none"
        elif fenced or not line.strip() or _HEADING.match(line) or _is_rule(line) or _DRAWN.match(line):
            kind = "none"
        elif _INDENTED.match(line) and not in_item and not before.strip():
            kind, line = "none", ""  # indented code; the next such line follows a line taken as blank
        elif _is_row(line):
            kind = "none" if _is_rule(after) else "row"
        elif marker:
            kind, skipped = "item", marker.end()
        else:
            kind, skipped = "text", len(line) - len(line.lstrip("> \t"))
        in_item = kind == "item" or (in_item and (not line.strip() or line[0].isspace() or bool(before.strip())))
        before = line
        yield kind, start + skipped, end


def _is_row(line: str) -> bool:
    return _ROW.match(line) is not None


def _is_rule(line: str) -> bool:
    return "-" in line and "|" in line and _RULE.match(line) is not None


def _offsets(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for line in text.splitlines(keepends=True):
        yield start, start + len(line.rstrip("\r\n"))
        start += len(line)


def _sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    begin = start
    for match in _END.finditer(text, start, end):
        stop = match.start() + len(match.group().rstrip())
        if _abbreviates(text[begin : match.start() + 1]):
            continue
        yield from _parts(text, begin, stop)
        begin = match.end()
    yield from _parts(text, begin, end)


def _abbreviates(sentence: str) -> bool:
    """Whether the full stop at the end belongs to a word (`e.g.`, `J.`, a leading `1.`) and ends no sentence."""
    last = sentence.split()[-1].lstrip("(\"'“[*_`")
    return _ABBREVIATION.fullmatch(last) is not None or _BARE_NUMBER.fullmatch(sentence) is not None


def _parts(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The span itself, or an over-long one parted at blanks."""
    while end - start > LONGEST_QUOTE:
        blank = max(text.rfind(" ", start, start + LONGEST_QUOTE), text.rfind("\n", start, start + LONGEST_QUOTE))
        stop = blank if blank > start else start + LONGEST_QUOTE
        yield start, stop
        start = stop + (blank > start)
    if end > start:
        yield start, end


def unrepeated(found: Iterable[Quote]) -> list[Quote]:
    """The quotes in order, each wording once, where it comes first."""
    kept: dict[str, Quote] = {}
    for quote in found:
        kept.setdefault(quote.key, quote)
    return list(kept.values())
