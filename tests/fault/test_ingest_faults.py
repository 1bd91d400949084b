"""Ingest meets a full disk, and `kill -9`: whole documents are stored or nothing of them, and the next run does the rest."""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import psycopg
import pytest

from retrieval.faults import RetrievalUnavailable
from retrieval.ingest import ingest
from retrieval.pool import Pool, open_pool
from retrieval.store import PassageStore
from tests.support.embedders import HashingEmbedder
from tests.support.postgres import emptied

pytestmark = pytest.mark.anyio

ROOM = "96k"
DOCUMENTS = 30
ROOT = Path(__file__).resolve().parents[2]
INGEST = """
import sys
from pathlib import Path
import anyio
from retrieval.ingest import ingest
from retrieval.pool import open_pool
from retrieval.store import PassageStore
from tests.support.embedders import HashingEmbedder

class Slow(HashingEmbedder):
    asked = 0

    async def embed_passages(self, texts):
        self.asked += 1
        await anyio.sleep(0.02 if self.asked < 25 else 3600)  # however late it is killed, it has not ended
        return await super().embed_passages(texts)

async def main(url, folder):
    async with open_pool(url, size=1) as pool:
        await ingest(Path(folder), PassageStore(pool), Slow())

anyio.run(main, *sys.argv[1:])
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def url(database_url: str) -> str:
    """The address for who serves; `database_url` is the owner's, who sees every tenant."""
    return emptied(database_url)


@pytest.fixture
async def pool(url: str) -> AsyncIterator[Pool]:
    async with open_pool(url, size=2) as pool:
        yield pool


def words(count: int, seed: int) -> str:
    """Words that do not compress well, in sentences."""
    draw = random.Random(seed)
    said = [f"{draw.getrandbits(40):x}" for _ in range(count)]
    return ". ".join(" ".join(said[at : at + 12]) for at in range(0, count, 12))


def statement(url: str, *statements: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        for each in statements:
            rows = connection.execute(each.encode())
        return rows.fetchall() if rows.description else []


@contextmanager
def small_disk(url: str) -> Iterator[None]:
    """The table of passages on a disk of its own with ROOM left. Skips where nobody may mount one."""
    (data,) = statement(url, "SHOW data_directory")[0]
    if os.geteuid() != 0 or not Path(str(data)).exists():
        pytest.skip("a small disk is mounted by root, beside a server of this machine")
    with tempfile.TemporaryDirectory(prefix="gw-disk-") as folder:
        mounted = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", folder]
        if subprocess.run(mounted, check=False, capture_output=True).returncode:
            pytest.skip("no disk can be mounted here")
        try:
            Path(folder).chmod(0o700)
            owner = Path(str(data)).stat()
            os.chown(folder, owner.st_uid, owner.st_gid)
            statement(url, f"CREATE TABLESPACE tiny LOCATION '{folder}'", "ALTER TABLE passage SET TABLESPACE tiny")
            try:
                yield
            finally:
                statement(url, "ALTER TABLE passage SET TABLESPACE pg_default", "DROP TABLESPACE tiny")
        finally:
            subprocess.run(["umount", folder], check=True)


async def test_a_full_disk_is_said_and_leaves_whole_documents(database_url: str, pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "a-small.txt").write_text(words(200, 1))
    (tmp_path / "b-large.txt").write_text(words(12_000, 2))
    store = PassageStore(pool)
    with small_disk(database_url):
        with pytest.raises(RetrievalUnavailable, match="its disk is full"):
            await ingest(tmp_path, store, HashingEmbedder())
        assert [document.source for document in await store.documents()] == ["a-small.txt"]
        assert orphans(database_url) == 0
        assert pool.in_use == 0
    report = await ingest(tmp_path, store, HashingEmbedder())
    assert (report.added, report.unchanged) == (1, 1)


def orphans(url: str) -> int:
    """Passages that belong to no document."""
    rows = statement(
        url, "SELECT count(*) FROM passage p WHERE NOT EXISTS (SELECT FROM document d WHERE d.id = p.document_id)"
    )
    return int(str(rows[0][0]))


def passages_by_document(url: str) -> dict[str, int]:
    rows = statement(
        url,
        "SELECT d.source, count(p.id) FROM document d LEFT JOIN passage p ON p.document_id = d.id GROUP BY d.source",
    )
    return {str(name): int(str(count)) for name, count in rows}


def ingest_and_kill(url: str, database_url: str, folder: Path, after: int) -> None:
    """Ingests in a process of its own, which is killed as soon as `after` documents are stored."""
    command = [sys.executable, "-c", INGEST, url, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
        try:
            until = time.monotonic() + 60
            while (
                len(passages_by_document(database_url)) < after and time.monotonic() < until and process.poll() is None
            ):
                time.sleep(0.005)
            assert process.poll() is None
        finally:
            process.kill()


@pytest.mark.parametrize("after", [1, DOCUMENTS // 2])
async def test_an_ingest_that_was_killed_has_stored_whole_documents_and_the_next_one_does_the_rest(
    database_url: str, url: str, pool: Pool, tmp_path: Path, after: int
) -> None:
    for number in range(DOCUMENTS):
        (tmp_path / f"{number:03}.txt").write_text(words(400, number))
    await anyio.to_thread.run_sync(ingest_and_kill, url, database_url, tmp_path, after)
    stored = passages_by_document(database_url)
    assert after <= len(stored) < DOCUMENTS
    assert orphans(database_url) == 0
    report = await ingest(tmp_path, PassageStore(pool), HashingEmbedder())
    assert report.added + report.unchanged == DOCUMENTS
    assert report.changed == 0
    whole = passages_by_document(database_url)
    assert len(whole) == DOCUMENTS
    assert stored.items() <= whole.items()
