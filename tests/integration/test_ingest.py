"""Ingest into a real database."""

import errno
import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest

from retrieval.chunk import Chunking
from retrieval.faults import EmbeddingFailed, RetrievalMisconfigured
from retrieval.ingest import Progress, Report, Unreadable, ingest
from retrieval.pool import Pool, open_pool
from retrieval.ports import Query, SearchMode, Vector
from retrieval.postgres import PostgresRetriever
from retrieval.store import PassageStore
from tests.support.embedders import HashingEmbedder
from tests.support.pdf import encrypted, pdf
from tests.support.postgres import emptied

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    async with open_pool(emptied(database_url), size=3) as pool:
        yield pool


@pytest.fixture
def store(pool: Pool) -> PassageStore:
    return PassageStore(pool)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    files: dict[str, str | bytes] = {
        "tea.md": "# Tea\n\nGreen tea is steeped at eighty degrees.\n\n## Milk\n\nMilk curdles in it.",
        "deep/er/coffee.html": "<title>Coffee</title><p>Coffee is brewed at ninety-three degrees.</p>",
        "deep/bread.txt": "Bread is baked for forty minutes.",
        "salt.pdf": pdf("Salt is added last."),
        "ignored.png": b"\x89PNG",
        ".git/config.txt": "hidden",
        ".hidden.md": "hidden",
        "node_modules/x.md": "hidden",
    }
    for name, content in files.items():
        path = tmp_path / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return tmp_path / "docs"


async def names(store: PassageStore, collection: str = "default") -> list[str]:
    return [document.source for document in await store.documents(collection)]


async def test_a_folder_is_read_without_what_is_hidden(docs: Path, store: PassageStore) -> None:
    report = await ingest(docs, store, HashingEmbedder())
    assert report == Report(added=4, passages=5)
    assert await names(store) == ["deep/bread.txt", "deep/er/coffee.html", "salt.pdf", "tea.md"]


async def test_a_second_run_changes_nothing(docs: Path, store: PassageStore) -> None:
    await ingest(docs, store, HashingEmbedder())
    before = await store.documents()

    class Forbidden(HashingEmbedder):
        async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
            raise AssertionError("what has not changed was embedded again")

    assert await ingest(docs, store, Forbidden()) == Report(unchanged=4)
    assert await store.documents() == before


async def test_what_changed_is_replaced_and_what_vanished_is_removed(
    docs: Path, store: PassageStore, pool: Pool
) -> None:
    await ingest(docs, store, HashingEmbedder())
    before = {document.source: document.id for document in await store.documents()}
    (docs / "deep/bread.txt").write_text("Bread is baked for fifty minutes.")
    (docs / "salt.pdf").unlink()
    (docs / "rye.txt").write_text("Rye needs an hour.")
    assert await ingest(docs, store, HashingEmbedder()) == Report(
        added=1, changed=1, unchanged=2, removed=1, passages=2
    )
    after = {document.source: document.id for document in await store.documents()}
    assert after.keys() == (before.keys() - {"salt.pdf"}) | {"rye.txt"}
    assert all(after[source] == before[source] for source in after.keys() & before.keys())
    found = await PostgresRetriever(pool, HashingEmbedder()).retrieve(Query("bread baked minutes", k=50))
    assert found[0].text == "Bread is baked for fifty minutes."
    assert not any("forty" in passage.text or "Salt" in passage.text for passage in found)


async def test_unreadable_documents_are_named_and_the_rest_is_stored(docs: Path, store: PassageStore) -> None:
    (docs / "broken.pdf").write_bytes(b"%PDF-1.7 nothing follows")
    (docs / "empty.md").write_bytes(b"")
    (docs / "noise.txt").write_bytes(b"caf\xe9")
    (docs / "locked.pdf").write_bytes(encrypted(pdf("Tea"), "secret"))
    report = await ingest(docs, store, HashingEmbedder())
    assert report.added == 4
    assert report.unreadable == (
        Unreadable("broken.pdf", "corrupt PDF"),
        Unreadable("empty.md", "empty"),
        Unreadable("locked.pdf", "encrypted, and the password is not known"),
        Unreadable("noise.txt", "not UTF-8 text (byte 3)"),
    )
    assert len(await names(store)) == 4


async def test_a_document_that_becomes_unreadable_keeps_what_was_stored(docs: Path, store: PassageStore) -> None:
    await ingest(docs, store, HashingEmbedder())
    (docs / "salt.pdf").write_bytes(b"%PDF-1.4 half a copy")
    report = await ingest(docs, store, HashingEmbedder())
    assert [one.name for one in report.unreadable] == ["salt.pdf"]
    assert report.removed == 0
    assert "salt.pdf" in await names(store)


async def test_nul_and_odd_file_names_are_stored(docs: Path, store: PassageStore, pool: Pool) -> None:
    (docs / "nul.txt").write_bytes(b"Cof\x00fee with a nul")
    docs.joinpath("caf\udce9.txt").write_text("A name that is no UTF-8.")
    report = await ingest(docs, store, HashingEmbedder())
    assert report.added == 6
    assert (await ingest(docs, store, HashingEmbedder())).unchanged == 6
    found = await PostgresRetriever(pool, HashingEmbedder()).retrieve(Query("coffee with a nul", k=1))
    assert found[0].text == "Coffee with a nul"


async def test_passages_know_their_place_in_the_text(docs: Path, store: PassageStore, pool: Pool) -> None:
    await ingest(docs, store, HashingEmbedder())
    query = Query("milk curdles", filters={"source": "tea.md", "section": "Milk"})
    (passage,) = await PostgresRetriever(pool, HashingEmbedder()).retrieve(query)
    assert (passage.title, passage.text) == ("Tea › Milk", "Milk\n\nMilk curdles in it.")
    assert passage.end - passage.start == len(passage.text)
    assert passage.metadata == {"source": "tea.md", "kind": "markdown", "section": "Milk"}


@pytest.mark.parametrize("folder", ["deep", "."])
async def test_a_folder_that_cannot_be_looked_into_is_named_and_keeps_what_was_stored(
    docs: Path, store: PassageStore, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    await ingest(docs, store, HashingEmbedder())
    really = os.scandir

    def closed(path: str) -> Any:
        if Path(path) == docs / folder:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return really(path)

    monkeypatch.setattr(os, "scandir", closed)
    report = await ingest(docs, store, HashingEmbedder())
    assert report.unreadable == (Unreadable(folder, "Permission denied"),)
    assert report.removed == 0
    assert len(await names(store)) == 4


async def test_a_link_that_leads_out_of_the_folder_is_named_and_not_followed(
    docs: Path, store: PassageStore, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text("The password is swordfish.")
    (docs / "deep" / "leak.txt").write_text("This was here before.")
    assert (await ingest(docs, store, HashingEmbedder())).added == 5
    (docs / "deep" / "leak.txt").unlink()
    (docs / "deep" / "leak.txt").symlink_to("../../secret.txt")
    (docs / "also.md").symlink_to("deep/bread.txt")
    report = await ingest(docs, store, HashingEmbedder())
    assert report.unreadable == (Unreadable("deep/leak.txt", "a link that leads out of the folder"),)
    assert (report.added, report.removed) == (1, 1)
    assert "deep/leak.txt" not in await names(store)
    assert "also.md" in await names(store)
    linked = tmp_path / "linked"
    linked.symlink_to(docs)
    assert (await ingest(linked, store, HashingEmbedder(), collection="linked")).added == 5


async def test_one_file_is_brought_in_line_alone(docs: Path, store: PassageStore) -> None:
    await ingest(docs, store, HashingEmbedder())
    (docs / "salt.pdf").unlink()
    (docs / "tea.md").write_text("# Tea\n\nChanged.")
    report = await ingest(docs / "tea.md", store, HashingEmbedder())
    assert report == Report(changed=1, passages=1)
    assert "salt.pdf" in await names(store)


async def test_another_folder_leaves_the_first_alone(docs: Path, store: PassageStore, tmp_path: Path) -> None:
    shutil.copytree(docs, tmp_path / "other")
    await ingest(docs, store, HashingEmbedder())
    assert (await ingest(tmp_path / "other", store, HashingEmbedder())).added == 4
    assert len(await names(store)) == 8


async def test_a_folder_that_is_not_there_changes_nothing(docs: Path, store: PassageStore) -> None:
    await ingest(docs, store, HashingEmbedder())
    with pytest.raises(FileNotFoundError, match="missing"):
        await ingest(docs / "missing", store, HashingEmbedder())
    assert len(await names(store)) == 4


async def test_progress_names_every_document_and_ends_full(docs: Path, store: PassageStore) -> None:
    seen: list[Progress] = []
    await ingest(docs, store, HashingEmbedder(), progress=seen.append)
    assert [(one.done, one.total, one.name) for one in seen] == [
        (0, 4, "deep/bread.txt"),
        (1, 4, "deep/er/coffee.html"),
        (2, 4, "salt.pdf"),
        (3, 4, "tea.md"),
        (4, 4, ""),
    ]


@pytest.mark.parametrize("changed", [HashingEmbedder(dimensions=16), HashingEmbedder(model="another")])
async def test_another_embedder_is_refused_before_anything_is_written(
    docs: Path, store: PassageStore, changed: HashingEmbedder
) -> None:
    await ingest(docs, store, HashingEmbedder())
    (docs / "tea.md").write_text("Changed.")
    for refused in (ingest(docs, store, changed), store.check(changed)):
        with pytest.raises(RetrievalMisconfigured, match="another collection"):
            await refused
    assert await ingest(docs, store, changed, collection="second") == Report(added=4, passages=4)


async def test_another_chunking_is_refused(docs: Path, store: PassageStore) -> None:
    await ingest(docs, store, HashingEmbedder())
    with pytest.raises(RetrievalMisconfigured, match="cut into passages by other rules"):
        await ingest(docs, store, HashingEmbedder(), chunking=Chunking(target_tokens=50))


async def test_a_check_tells_a_collection_that_fits_from_one_that_is_not_there(docs: Path, store: PassageStore) -> None:
    assert await store.check(HashingEmbedder()) is False
    await ingest(docs, store, HashingEmbedder())
    assert await store.check(HashingEmbedder()) is True
    assert await store.check(HashingEmbedder(), tenant="other") is False


@pytest.mark.parametrize("bad", [[0.0] * 31, [float("nan")] * 32, [float("inf")] * 32])
async def test_vectors_that_are_wrong_store_nothing(docs: Path, store: PassageStore, bad: list[float]) -> None:
    class Wrong(HashingEmbedder):
        async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
            return [bad for _ in texts]

    with pytest.raises(EmbeddingFailed):
        await ingest(docs, store, Wrong())
    assert await names(store) == []


async def test_too_few_vectors_store_nothing(docs: Path, store: PassageStore) -> None:
    class Short(HashingEmbedder):
        async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
            return (await super().embed_passages(texts))[:-1]

    with pytest.raises(EmbeddingFailed, match="0 vectors for 1 passages"):
        await ingest(docs, store, Short())
    assert await names(store) == []


async def test_a_passage_without_content_is_found_by_its_words_only(
    tmp_path: Path, store: PassageStore, pool: Pool
) -> None:
    class Blank(HashingEmbedder):
        async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
            return [[0.0] * self.dimensions for _ in texts]

    (tmp_path / "a.txt").write_text("Tea is hot.")
    await ingest(tmp_path, store, Blank())
    (found,) = await PostgresRetriever(pool, HashingEmbedder()).retrieve(Query("tea", mode=SearchMode.HYBRID))
    assert found.scores["cosine"] == 0.0


async def test_a_reader_sees_the_old_document_or_the_new_one_and_never_half(
    tmp_path: Path, store: PassageStore, pool: Pool
) -> None:
    def write(word: str) -> None:
        (tmp_path / "a.md").write_text("\n\n".join(f"# Part {n}\n\n{word} number {n}." for n in range(30)))

    write("old")
    await ingest(tmp_path, store, HashingEmbedder())
    retriever = PostgresRetriever(pool, HashingEmbedder())
    seen: set[str] = set()
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            while True:
                found = await retriever.retrieve(Query("part number", k=60, mode=SearchMode.HYBRID))
                words = {passage.text.split()[-3] for passage in found}
                assert (len(found), len(words)) == (30, 1)
                seen.update(words)

        tasks.start_soon(watch)
        tasks.start_soon(watch)
        for word in ("new", "old", "new", "old", "new"):
            write(word)
            await ingest(tmp_path, store, HashingEmbedder())
        await _until(lambda: seen == {"old", "new"})
        tasks.cancel_scope.cancel()


async def _until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        while not holds():  # noqa: ASYNC110 (what is watched has no event)
            await anyio.sleep(0.01)


async def test_a_cancelled_ingest_has_stored_whole_documents_and_the_next_one_finishes(
    docs: Path, store: PassageStore
) -> None:
    with anyio.CancelScope() as scope:

        def cancel_at_the_third(progress: Progress) -> None:
            if progress.done == 2:
                scope.cancel()

        await ingest(docs, store, HashingEmbedder(), progress=cancel_at_the_third)
    assert await names(store) == ["deep/bread.txt", "deep/er/coffee.html"]
    assert await ingest(docs, store, HashingEmbedder()) == Report(added=2, unchanged=2, passages=3)


async def test_two_ingests_of_one_folder_at_once_give_one_copy(
    docs: Path, store: PassageStore, database_url: str
) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(ingest, docs, store, HashingEmbedder())
    assert len(await names(store)) == 4
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT count(*) FROM passage").fetchall() == [(5,)]


async def test_a_removed_document_takes_its_passages_along_and_only_its_tenant_may(
    docs: Path, store: PassageStore, pool: Pool
) -> None:
    await ingest(docs, store, HashingEmbedder())
    document = next(one for one in await store.documents() if one.source == "tea.md")
    assert document.passages == 2
    assert not await store.remove(document.id, tenant="other")
    assert await store.remove(document.id)
    assert not await store.remove(document.id)
    found = await PostgresRetriever(pool, HashingEmbedder()).retrieve(Query("tea", k=50))
    assert document.id not in {passage.document_id for passage in found}


@pytest.mark.parametrize("dimensions", [3, 2000, 2001, 4000, 4001])
async def test_vectors_of_any_length_are_stored_and_found(
    tmp_path: Path, store: PassageStore, pool: Pool, dimensions: int
) -> None:
    embedder = HashingEmbedder(dimensions)
    (tmp_path / "a.txt").write_text("Tea is hot.")
    await ingest(tmp_path, store, embedder)
    (found,) = await PostgresRetriever(pool, embedder).retrieve(Query("tea is hot"))
    assert found.text == "Tea is hot."
