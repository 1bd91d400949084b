"""Documents: a file's bytes -> a title and clean text with its headings."""

import io
import logging
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pypdf import PdfReader

from retrieval.chunk import Heading
from retrieval.faults import DocumentUnreadable
from retrieval.markdown import markdown_page
from retrieval.page import Page, tidy
from retrieval.raw import SIZE_LIMIT_BYTES, kind_of, too_large
from retrieval.webpage import html_page

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
            raise too_large(name)
        return path.read_bytes()
    except OSError as error:
        raise DocumentUnreadable(f"{name}: {error.strerror or 'cannot be read'}") from error


def parse_document(name: str, data: bytes, kind: str | None = None) -> Document:
    """The document in `data`; its kind, unless given, follows from `name`'s ending. Blocks; meant for a worker thread.

    Raises DocumentUnreadable, naming it, when it is empty, corrupt, encrypted, not decodable, too big or of an unknown kind.
    """
    kind = kind or kind_of(name)
    if len(data) > SIZE_LIMIT_BYTES:
        raise too_large(name)
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


def _text(name: str, data: bytes) -> Page:
    page = Page()
    page.add(_decoded(name, data))
    return page


def _markdown(name: str, data: bytes) -> Page:
    return markdown_page(_decoded(name, data))


def _html(name: str, data: bytes) -> Page:
    page = html_page(data)
    if page is None:
        raise DocumentUnreadable(f"{name}: its text cannot be decoded")
    return page


def _pdf(name: str, data: bytes) -> Page:
    logging.getLogger("pypdf").setLevel(
        logging.CRITICAL
    )  # it warns of what is read all the same, or refused here in our words
    try:
        reader = PdfReader(io.BytesIO(data), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise DocumentUnreadable(f"{name}: encrypted, and the password is not known")
        if len(reader.pages) > PAGES_LIMIT:
            raise DocumentUnreadable(f"{name}: more than {PAGES_LIMIT} pages")
        metadata = reader.metadata
        page = Page(tidy(str((metadata.title if metadata else None) or "")))
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


_PARSERS: dict[str, Callable[[str, bytes], Page]] = {"text": _text, "markdown": _markdown, "html": _html, "pdf": _pdf}
