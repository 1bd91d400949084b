"""Reading documents: large ones in a process of their own, which ends with whoever waits for it."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from retrieval import reader
from retrieval.chunk import Chunking
from retrieval.faults import DocumentUnreadable
from tests.support.gateway_app import eventually
from tests.support.pdf import pdf

pytestmark = pytest.mark.anyio

PROSE = (
    b"# Tea\n\n" + b"A sentence of a document, with *emphasis* and [a link](https://tea.example). It goes on.\n\n" * 900
)
SLOW = b"\r\n-" * 400_000  # tens of seconds


def readers() -> list[int]:
    """Processes that read for this one."""
    children = " ".join(text_of(task / "children") for task in Path("/proc/self/task").iterdir())
    return [int(pid) for pid in children.split() if "retrieval.reader" in text_of(Path(f"/proc/{pid}/cmdline"))]


def text_of(path: Path) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):  # of a thread or a process that has ended meanwhile
        return path.read_text()
    return ""


async def test_a_large_document_is_read_as_a_small_one_is() -> None:
    assert len(PROSE) > reader.HERE_BYTES
    apart = await reader.read("tea.md", PROSE, None, Chunking())
    assert apart == reader.read_here("tea.md", PROSE, "markdown", Chunking())
    assert len(apart.chunks) > 50


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.md", b"\xff" * 70_000, r"^a\.md: not UTF-8 text \(byte 0\)$"),
        ("a.pdf", b"%PDF-1.7 " * 3_000, r"^a\.pdf: corrupt PDF$"),
        ("a.txt", b" \n" * 40_000 + b"\x00", r"^a\.txt: holds no text$"),
    ],
)
async def test_a_large_document_that_cannot_be_read_says_why(name: str, data: bytes, said: str) -> None:
    with pytest.raises(DocumentUnreadable, match=said):
        await reader.read(name, data, None, Chunking())


async def test_a_pdf_is_compressed_and_so_large_sooner() -> None:
    large = pdf(*("Tea is hot." for _ in range(200)))
    assert reader.HERE_PDF_BYTES < len(large) < reader.HERE_BYTES
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reader.read, "tea.pdf", large, None, Chunking())
        await eventually(lambda: bool(readers()))


@pytest.mark.parametrize(
    ("name", "piece"), [("a.html", b"<a "), ("a.html", b"<b>"), ("a.md", b"<!--"), ("a.md", b"![")]
)
async def test_markup_that_takes_its_parser_long_is_read_apart_however_small(name: str, piece: bytes) -> None:
    """On a worker thread nobody could end it, and it would hold up every stream."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reader.read, name, piece * (32_768 // len(piece)), None, Chunking())
        await eventually(lambda: bool(readers()))
        tasks.cancel_scope.cancel()
    await eventually(lambda: not readers())


def test_a_page_of_the_usual_size_is_read_at_once() -> None:
    assert reader.is_light(b'<p>A sentence with <a href="https://tea.example">a link</a>.</p>\n' * 400, "html")
    assert reader.is_light(PROSE[: reader.HERE_BYTES // 2], "markdown")
    assert reader.is_light(b"[<" * 32_000, "text")


async def test_who_leaves_leaves_nobody_reading() -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reader.read, "slow.md", SLOW, None, Chunking())
        await eventually(lambda: bool(readers()))
        tasks.cancel_scope.cancel()
    await eventually(lambda: not readers())


async def test_a_reader_that_was_killed_is_a_document_that_cannot_be_read() -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kill_the_reader)
        with pytest.raises(DocumentUnreadable, match="memory"):
            await reader.read("slow.md", SLOW, None, Chunking())


async def kill_the_reader() -> None:
    await eventually(lambda: bool(readers()))
    os.kill(readers()[0], signal.SIGKILL)


async def test_a_document_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LIMIT_S", 0.5)
    with pytest.raises(DocumentUnreadable, match=r"takes longer than 0\.5 s"):
        await reader.read("slow.md", SLOW, None, Chunking())
    await eventually(lambda: not readers())
