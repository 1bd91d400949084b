"""The cache of verified answers in a real database, over documents that are really ingested."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import anyio
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from gateway.cache import PostgresCache
from retrieval.ingest import ingest
from retrieval.passage import Passage
from retrieval.pool import Pool, open_pool
from retrieval.ports import Query, Vector
from retrieval.postgres import PostgresRetriever
from retrieval.store import PassageStore
from streaming.ports import Cited, Kept
from tests.support.embedders import HashingEmbedder
from tests.support.library import shelve
from tests.support.postgres import emptied
from tests.support.tcp_proxy import TcpProxy, to_postgres

pytestmark = pytest.mark.anyio

QUESTION = "How many hours of sun do 2 roses need in Berlin?"
SCOPE = ("default", "default")
SOON_S = 10.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "roses.txt").write_text("Roses need six hours of sun.")
    (tmp_path / "ferns.txt").write_text("Ferns grow in shade.")
    (tmp_path / "tools.txt").write_text("A spade is oiled after use.")
    return tmp_path


@pytest.fixture
async def pool(database_url: str, folder: Path) -> AsyncIterator[Pool]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("TRUNCATE kept_answer CASCADE")
    async with open_pool(emptied(database_url), size=4) as pool:
        await ingest(folder, PassageStore(pool), HashingEmbedder())
        yield pool


def cache_of(pool: Pool, made_by: str = "claude", age_s: float = 3600.0, size: int = 100) -> PostgresCache:
    return PostgresCache(pool, HashingEmbedder(), made_by, age_s=age_s, size=size, find_limit_s=SOON_S)


@pytest.fixture
def cache(pool: Pool) -> PostgresCache:
    return cache_of(pool)


async def found(pool: Pool, text: str = "roses ferns sun shade", k: int = 2) -> tuple[Passage, ...]:
    return await PostgresRetriever(pool, HashingEmbedder()).retrieve(Query(text, k=k))


@pytest.fixture
async def answer(pool: Pool) -> Kept:
    """An answer that rests on the documents about roses and ferns."""
    passages = await found(pool)
    assert {p.title for p in passages} == {"roses", "ferns"}
    return Kept("Six hours.", (Cited(1, 0, 9, "six hours of sun"),), tuple(enumerate(passages, 1)))


async def test_what_was_kept_is_found_as_it_was(cache: PostgresCache, answer: Kept) -> None:
    assert await cache.find(QUESTION, *SCOPE) is None
    await cache.keep(QUESTION, *SCOPE, answer)
    assert await cache.find(QUESTION, *SCOPE) == answer
    assert await cache.find("how many hours of sun do 2 ROSES need in berlin", *SCOPE) == answer


async def test_an_answer_out_of_a_collection_that_is_searched_no_more_is_not_found(pool: Pool, answer: Kept) -> None:
    """Its source was taken out of the settings, and whoever asks now may have no right to it."""
    embedder = HashingEmbedder()
    await shelve(pool, embedder, {"secret": "Roses of the vault need eight hours."}, collection="vault")
    (secret,) = await PostgresRetriever(pool, embedder).retrieve(Query("roses vault", collection="vault", k=1))
    with_vault = PostgresCache(pool, embedder, "claude", collections=("vault",), find_limit_s=SOON_S)
    mixed = replace(answer, passages=(*answer.passages, (3, secret)))
    await with_vault.keep(QUESTION, *SCOPE, mixed)
    assert await with_vault.find(QUESTION, *SCOPE) == mixed
    assert await cache_of(pool).find(QUESTION, *SCOPE) is None
    other = PostgresCache(pool, embedder, "claude", collections=("garden",), find_limit_s=SOON_S)
    assert await other.find(QUESTION, *SCOPE) is None
    await other.keep(QUESTION, *SCOPE, answer)
    for cache in (with_vault, other, cache_of(pool)):
        assert await cache.find(QUESTION, *SCOPE) == answer


class Indifferent(HashingEmbedder):
    """Finds every question as near as can be."""

    def vector(self, text: str) -> list[float]:
        return [1.0] + [0.0] * (self.dimensions - 1)


@pytest.mark.parametrize(
    "near",
    [
        "How many hours of sun do 3 roses need in Berlin?",
        "How many hours of sun do 2 roses need in Paris?",
        "How many hours of sun do 2 roses not need in Berlin?",
        "How many hours of sun don't 2 roses need in Berlin?",
        "How many hours of sun did 2 roses need in Berlin?",
        "How many hours of shade do 2 roses need in Berlin?",
        "How many hours of Berlin do 2 roses need in sun?",
    ],
)
async def test_a_near_miss_is_a_miss_whatever_the_vectors_say(pool: Pool, answer: Kept, near: str) -> None:
    cache = PostgresCache(pool, Indifferent(), "claude", find_limit_s=SOON_S)
    await cache.keep(QUESTION, *SCOPE, answer)
    assert await cache.find(near, *SCOPE) is None
    assert await cache.find(QUESTION, *SCOPE) == answer


async def test_words_alone_are_not_enough(cache: PostgresCache, pool: Pool, answer: Kept) -> None:
    """Kept under another vector, the same words are not found: both have to agree."""
    await PostgresCache(pool, Indifferent(), "claude").keep(QUESTION, *SCOPE, answer)
    assert await cache.find(QUESTION, *SCOPE) is None


async def test_tenants_and_collections_share_nothing(cache: PostgresCache, answer: Kept) -> None:
    await cache.keep(QUESTION, *SCOPE, answer)
    assert await cache.find(QUESTION, "default", "acme") is None
    assert await cache.find(QUESTION, "garden", "default") is None
    await cache.keep(QUESTION, "default", "acme", answer)
    assert await cache.find(QUESTION, "default", "acme") is None, "it rests on documents of another tenant"


async def test_another_generator_or_embedder_finds_nothing(pool: Pool, cache: PostgresCache, answer: Kept) -> None:
    await cache.keep(QUESTION, *SCOPE, answer)
    assert await cache_of(pool, made_by="quotes").find(QUESTION, *SCOPE) is None
    for embedder in (HashingEmbedder(model="other"), HashingEmbedder(dimensions=16)):
        other = PostgresCache(pool, embedder, "claude", find_limit_s=SOON_S)
        assert await other.find(QUESTION, *SCOPE) is None
        await other.keep(QUESTION, *SCOPE, replace(answer, text=embedder.model))
        assert await cache.find(QUESTION, *SCOPE) == answer


@pytest.mark.parametrize("change", ["changed", "removed"])
async def test_an_answer_is_forgotten_when_its_document_changes(
    pool: Pool, cache: PostgresCache, answer: Kept, folder: Path, change: str
) -> None:
    await cache.keep(QUESTION, *SCOPE, answer)
    if change == "changed":
        (folder / "ferns.txt").write_text("Ferns grow in shade. Since this year they grow in the sun too.")
    else:
        (folder / "ferns.txt").unlink()
    await ingest(folder, PassageStore(pool), HashingEmbedder())
    assert await cache.find(QUESTION, *SCOPE) is None


async def test_an_answer_stays_when_other_documents_change(
    pool: Pool, cache: PostgresCache, answer: Kept, folder: Path
) -> None:
    await cache.keep(QUESTION, *SCOPE, answer)
    (folder / "tools.txt").unlink()
    (folder / "moss.txt").write_text("Moss likes rain.")
    await ingest(folder, PassageStore(pool), HashingEmbedder())
    assert await cache.find(QUESTION, *SCOPE) == answer


async def test_an_answer_on_what_has_changed_meanwhile_is_not_kept(
    pool: Pool, cache: PostgresCache, answer: Kept, folder: Path
) -> None:
    (folder / "roses.txt").write_text("Roses need eight hours of sun.")
    await ingest(folder, PassageStore(pool), HashingEmbedder())
    await cache.keep(QUESTION, *SCOPE, answer)
    assert await cache.find(QUESTION, *SCOPE) is None


async def test_an_answer_on_what_is_stored_elsewhere_is_not_kept(cache: PostgresCache, answer: Kept) -> None:
    web = Passage("web:1", "web:1", "Roses", "Roses need sun.", metadata={"source": "web", "external": True})
    await cache.keep(QUESTION, *SCOPE, replace(answer, passages=(*answer.passages, (3, web))))
    await cache.keep(QUESTION, *SCOPE, replace(answer, passages=()))
    assert await cache.find(QUESTION, *SCOPE) is None


def count(database_url: str) -> int:
    with psycopg.connect(database_url) as connection:
        row = connection.execute("SELECT count(*) FROM kept_answer").fetchone()
    assert row is not None
    return int(row[0])


async def test_what_is_too_old_is_not_found_and_forgotten(
    pool: Pool, cache: PostgresCache, answer: Kept, database_url: str
) -> None:
    await cache.keep(QUESTION, *SCOPE, answer)
    assert await cache_of(pool, age_s=0.0).find(QUESTION, *SCOPE) is None
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE kept_answer SET kept_at = now() - interval '2 hours'")
    assert await cache.find(QUESTION, *SCOPE) is None
    await cache.keep("Who pays?", *SCOPE, answer)
    assert count(database_url) == 1


async def test_no_more_than_its_size_is_kept_the_newest(pool: Pool, answer: Kept, database_url: str) -> None:
    small = cache_of(pool, size=3)
    for n in range(6):
        await small.keep(f"Question number {n}?", *SCOPE, answer)
    assert count(database_url) == 3
    assert await small.find("Question number 5?", *SCOPE) == answer
    assert await small.find("Question number 2?", *SCOPE) is None


async def test_what_is_overtaken_is_forgotten(
    pool: Pool, cache: PostgresCache, answer: Kept, folder: Path, database_url: str
) -> None:
    await cache.keep(QUESTION, *SCOPE, answer)
    (folder / "ferns.txt").unlink()
    await ingest(folder, PassageStore(pool), HashingEmbedder())
    passages = await found(pool, "spade oiled", k=1)
    await cache.keep("Who pays?", *SCOPE, Kept("Nobody.", (), ((1, passages[0]),)))
    assert count(database_url) == 1


async def test_many_may_keep_and_find_at_once(cache: PostgresCache, answer: Kept, database_url: str) -> None:
    async def one(n: int) -> None:
        await cache.keep(f"Question number {n}?", *SCOPE, answer)
        assert await cache.find(f"Question number {n}?", *SCOPE) == answer

    async with anyio.create_task_group() as tasks:
        for n in range(10):
            tasks.start_soon(one, n)
    assert count(database_url) == 10


@pytest.mark.parametrize("odd", ["", "?!", "q\x00 \ud83d"])
async def test_odd_questions_and_texts_do_no_harm(cache: PostgresCache, answer: Kept, odd: str) -> None:
    await cache.keep(odd, *SCOPE, answer)
    await cache.find(odd, *SCOPE)
    await cache.keep(QUESTION, *SCOPE, replace(answer, text="a\x00b\ud83d"))
    assert await cache.find(QUESTION, *SCOPE) is None


class Failing(HashingEmbedder):
    async def embed_query(self, text: str) -> Vector:
        raise RuntimeError("a secret path")


class Endless(HashingEmbedder):
    async def embed_query(self, text: str) -> Vector:
        await anyio.sleep_forever()
        raise AssertionError


@pytest.mark.parametrize("embedder", [Failing(), Endless(), HashingEmbedder(dimensions=0)])
async def test_an_embedder_that_fails_is_a_miss(
    pool: Pool, answer: Kept, embedder: HashingEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    cache = PostgresCache(pool, embedder, "claude")
    with anyio.fail_after(SOON_S):
        assert await cache.find(QUESTION, *SCOPE) is None
        await cache.keep(QUESTION, *SCOPE, answer)
    assert "secret" not in caplog.text


async def test_a_database_that_is_away_is_a_miss() -> None:
    async with open_pool("postgresql://127.0.0.1:1/none", size=1) as gone:
        with anyio.fail_after(SOON_S):
            assert await PostgresCache(gone, HashingEmbedder(), "claude").find(QUESTION, *SCOPE) is None


async def test_a_database_that_falls_silent_is_a_miss(database_url: str, cache: PostgresCache, answer: Kept) -> None:
    folder = str(conninfo_to_dict(database_url).get("host", ""))
    if not folder.startswith("/"):
        pytest.skip("the proxy speaks to a Unix socket")
    await cache.keep(QUESTION, *SCOPE, answer)
    async with TcpProxy(lambda: to_postgres(folder)) as proxy:
        url = make_conninfo(database_url, host="127.0.0.1", port=proxy.port, sslmode="disable", gssencmode="disable")
        async with open_pool(url, size=1) as pool:
            await pool.ping(SOON_S)
            proxy.silent = True
            with anyio.fail_after(SOON_S):
                assert await PostgresCache(pool, HashingEmbedder(), "claude").find(QUESTION, *SCOPE) is None


async def test_a_stored_answer_of_another_shape_is_a_miss(
    cache: PostgresCache, answer: Kept, database_url: str
) -> None:
    await cache.keep(QUESTION, *SCOPE, answer)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("""UPDATE kept_answer SET answer = '{"text": 1}'""")
    assert await cache.find(QUESTION, *SCOPE) is None


async def test_a_cancelled_lookup_is_cancelled(cache: PostgresCache) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await cache.find(QUESTION, *SCOPE)
        pytest.fail("a cancelled lookup went on")
    assert scope.cancelled_caught
