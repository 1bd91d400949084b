"""Ingest: a folder's documents -> the store, reading only what has changed."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from anyio import to_thread

from retrieval.chunk import Chunking
from retrieval.cleaning import storable
from retrieval.documents import read_bytes
from retrieval.faults import DocumentUnreadable
from retrieval.intake import Intake, Taken
from retrieval.ports import Embedder
from retrieval.raw import KINDS, Raw
from retrieval.store import Collection, PassageStore

SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "CVS"})  # and every folder whose name begins with a dot


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` documents are finished; `name` is the one being read, empty at the end."""

    done: int
    total: int
    name: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A document that was left out, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Report:
    """What an ingest did: counts of documents, and of the passages it stored."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    passages: int = 0
    unreadable: tuple[Unreadable, ...] = field(default=())


def _silent(progress: Progress) -> None:
    """Reports to nobody."""


async def ingest(
    root: Path,
    store: PassageStore,
    embedder: Embedder,
    *,
    collection: str = "default",
    tenant: str = "default",
    chunking: Chunking | None = None,
    progress: Callable[[Progress], None] = _silent,
) -> Report:
    """Brings `collection` in line with the documents at `root`, a folder or one file; what it did.

    Documents whose bytes have not changed are skipped; a changed one is replaced in one transaction; one that is no longer there is
    removed. One that cannot be read is reported by name and the rest goes on; what was stored of it before stays. A single file is brought
    in line alone; documents of other roots are not touched.
    Raises FileNotFoundError, RetrievalMisconfigured (the collection has another model, dimensions or chunking), RetrievalUnavailable
    or EmbeddingFailed. Cancelled or failed, it has stored whole documents only; running it again does the rest.
    """
    rules = chunking or Chunking()
    files = await to_thread.run_sync(lambda: Files.under(root))
    opened = await store.open(embedder, rules, collection, tenant)
    return await _Ingest(files, store, opened, embedder, rules, progress).run()


@dataclass(frozen=True, slots=True)
class Files:
    """The readable kinds of files below a folder: `names` are paths relative to `folder`, in a stable order.

    `closed` are folders that could not be looked into, with the reason: what was read from there before has not vanished. `outside` are
    links to files that are not below the folder: whoever may write there could have any file of this machine read out to everybody.
    """

    folder: Path
    names: tuple[str, ...]
    is_whole_folder: bool
    closed: tuple[tuple[str, str], ...] = ()
    outside: tuple[str, ...] = ()

    @staticmethod
    def under(root: Path) -> "Files":
        """The files at `root`. Hidden files and folders and links to folders are skipped; a single file may be a link to anywhere.

        Raises FileNotFoundError.
        """
        root = root.expanduser().absolute()
        if root.is_dir():
            closed: list[OSError] = []
            found = sorted(_walk(root, closed.append))
            real_root = root.resolve()
            outside = tuple(name for name in found if _leads_out(root / name, real_root))
            names = tuple(name for name in found if name not in outside)
            reasons = tuple(_reason(root, error) for error in closed)
            return Files(root, names, is_whole_folder=True, closed=reasons, outside=outside)
        if not root.exists():
            raise FileNotFoundError(f"there is no file or folder at {root}")
        return Files(root.parent, (root.name,), is_whole_folder=False)


def _reason(root: Path, error: OSError) -> tuple[str, str]:
    return Path(str(error.filename)).relative_to(root).as_posix(), error.strerror or "cannot be read"


def _leads_out(path: Path, real_root: Path) -> bool:
    """Whether `path` is a link to a file that is not below `real_root`."""
    return path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(real_root)


def _walk(root: Path, report: Callable[[OSError], None]) -> Iterator[str]:
    for folder, below, names in os.walk(root, onerror=report):
        below[:] = [name for name in below if not name.startswith(".") and name not in SKIPPED_FOLDERS]
        for name in names:
            if not name.startswith(".") and Path(name).suffix.lower() in KINDS:
                yield (Path(folder) / name).relative_to(root).as_posix()


class _Ingest:
    def __init__(
        self,
        files: Files,
        store: PassageStore,
        collection: Collection,
        embedder: Embedder,
        chunking: Chunking,
        progress: Callable[[Progress], None],
    ) -> None:
        self._files, self._store, self._collection = files, store, collection
        self._progress = progress
        self._root = storable(str(files.folder))
        self._intake = Intake(store, collection, embedder, chunking, self._root)
        self._report = Report()

    async def run(self) -> Report:
        known = await self._store.known(self._collection, self._root)
        total = len(self._files.names)
        for done, name in enumerate(self._files.names):
            self._progress(Progress(done, total, storable(name)))
            await self._one(name, known.get(storable(name)))
        await self._remove_vanished(known)
        if self._report.passages or self._report.removed:
            await self._store.refresh_statistics()
        self._progress(Progress(total, total, ""))
        return self._report

    async def _one(self, name: str, known_hash: str | None) -> None:
        try:
            data = await to_thread.run_sync(read_bytes, self._files.folder / name, storable(name))
            self._count(await self._intake.take(Raw(storable(name), data), known_hash))
        except DocumentUnreadable as fault:
            self._leave_out(storable(name), str(fault).removeprefix(f"{storable(name)}: "))

    def _count(self, taken: Taken) -> None:
        self._report = replace(
            self._report,
            added=self._report.added + (taken.outcome == "added"),
            changed=self._report.changed + (taken.outcome == "changed"),
            unchanged=self._report.unchanged + (taken.outcome == "unchanged"),
            passages=self._report.passages + taken.passages,
        )

    def _leave_out(self, name: str, why: str) -> None:
        self._report = replace(self._report, unreadable=(*self._report.unreadable, Unreadable(name, why)))

    async def _remove_vanished(self, known: dict[str, str]) -> None:
        for folder, why in self._files.closed:
            self._leave_out(storable(folder), why)
        for name in self._files.outside:
            self._leave_out(storable(name), "a link that leads out of the folder")
        if self._files.is_whole_folder:
            closed = [PurePosixPath(storable(folder)) for folder, _ in self._files.closed]
            missing = known.keys() - {storable(name) for name in self._files.names}
            gone = sorted(
                name for name in missing if not any(PurePosixPath(name).is_relative_to(one) for one in closed)
            )
            self._report = replace(self._report, removed=await self._store.forget(self._collection, self._root, gone))
