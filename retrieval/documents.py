"""Documents: a file's bytes -> a title and clean text with its headings."""

import io
import re
import stat
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath

from bs4 import BeautifulSoup, Tag
from bs4.element import NavigableString
from markdown_it import MarkdownIt
from markdown_it.token import Token
from pypdf import PdfReader

from retrieval.chunk import Heading
from retrieval.cleaning import storable
from retrieval.faults import DocumentUnreadable

SIZE_LIMIT_BYTES = 32 * 1024 * 1024  # a 1,000-page PDF is about 10 MB; parsing takes about 10 times its size in memory
PAGES_LIMIT = 5000


@dataclass(frozen=True, slots=True)
class Document:
    """A document's `title` and plain `text`; each heading's words stand in the text where it begins."""

    title: str
    text: str
    kind: str
    headings: tuple[Heading, ...] = ()


def read_document(path: Path) -> Document:
    """The document in the file at `path`. Blocks; meant for a worker thread. Raises DocumentUnreadable as `parse_document`."""
    return parse_document(path.name, read_bytes(path, path.name))


def read_bytes(path: Path, name: str) -> bytes:
    """The bytes of the file at `path`, called `name` in messages. Raises DocumentUnreadable: too big, no plain file, not to be opened."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise DocumentUnreadable(f"{name}: not a plain file")  # a pipe would be waited on for ever
        if found.st_size > SIZE_LIMIT_BYTES:
            raise DocumentUnreadable(f"{name}: larger than {SIZE_LIMIT_BYTES // 1024 // 1024} MiB")
        return path.read_bytes()
    except OSError as error:
        raise DocumentUnreadable(f"{name}: {error.strerror or 'cannot be read'}") from error


def parse_document(name: str, data: bytes) -> Document:
    """The document in `data`; its kind follows from `name`'s ending. Blocks; meant for a worker thread.

    Raises DocumentUnreadable, naming it, when it is empty, corrupt, encrypted, not decodable, too big or of an unknown kind.
    """
    kind = KINDS.get(PurePosixPath(name).suffix.lower())
    if kind is None:
        raise DocumentUnreadable(f"{name}: not Markdown, text, HTML or PDF")
    if len(data) > SIZE_LIMIT_BYTES:
        raise DocumentUnreadable(f"{name}: larger than {SIZE_LIMIT_BYTES // 1024 // 1024} MiB")
    if not data.strip():
        raise DocumentUnreadable(f"{name}: empty")
    try:
        page = _PARSERS[kind](name, data)
    except RecursionError as error:
        raise DocumentUnreadable(f"{name}: nested too deeply") from error
    if not page.text.strip():
        raise DocumentUnreadable(f"{name}: holds no text" + (" (scanned pages?)" if kind == "pdf" else ""))
    title = page.title or (page.headings[0].words if page.headings else "") or PurePosixPath(name).stem
    return Document(title, page.text, kind, tuple(page.headings))


KINDS = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "text",
    ".text": "text",
    ".rst": "text",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".pdf": "pdf",
}


class _Page:
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
        words = _tidy(words)
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


def _tidy(words: str) -> str:
    """Without NUL, surrogates, other control characters and white space at the ends."""
    return _CONTROL.sub("", storable(words).replace("\r\n", "\n").replace("\r", "\n")).strip()


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")


def _decoded(name: str, data: bytes) -> str:
    """UTF-8, or UTF-16 and UTF-32 with a mark. Anything else cannot be told from noise."""
    encoding = "utf-8-sig"
    if data.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        encoding = "utf-32"
    elif data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise DocumentUnreadable(f"{name}: not UTF-8 text (byte {error.start})") from error


def _text(name: str, data: bytes) -> _Page:
    page = _Page()
    page.add(_decoded(name, data))
    return page


def _markdown(name: str, data: bytes) -> _Page:
    title, body = _front_matter(_decoded(name, data).replace("\r\n", "\n"))
    page = _Page(title)
    _Markdown(page).read(MarkdownIt("commonmark").enable("table").parse(body))
    return page


def _front_matter(text: str) -> tuple[str, str]:
    """The title in a YAML block at the top, and the text after the block."""
    found = _FRONT_MATTER.match(text)
    if found is None:
        return "", text
    title = _TITLE.search(found.group(1))
    return title.group(1).strip("\"' ") if title else "", text[found.end() :]


_FRONT_MATTER = re.compile(r"\A---\n((?:.*\n)*?)(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_TITLE = re.compile(r"^title:[ \t]*(.+)$", re.MULTILINE)


class _Markdown:
    """Walks markdown-it's flat list of tokens."""

    def __init__(self, page: _Page) -> None:
        self._page = page
        self._level = 0
        self._item = ""  # what marks the block that comes next as an item of a list
        self._depth = 0
        self._cells: list[str] | None = None
        self._gap = "\n\n"

    def read(self, tokens: list[Token]) -> None:
        for token in tokens:
            self._take(token)

    def _take(self, token: Token) -> None:
        match token.type:
            case "heading_open":
                self._level = int(token.tag[1])
            case "heading_close":
                self._level = 0
            case "bullet_list_open" | "ordered_list_open":
                self._depth += 1
            case "bullet_list_close" | "ordered_list_close":
                self._depth -= 1
            case "list_item_open":
                self._item = f"{token.info}{token.markup} " if token.info else "- "
            case "tr_open":
                self._cells = []
            case "tr_close":
                self._page.add(" | ".join(self._cells or ()), gap="\n")
                self._cells = None
            case "fence" | "code_block":
                self._page.add(token.content)
            case "html_block":
                self._page.add(_stripped(token.content))
            case "inline":
                self._inline(_inline_text(token.children or []))
            case _:
                pass  # the rest opens and closes what carries no text

    def _inline(self, words: str) -> None:
        if self._cells is not None:
            self._cells.append(" ".join(words.split()))
            return
        gap = "\n" if self._depth else "\n\n"
        self._page.add(self._item + words if words.strip() else "", level=self._level, gap=gap)
        self._item = ""


def _inline_text(children: list[Token]) -> str:
    words: list[str] = []
    for child in children:
        match child.type:
            case "text" | "code_inline" | "image":
                words.append(child.content)
            case "softbreak":
                words.append(" ")
            case "hardbreak":
                words.append("\n")
            case _:
                pass  # emphasis, links and tags: their text comes as its own token
    return "".join(words)


class _Stripper(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def _stripped(html: str) -> str:
    stripper = _Stripper()
    stripper.feed(html)
    stripper.close()
    return "".join(stripper.words)


def _html(name: str, data: bytes) -> _Page:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what looks like XML or like a file name is read as HTML all the same
        soup = BeautifulSoup(data, "html.parser")
    if soup.contains_replacement_characters:
        raise DocumentUnreadable(f"{name}: its text cannot be decoded")
    page = _Page(" ".join(soup.title.get_text().split()) if soup.title else "")
    for unwanted in soup(["script", "style", "noscript", "template", "nav", "head", "svg", "form", "iframe"]):
        unwanted.decompose()
    _Html(page).read(soup.body or soup)
    return page


_BLOCKS = frozenset(
    (
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "body",
            "br",
            "dd",
            "details",
            "div",
            "dl",
            "dt",
            "figcaption",
            "figure",
        ),
        *(
            "footer",
            "h1",
            "h2",
            "h3",
            "h4",
            "h5",
            "h6",
            "header",
            "hr",
            "html",
            "li",
            "main",
            "ol",
            "p",
            "pre",
            "section",
        ),
        *("summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"),
    )
)


class _Html:
    """Gathers inline text until a block begins or ends."""

    def __init__(self, page: _Page) -> None:
        self._page = page
        self._words: list[str] = []

    def read(self, tag: Tag) -> None:
        self._walk(tag, gap="\n\n")
        self._flush()

    def _walk(self, tag: Tag, gap: str) -> None:
        for child in tag.children:
            if type(child) is NavigableString:
                self._words.append(str(child) if tag.name == "pre" else " ".join(str(child).split("\n")))
            elif isinstance(child, Tag):
                self._enter(child, gap)

    def _enter(self, tag: Tag, gap: str) -> None:
        if tag.name not in _BLOCKS:
            self._walk(tag, gap)
        elif tag.name in {"h1", "h2", "h3", "h4", "h5", "h6"}:
            self._flush(gap)
            self._page.add(tag.get_text(), level=int(tag.name[1]))
        elif tag.name == "tr":
            self._flush(gap)
            cells = (" ".join(cell.get_text(" ").split()) for cell in tag.find_all(["td", "th"], recursive=False))
            self._page.add(" | ".join(cells), gap="\n")
        else:
            self._flush(gap)
            self._words.append("- " if tag.name == "li" else "")
            self._walk(tag, "\n" if tag.name in {"li", "ul", "ol"} else gap)
            self._flush("\n" if tag.name in {"li", "br"} else gap)

    def _flush(self, gap: str = "\n\n") -> None:
        words = "".join(self._words)
        self._words.clear()
        if words.strip() not in {"", "-"}:
            self._page.add(re.sub(r"[ \t]+", " ", words), gap=gap)


def _pdf(name: str, data: bytes) -> _Page:
    try:
        reader = PdfReader(io.BytesIO(data), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise DocumentUnreadable(f"{name}: encrypted, and the password is not known")
        if len(reader.pages) > PAGES_LIMIT:
            raise DocumentUnreadable(f"{name}: more than {PAGES_LIMIT} pages")
        metadata = reader.metadata
        page = _Page(_tidy(str((metadata.title if metadata else None) or "")))
        for sheet in reader.pages:
            page.add(_reflowed(sheet.extract_text()))
    except (DocumentUnreadable, RecursionError):
        raise
    except Exception as error:  # pypdf raises its own errors and, on broken files, whatever its parser stumbles over
        what = "encrypted in a way that cannot be read" if "crypt" in str(error).lower() else "corrupt"
        raise DocumentUnreadable(f"{name}: {what} PDF") from error
    return page


def _reflowed(text: str) -> str:
    """A page's lines joined to paragraphs: a line break that ends no sentence is only the page's width."""
    text = re.sub(r"(\w)-\n(?=[a-z])", r"\1", text)
    return re.sub(r"(?<![.!?:;\n])\n(?=[a-z(])", " ", text)


_PARSERS: dict[str, Callable[[str, bytes], _Page]] = {"text": _text, "markdown": _markdown, "html": _html, "pdf": _pdf}
