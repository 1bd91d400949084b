"""What every Retriever promises, in every mode."""

from collections.abc import AsyncIterator
from math import isfinite

import anyio
import pytest

from retrieval.faults import CollectionNotFound, EmbeddingFailed, RetrievalMisconfigured
from retrieval.passage import Scalar
from retrieval.pool import Pool, open_pool
from retrieval.ports import Query, Retriever, SearchMode, Vector
from retrieval.postgres import PostgresRetriever
from retrieval.schema import migrate
from tests.support.embedders import HashingEmbedder
from tests.support.library import shelve
from tests.support.postgres import fresh_database

pytestmark = pytest.mark.anyio

TEXTS = {
    "tea": "Green tea is steeped at eighty degrees.",
    "coffee": "Coffee is brewed at ninety-three degrees.",
    "milk": "Milk curdles in strong tea.",
    "bread": "Bread is baked for forty minutes.",
    "salt": "Salt is added to the water last.",
    "twin": "Salt is added to the water last.",
}
BOTH = pytest.mark.parametrize("mode", list(SearchMode))
SCORED_BY = {SearchMode.DENSE: "cosine", SearchMode.LEXICAL: "lexical"}
WHOLE = pytest.mark.parametrize("mode", [mode for mode in SearchMode if mode is not SearchMode.LEXICAL])


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def library_url(database_url: str) -> str:
    """A database with TEXTS on its shelves, and two more; no test changes it."""
    anyio.run(_fill, database_url)
    return database_url


async def _fill(url: str) -> None:
    embedder = HashingEmbedder()
    async with open_pool(url, size=1) as pool:
        await shelve(pool, embedder, TEXTS, metadata={"shelf": "kitchen", "year": 2024, "public": True})
        await shelve(pool, embedder, {"other-tea": TEXTS["tea"]}, tenant="other")
        await shelve(pool, embedder, {"garden-tea": "Tea grows in the garden."}, collection="garden")


@pytest.fixture
async def pool(library_url: str) -> AsyncIterator[Pool]:
    async with open_pool(library_url, size=2) as pool:
        yield pool


@pytest.fixture
async def empty(server_url: str) -> AsyncIterator[Pool]:
    with fresh_database(server_url, migrated=False) as url:
        await migrate(url)
        async with open_pool(url, size=2) as pool:
            yield pool


@pytest.fixture
def retriever(pool: Pool) -> Retriever:
    return PostgresRetriever(pool, HashingEmbedder())


@BOTH
async def test_the_best_passage_comes_first_and_no_more_than_k(retriever: Retriever, mode: SearchMode) -> None:
    found = await retriever.retrieve(Query("how is coffee brewed at degrees", k=2, mode=mode))
    assert found[0].id == "coffee:0"
    assert len(found) == 2
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


@BOTH
async def test_passages_carry_where_they_come_from(retriever: Retriever, mode: SearchMode) -> None:
    best = (await retriever.retrieve(Query("coffee brewed", mode=mode)))[0]
    assert (best.document_id, best.title, best.text) == ("coffee", "coffee", TEXTS["coffee"])
    assert (best.start, best.end) == (0, len(best.text))
    assert best.metadata == {"shelf": "kitchen", "year": 2024, "public": True}


@BOTH
async def test_every_stage_leaves_its_score(retriever: Retriever, mode: SearchMode) -> None:
    for passage in await retriever.retrieve(Query("coffee brewed at degrees", mode=mode)):
        assert {"cosine", "lexical"} <= passage.scores.keys()
        assert -1.0 <= passage.scores["cosine"] <= 1.0001
        assert all(isfinite(score) for score in passage.scores.values())
        assert passage.score == passage.scores[SCORED_BY.get(mode, "fused")]


@WHOLE
async def test_fewer_than_k_only_when_there_are_no_more(retriever: Retriever, mode: SearchMode) -> None:
    found = await retriever.retrieve(Query("tea", k=50, mode=mode))
    assert sorted(one.document_id for one in found) == sorted(TEXTS)


@BOTH
async def test_no_passage_comes_twice(retriever: Retriever, mode: SearchMode) -> None:
    found = await retriever.retrieve(Query("salt water", k=6, mode=mode))
    assert len({one.id for one in found}) == len(found)


@BOTH
async def test_the_same_question_gives_the_same_set(retriever: Retriever, mode: SearchMode) -> None:
    sets = [await retriever.retrieve(Query("salt", k=6, mode=mode)) for _ in range(5)]
    assert all(one == sets[0] for one in sets)


@BOTH
async def test_another_tenant_and_another_collection_are_never_seen(retriever: Retriever, mode: SearchMode) -> None:
    default = await retriever.retrieve(Query("green tea", k=50, mode=mode))
    garden = await retriever.retrieve(Query("green tea", k=50, mode=mode, collection="garden"))
    other = await retriever.retrieve(Query("green tea", k=50, mode=mode, tenant="other"))
    assert {one.document_id for one in default} == ({"tea", "milk"} if mode is SearchMode.LEXICAL else set(TEXTS))
    assert {one.document_id for one in garden} == {"garden-tea"}
    assert {one.document_id for one in other} == {"other-tea"}


@BOTH
@pytest.mark.parametrize(
    "wrong", [{"shelf": "cellar"}, {"year": 2023}, {"year": "2024"}, {"public": False}, {"none": 1}]
)
async def test_a_filter_that_nothing_equals_finds_nothing(
    retriever: Retriever, mode: SearchMode, wrong: dict[str, Scalar]
) -> None:
    right: dict[str, Scalar] = {"shelf": "kitchen", "year": 2024, "public": True}
    assert await retriever.retrieve(Query("tea", mode=mode, filters=right))
    assert not await retriever.retrieve(Query("tea", mode=mode, filters={**right, **wrong}))


async def test_a_filter_that_is_no_json_number_finds_nothing(retriever: Retriever) -> None:
    assert not await retriever.retrieve(Query("tea", filters={"year": float("nan")}))


@BOTH
async def test_an_unknown_collection_is_named(retriever: Retriever, mode: SearchMode) -> None:
    with pytest.raises(CollectionNotFound, match="'attic'"):
        await retriever.retrieve(Query("tea", collection="attic", mode=mode))


@BOTH
@pytest.mark.parametrize("text", ["te\x00a green", "green tea \ud83d", "\udc00green tea\x00"])
async def test_nul_and_lone_surrogates_in_a_question_do_no_harm(
    retriever: Retriever, mode: SearchMode, text: str
) -> None:
    assert (await retriever.retrieve(Query(text, mode=mode)))[0].id == "tea:0"


async def test_nul_and_lone_surrogates_in_names_and_filters_do_no_harm(retriever: Retriever) -> None:
    assert not await retriever.retrieve(Query("tea", filters={"sh\x00elf\ud800": "kit\ud83dchen\x00"}))
    with pytest.raises(CollectionNotFound):
        await retriever.retrieve(Query("tea", collection="def\x00ault\ud800"))
    with pytest.raises(CollectionNotFound):
        await retriever.retrieve(Query("tea", tenant="nobody\ud800"))


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        "'; DROP TABLE passage; --",
        "%(text)s %s",
        "tea & | ! <-> :* ( ' \\",
        "a:b:c 'x' \"y\" http://a.b/c?d=1&e='f",
        "\\'\\",
    ],
)
async def test_a_question_is_data_and_never_syntax(retriever: Retriever, mode: SearchMode, text: str) -> None:
    await retriever.retrieve(Query(text, mode=mode))
    left = await retriever.retrieve(Query("tea", k=50, mode=mode))
    assert {one.document_id for one in left} == ({"tea", "milk"} if mode is SearchMode.LEXICAL else set(TEXTS))


async def test_a_question_without_content_finds_nothing_and_breaks_nothing(retriever: Retriever) -> None:
    assert not await retriever.retrieve(Query("?!"))
    assert not await retriever.retrieve(Query("?!", mode=SearchMode.HYBRID))


@BOTH
@pytest.mark.parametrize("k", [0, -1])
async def test_no_passage_wanted_is_none_found(retriever: Retriever, mode: SearchMode, k: int) -> None:
    assert await retriever.retrieve(Query("tea", k=k, mode=mode)) == ()


class FixedEmbedder(HashingEmbedder):
    """Embeds every question as the vector it was given."""

    def __init__(self, vector: list[float]) -> None:
        super().__init__()
        self._vector = vector

    async def embed_query(self, text: str) -> Vector:
        return self._vector


@BOTH
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
async def test_a_vector_that_is_not_finite_is_the_embedders_fault(
    retriever: Retriever, pool: Pool, mode: SearchMode, bad: float
) -> None:
    with pytest.raises(EmbeddingFailed, match="not finite"):
        await PostgresRetriever(pool, FixedEmbedder([bad] * 32)).retrieve(Query("tea", mode=mode))


async def test_a_vector_of_another_length_is_the_embedders_fault(retriever: Retriever, pool: Pool) -> None:
    with pytest.raises(EmbeddingFailed, match="3 numbers, not 32"):
        await PostgresRetriever(pool, FixedEmbedder([0.1] * 3)).retrieve(Query("tea"))


async def test_words_alone_find_only_what_shares_one(retriever: Retriever) -> None:
    found = await retriever.retrieve(Query("strong coffee", k=50, mode=SearchMode.LEXICAL))
    assert [one.id for one in found] == ["coffee:0", "milk:0"]


async def test_a_passage_named_by_the_best_one_is_found_by_hops(empty: Pool) -> None:
    """The passage about the shipyard shares no word with the question; only the first passage leads there."""
    embedder = HashingEmbedder(dimensions=256)
    await shelve(empty, embedder, {f"filler {n}": f"some words {n} about gardens" for n in range(20)})
    texts = {"Vasa (ship)": "Vasa sank in 1628. It came from Skeppsgården.", "Skeppsgården": "Founded by the king."}
    await shelve(empty, embedder, texts)
    places = {}
    for mode in (SearchMode.HYBRID, SearchMode.HOPS):
        found = await PostgresRetriever(empty, embedder).retrieve(Query("Which yard made Vasa", k=30, mode=mode))
        places[mode] = [one.document_id for one in found].index("Skeppsgården")
    assert places[SearchMode.HOPS] < places[SearchMode.HYBRID]


async def test_a_zero_vector_leaves_only_the_words(retriever: Retriever, pool: Pool) -> None:
    blank = PostgresRetriever(pool, FixedEmbedder([0.0] * 32))
    assert not await blank.retrieve(Query("coffee"))
    found = await blank.retrieve(Query("coffee", mode=SearchMode.HYBRID))
    assert [one.id for one in found] == ["coffee:0"]
    assert all(isfinite(one.score) for one in found)


async def test_a_tuple_serves_as_a_vector(retriever: Retriever, pool: Pool) -> None:
    direction = tuple(HashingEmbedder().vector("coffee brewed"))
    found = await PostgresRetriever(pool, FixedEmbedder(direction)).retrieve(Query("x"))  # type: ignore[arg-type]
    assert found[0].id == "coffee:0"


@BOTH
async def test_a_changed_embedder_is_a_configuration_fault(retriever: Retriever, pool: Pool, mode: SearchMode) -> None:
    for changed in (HashingEmbedder(dimensions=16), HashingEmbedder(model="other")):
        with pytest.raises(RetrievalMisconfigured, match="embedded with hashing"):
            await PostgresRetriever(pool, changed).retrieve(Query("tea", mode=mode))


class BrokenEmbedder(HashingEmbedder):
    async def embed_query(self, text: str) -> Vector:
        raise RuntimeError("a secret path")


async def test_a_broken_embedder_is_named_without_its_details(retriever: Retriever, pool: Pool) -> None:
    with pytest.raises(EmbeddingFailed) as caught:
        await PostgresRetriever(pool, BrokenEmbedder()).retrieve(Query("tea"))
    assert "secret" not in str(caught.value)


class WatchfulEmbedder(HashingEmbedder):
    """Notes how many connections are out while it embeds."""

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self._pool = pool
        self.in_use: list[int] = []

    async def embed_query(self, text: str) -> Vector:
        self.in_use.append(self._pool.in_use)
        return await super().embed_query(text)


async def test_no_connection_is_held_while_embedding_nor_afterwards(retriever: Retriever, pool: Pool) -> None:
    embedder = WatchfulEmbedder(pool)
    assert await PostgresRetriever(pool, embedder).retrieve(Query("tea"))
    assert embedder.in_use == [0]
    assert pool.in_use == 0


async def test_a_cancelled_search_returns_nothing(retriever: Retriever) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await retriever.retrieve(Query("tea"))
        pytest.fail("a cancelled search went on")
    assert scope.cancelled_caught
