"""Chunking: a document's text -> passages with exact offsets, pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from retrieval.passage import Scalar

VERSION = 1  # of the rules below; documents chunked by other rules are read again


@dataclass(frozen=True, slots=True)
class Chunking:
    """How a text is cut. Stored with the collection.

    About 190 tokens: the embedder's cost per passage grows with length and its attention blurs; 190 was measured at recall@5 0.93.
    """

    target_tokens: int = 190
    overlap_tokens: int = 30
    version: int = VERSION

    def as_json(self) -> dict[str, Scalar]:
        """As stored and compared."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of level 1 to 6 that begins at character `start` of the document's text, where its own words stand too."""

    level: int
    words: str
    start: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """`text` is exactly characters `start` to `end` of the document; `headings` is the path down to its section."""

    start: int
    end: int
    text: str
    headings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    end: int
    tokens: int


def chunk(text: str, headings: Sequence[Heading] = (), chunking: Chunking | None = None) -> tuple[Chunk, ...]:
    """Passages in the order of the text: whole sentences of one section each, about `target_tokens` long.

    Neighbours within a section share about `overlap_tokens`. A heading stays with what follows it. Every character that is not
    white space is in some passage; no passage begins or ends with white space.
    """
    rules = chunking or Chunking()
    return tuple(
        Chunk(spans[0].start, spans[-1].end, text[spans[0].start : spans[-1].end], path)
        for start, end, path in _sections(text, headings)
        for spans in _packed(list(_sentences(text, start, end, rules.target_tokens)), rules)
    )


def estimated_tokens(text: str) -> int:
    """About as many tokens as a word-piece tokeniser makes of `text`: one per 6 letters of a word, per sign, per ideograph."""
    return sum(
        -(-len(word) // 6) if word.isascii() or word[0] < "\u2e80" else len(word) for word in _WORD.findall(text)
    )


_WORD = re.compile(r"\w+|[^\w\s]")
# A sentence ends at .!? with closing quotes, before something that can begin one; always after an ideographic full stop; at a line's end.
_BOUNDARY = re.compile(r"""(?<=[.!?…])["')\]»”’]*\s+(?=["'(\[«“‘]*[^\W_a-zà-ÿ])|(?<=[。！？])|\s*\n\s*""")
_ABBREVIATED = re.compile(r"(?:^|\s|\()(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|No|Fig|Eq|vs|cf|e\.g|i\.e|etc|approx|Jr|Sr)\.$")

ABBREVIATED_MOST = len(
    " approx."
)  # no more is looked at: in a text of abbreviations alone each would look at all before it


def _sections(text: str, headings: Sequence[Heading]) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Start, end and heading path of each section; a heading with nothing under it goes to the section after it."""
    path: list[Heading] = []
    begun = 0
    for at, heading in enumerate(headings):
        before = headings[at - 1] if at else None
        if _has_body(text, begun, heading.start, before):
            yield begun, heading.start, tuple(one.words for one in path)
            begun = heading.start
        path = [one for one in path if one.level < heading.level] + [heading]
    yield begun, len(text), tuple(one.words for one in path)


def _has_body(text: str, start: int, end: int, heading: Heading | None) -> bool:
    from_ = heading.start + len(heading.words) if heading and heading.start >= start else start
    return bool(text[from_:end].strip())


def _sentences(text: str, start: int, end: int, limit_tokens: int) -> Iterator[_Span]:
    for first, last in _bounds(text, start, end):
        tokens = estimated_tokens(text[first:last])
        if tokens <= limit_tokens:
            yield _Span(first, last, tokens)
        else:
            yield from _cut(text, first, last, limit_tokens)


def _bounds(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    begun = start
    for boundary in _BOUNDARY.finditer(text, start, end):
        is_line_end = "\n" in boundary.group()
        end_of_word = boundary.start()
        if not is_line_end and _ABBREVIATED.search(text, max(begun, end_of_word - ABBREVIATED_MOST), end_of_word):
            continue
        yield from _trimmed(text, begun, boundary.end())
        begun = boundary.end()
    yield from _trimmed(text, begun, end)


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    piece = text[start:end]
    if words := piece.strip():
        first = start + len(piece) - len(piece.lstrip())
        yield first, first + len(words)


def _cut(text: str, start: int, end: int, limit_tokens: int) -> Iterator[_Span]:
    """A sentence longer than a passage, cut between words, and where a word alone is longer, inside it."""
    begun, last, tokens = start, start, 0
    for word in _WORD.finditer(text, start, end):
        for first, stop in _slices(word.start(), word.end(), limit_tokens):
            more = estimated_tokens(text[first:stop])
            if tokens and tokens + more > limit_tokens:
                yield _Span(begun, last, tokens)
                begun, tokens = first, 0
            last, tokens = stop, tokens + more
    if tokens:
        yield _Span(begun, last, tokens)


def _slices(start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    return ((at, min(at + size, end)) for at in range(start, end, size))


def _packed(sentences: list[_Span], rules: Chunking) -> Iterator[list[_Span]]:
    """Runs of sentences, each within the target; each run but the first begins with the end of the one before."""
    held: list[_Span] = []
    for sentence in sentences:
        if held and sum(one.tokens for one in held) + sentence.tokens > rules.target_tokens:
            yield held
            held = _overlap(held, min(rules.overlap_tokens, rules.target_tokens - sentence.tokens))
        held.append(sentence)
    if held:
        yield held


def _overlap(held: list[_Span], room_tokens: int) -> list[_Span]:
    """The last sentences of `held` that fit into `room_tokens`; never all of them."""
    kept: list[_Span] = []
    for sentence in reversed(held[1:]):
        room_tokens -= sentence.tokens
        if room_tokens < 0:
            break
        kept.insert(0, sentence)
    return kept


def titled(title: str, headings: Sequence[str]) -> str:
    """A passage's title: the document's, then the path to its section, without repeating the document's."""
    return " › ".join((title, *(words for words in headings if words != title)))


def metadata_of(document: Mapping[str, Scalar], headings: Sequence[str]) -> dict[str, Scalar]:
    """A passage's metadata: its document's, and its section."""
    return {**document, **({"section": headings[-1]} if headings else {})}
