"""The reader: a document's bytes -> its text, cut into passages. A large one is read in a process of its own.

Parsers cannot be interrupted, and what they build of a large document holds up every thread of its process while garbage is
collected: 0.6 MB of Markdown tables took 18 s, with pauses of 2 s in every stream. A process is ended when nobody waits for it.
"""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import BinaryIO

import anyio
from anyio import to_thread

from retrieval.chunk import Chunk, Chunking, chunk
from retrieval.documents import Document, parse_document
from retrieval.faults import DocumentUnreadable
from retrieval.raw import kind_of

HERE_BYTES = 65_536  # up to here a document is read on a worker thread: in tenths of a second, 2 s at the very worst
HERE_PDF_BYTES = 16_384  # a PDF is compressed
HERE_MARKS = (
    50_000_000  # signs at which markup may begin, times bytes: a parser may look to the end from each, at 40 ns a byte
)
LIMIT_S = 300.0  # 32 MiB of prose take half of that; what takes longer was made to
READ = [sys.executable, "-c", "from retrieval.reader import main; main()"]
NICENESS = 5  # answers come first


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document and its passages."""

    document: Document
    chunks: tuple[Chunk, ...]


async def read(name: str, data: bytes, kind: str | None, chunking: Chunking) -> ReadDocument:
    """The document in `data`. Raises as `parse_document`, also when reading it takes more than LIMIT_S or too much memory.

    Cancellation ends a process at once; on a worker thread it waits, so that no more is read than somebody waits for.
    """
    kind = kind or kind_of(name)
    if is_light(data, kind):
        return await to_thread.run_sync(read_here, name, data, kind, chunking)
    with anyio.move_on_after(LIMIT_S):
        return await read_apart(name, data, kind, chunking)
    raise DocumentUnreadable(f"{name}: takes longer than {LIMIT_S:g} s to read")


def is_light(data: bytes, kind: str) -> bool:
    """Whether reading it holds nobody up. 64 KiB of `<a <a <a` took 50 s of a core: each `<` is looked from to the end for its `>`."""
    if kind == "pdf":
        return len(data) <= HERE_PDF_BYTES
    marks = data.count(b"<") + data.count(b"[") if kind in ("html", "markdown") else 0
    return len(data) <= HERE_BYTES and marks * len(data) <= HERE_MARKS


def read_here(name: str, data: bytes, kind: str, chunking: Chunking) -> ReadDocument:
    """As `read`. Blocks."""
    document = parse_document(name, data, kind)
    return ReadDocument(document, chunk(document.text, document.headings, chunking))


async def read_apart(name: str, data: bytes, kind: str, chunking: Chunking) -> ReadDocument:
    """As `read`, in a process that ends with it."""
    with tempfile.TemporaryFile(
        prefix="gateway-read-"
    ) as task:  # no pipe: nothing is left to be written when its reader dies
        await to_thread.run_sync(write, task, (name, data, kind, chunking))
        with anyio.CancelScope(shield=True):  # milliseconds; cancelled here, nobody would end what was just begun
            process = await anyio.open_process(READ, stdin=task, stderr=subprocess.DEVNULL)
    async with process:
        assert process.stdout is not None
        said = b"".join([piece async for piece in process.stdout])
        code = await process.wait()
    if code:
        raise DocumentUnreadable(f"{name}: cannot be read with the memory that there is")
    found = await to_thread.run_sync(pickle.loads, said)
    if isinstance(found, DocumentUnreadable):
        raise found
    assert isinstance(found, ReadDocument)
    return found


def write(file: BinaryIO, task: tuple[str, bytes, str, Chunking]) -> None:
    """Writes `task`, to be read from the start. Blocks."""
    pickle.dump(task, file)
    file.flush()
    file.seek(0)


def main() -> None:
    """Reads the one document that stands on the standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, to all: whoever waits for this process ends it
    os.nice(NICENESS)
    name, data, kind, chunking = pickle.load(sys.stdin.buffer)
    try:
        found: ReadDocument | DocumentUnreadable = read_here(name, data, kind, chunking)
    except DocumentUnreadable as fault:
        found = fault
    sys.stdout.buffer.write(pickle.dumps(found))
