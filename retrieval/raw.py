"""A raw document: what came, before it is read; which kinds can be read, and up to which size."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from retrieval.faults import DocumentKindUnknown, DocumentTooLarge
from retrieval.passage import Scalar

SIZE_LIMIT_BYTES = 32 * 1024 * 1024  # a 1,000-page PDF is about 10 MB; parsing takes about 10 times its size in memory
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


@dataclass(frozen=True, slots=True)
class Raw:
    """A document as it came: `name` is its identity below a root. What is None follows from the name's ending and the document."""

    name: str
    data: bytes
    kind: str | None = None
    title: str | None = None
    url: str | None = None
    metadata: Mapping[str, Scalar] = field(default_factory=dict)


def kind_of(name: str) -> str:
    """The kind that `name`'s ending says. Raises DocumentKindUnknown."""
    kind = KINDS.get(PurePosixPath(name).suffix.lower())
    if kind is None:
        raise DocumentKindUnknown(f"{name}: not Markdown, text, HTML or PDF")
    return kind


def too_large(name: str) -> DocumentTooLarge:
    """The fault of a document over the limit."""
    return DocumentTooLarge(f"{name}: larger than {SIZE_LIMIT_BYTES // 1024 // 1024} MiB")
