"""Nearest neighbours under a filter: the index must not run dry (FIELD_REPORTS E1)."""

import random
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from psycopg import sql

from retrieval.chunk import Chunking
from retrieval.pool import Connection, Pool, open_pool
from retrieval.ports import Query, SearchMode, Vector
from retrieval.postgres import PostgresRetriever
from retrieval.serving import becoming
from retrieval.store import Collection, PassageStore
from tests.support.embedders import HashingEmbedder
from tests.support.library import copy_in
from tests.support.postgres import fresh_database

pytestmark = pytest.mark.anyio

ROWS, SMALL, DIMENSIONS = 12_000, 60, 32  # the small tenant holds 0.5 %


class PointingEmbedder(HashingEmbedder):
    """Embeds the text `17` as the 17th of its directions."""

    def __init__(self) -> None:
        super().__init__(DIMENSIONS)
        source = random.Random(7)
        self.directions = [[source.gauss(0, 1) for _ in range(DIMENSIONS)] for _ in range(20)]

    async def embed_query(self, text: str) -> Vector:
        return self.directions[int(text)]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def crowded_url(server_url: str) -> Iterator[str]:
    """A database in which the vector index is the only way to find passages: the planner would otherwise scan so small a tenant."""
    with fresh_database(server_url) as url, psycopg.connect(url, autocommit=True) as connection:
        _set(connection, "enable_seqscan", "off")
        _set(connection, "enable_sort", "off")  # or it reads another index in full, and sorts
        yield url


@pytest.fixture(scope="module")
async def crowd(crowded_url: str) -> AsyncIterator[tuple[Pool, Collection]]:
    source = random.Random(1)
    embedder = PointingEmbedder()
    async with open_pool(becoming(crowded_url)) as pool:
        store = PassageStore(pool)
        large = await store.open(embedder, Chunking(), "default", "large")
        small = await store.open(embedder, Chunking(), "default", "small")
        with psycopg.connect(crowded_url, autocommit=True) as connection:
            connection.execute("DROP INDEX passage_collection, passage_tsv, passage_metadata, passage_embedding_32")
        copy_in(crowded_url, large, [_direction(source) for _ in range(ROWS - SMALL)], prefix="large")
        copy_in(crowded_url, small, [_direction(source) for _ in range(SMALL)], prefix="small")
        with psycopg.connect(crowded_url, autocommit=True) as connection:
            connection.execute(
                "CREATE INDEX passage_embedding_32 ON passage USING hnsw ((embedding::vector(32)) vector_cosine_ops) "
                "WITH (m = 8, ef_construction = 32) WHERE dimensions = 32"
            )
            connection.execute("ANALYZE passage")
        yield pool, small


def _set(connection: psycopg.Connection[tuple[object, ...]], name: str, value: str) -> None:
    """For the connections to this database that are made from now on."""
    database = sql.Identifier(connection.info.dbname)
    setting = sql.SQL(".").join(map(sql.Identifier, name.split(".")))
    connection.execute(sql.SQL("ALTER DATABASE {} SET {} = {}").format(database, setting, sql.Literal(value)))


def _direction(source: random.Random) -> list[float]:
    return [source.gauss(0, 1) for _ in range(DIMENSIONS)]


async def _nearest(pool: Pool, collection: Collection, vector: list[float], k: int) -> list[str]:
    async def scan(connection: Connection) -> list[str]:
        found = await connection.execute(
            "SELECT id FROM own_passage WHERE collection_id = %s ORDER BY (embedding <=> %s::vector) + 0, id LIMIT %s",
            (collection.id, str(vector), k),
        )
        return [row[0] for row in await found.fetchall()]

    return await pool.run_for(collection.tenant, scan)


@pytest.mark.parametrize("k", [8, 50])
async def test_a_tenant_of_half_a_percent_gets_its_k_nearest(crowd: tuple[Pool, Collection], k: int) -> None:
    pool, small = crowd
    embedder = PointingEmbedder()
    retriever = PostgresRetriever(pool, embedder)
    same = 0
    for at, direction in enumerate(embedder.directions):
        found = await retriever.retrieve(Query(str(at), k=k, tenant="small"))
        assert len(found) == k
        assert {one.document_id for one in found} == {f"small-{small.id}"}
        same += len({one.id for one in found} & set(await _nearest(pool, small, direction, k)))
    assert same >= 0.95 * k * len(embedder.directions)


async def test_the_index_serves_the_search_and_runs_dry_without_iteration(
    crowded_url: str, crowd: tuple[Pool, Collection]
) -> None:
    """The counter-example: what the settings of the search are for."""
    _, small = crowd
    statement = (
        "SELECT id FROM own_passage p WHERE p.dimensions = 32 AND p.collection_id = %s "
        "ORDER BY p.embedding::vector(32) <=> %s::vector(32) LIMIT 8"
    )
    parameters = (small.id, str(PointingEmbedder().directions[0]))
    with psycopg.connect(becoming(crowded_url)) as connection:
        connection.execute("SET LOCAL gateway.tenant = 'small'")
        plan = connection.execute("EXPLAIN " + statement, parameters).fetchall()
        assert any("passage_embedding_32" in line for (line,) in plan)
        without = connection.execute(statement, parameters).fetchall()
        connection.execute("SET LOCAL hnsw.iterative_scan = relaxed_order")
        with_iteration = connection.execute(statement, parameters).fetchall()
    assert len(without) < 8
    assert len(with_iteration) == 8


async def test_more_than_the_index_is_willing_to_read_is_still_found(
    crowded_url: str, crowd: tuple[Pool, Collection]
) -> None:
    """A scan limit far too small stands for a tenant far smaller: the search falls back to reading the tenant's own rows."""
    pool, small = crowd
    with psycopg.connect(crowded_url, autocommit=True) as connection:
        _set(connection, "hnsw.max_scan_tuples", "50")
    try:
        async with open_pool(becoming(crowded_url), size=1) as fresh:
            found = await PostgresRetriever(fresh, PointingEmbedder()).retrieve(Query("3", k=SMALL, tenant="small"))
    finally:
        with psycopg.connect(crowded_url, autocommit=True) as connection:
            _set(connection, "hnsw.max_scan_tuples", "20000")
    assert [one.id for one in found] == await _nearest(pool, small, PointingEmbedder().directions[3], SMALL)


async def test_k_above_the_default_search_width_is_met(crowd: tuple[Pool, Collection]) -> None:
    pool, _ = crowd
    found = await PostgresRetriever(pool, PointingEmbedder()).retrieve(Query("5", k=120, tenant="large"))
    assert len(found) == 120


async def test_hybrid_search_meets_k_under_the_filter(crowd: tuple[Pool, Collection]) -> None:
    pool, _ = crowd
    query = Query("5", k=20, tenant="small", mode=SearchMode.HYBRID)
    assert len(await PostgresRetriever(pool, PointingEmbedder()).retrieve(query)) == 20
