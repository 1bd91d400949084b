"""The metadata fields of a collection, out of a real database."""

from collections.abc import AsyncIterator, Mapping

import pytest

from retrieval.elsewhere import Elsewhere
from retrieval.faults import RetrievalUnavailable
from retrieval.fields import FIELDS_LIMIT, KEPT_COLLECTIONS, KEPT_S, VALUES_LIMIT, PostgresFields
from retrieval.passage import Scalar
from retrieval.pool import Pool, open_pool
from retrieval.ports import Query
from retrieval.postgres import PostgresRetriever
from tests.support.embedders import HashingEmbedder
from tests.support.library import shelve
from tests.support.postgres import emptied

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    async with open_pool(emptied(database_url), size=2) as pool:
        yield pool


async def put(
    pool: Pool, name: str, metadata: Mapping[str, Scalar], collection: str = "default", tenant: str = "default"
) -> None:
    await shelve(pool, HashingEmbedder(), {name: "Tea."}, collection=collection, tenant=tenant, metadata=metadata)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_fields_and_values_come_the_commonest_first(pool: Pool) -> None:
    for n, (shelf, year) in enumerate([("tea", 2023), ("tea", 2024), ("tea", 2024), ("milk", 2024)]):
        await put(pool, f"d{n}", {"shelf": shelf, "year": year})
    await put(pool, "d9", {"shelf": "milk", "public": True, "long": "x" * 500, "empty": ""})
    fields = await PostgresFields(pool).fields("default", "default")
    assert fields == {"shelf": ("tea", "milk"), "year": (2024, 2023), "public": (True,)}
    assert list(fields) == ["shelf", "year", "public"]
    assert [type(value) for value in fields["year"]] == [int, int]


async def test_other_collections_and_tenants_are_not_seen(pool: Pool) -> None:
    await put(pool, "a", {"shelf": "tea"})
    await put(pool, "b", {"colour": "red"}, collection="garden")
    await put(pool, "c", {"secret": "x"}, tenant="acme")
    fields = PostgresFields(pool)
    assert await fields.fields("default", "default") == {"shelf": ("tea",)}
    assert await fields.fields("garden", "default") == {"colour": ("red",)}
    assert await fields.fields("default", "acme") == {"secret": ("x",)}
    assert await fields.fields("attic\x00\ud800", "default") == {}


async def test_there_are_no_more_than_can_be_read(pool: Pool) -> None:
    for n in range(VALUES_LIMIT + 5):
        await put(
            pool, f"d{n:03}", {"number": n} | {f"field {m:03}": "x" for m in range(FIELDS_LIMIT + 5 if n == 0 else 0)}
        )
    fields = await PostgresFields(pool).fields("default", "default")
    assert len(fields) == FIELDS_LIMIT
    assert len(fields["number"]) == VALUES_LIMIT


async def test_what_was_read_is_remembered_for_a_minute(pool: Pool) -> None:
    clock = Clock()
    fields = PostgresFields(pool, now=clock)
    assert await fields.fields("default", "default") == {}
    await put(pool, "a", {"shelf": "tea"})
    clock.now += KEPT_S - 1
    assert await fields.fields("default", "default") == {}
    clock.now += 1
    assert await fields.fields("default", "default") == {"shelf": ("tea",)}


async def test_no_more_collections_are_remembered_than_fit(pool: Pool) -> None:
    fields = PostgresFields(pool)
    for n in range(KEPT_COLLECTIONS + 1):
        fields._remember((f"c{n}", "default"), None)  # type: ignore[arg-type]
    assert len(fields._read) == KEPT_COLLECTIONS


async def test_a_fault_is_raised_and_not_remembered(pool: Pool) -> None:
    async with open_pool("postgresql://127.0.0.1:1/none", size=1) as gone:
        with pytest.raises(RetrievalUnavailable):
            await PostgresFields(gone, limit_s=0.2).fields("default", "default")


async def test_elsewhere_searches_its_own_collection_under_its_own_ids(pool: Pool) -> None:
    await put(pool, "a", {})
    await put(pool, "b", {}, collection="garden")
    house = PostgresRetriever(pool, HashingEmbedder())
    (found,) = await Elsewhere(house, collection="garden").retrieve(Query("tea"))
    assert (found.id, found.document_id) == ("b:0", "b")
    (found,) = await Elsewhere(house, prefix="archive").retrieve(Query("tea"))
    assert (found.id, found.document_id) == ("archive:a:0", "archive:a")
