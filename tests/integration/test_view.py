"""SQL over a named read-only view, in a database that has nothing of the gateway's."""

from collections.abc import AsyncIterator, Iterator

import anyio
import psycopg
import pytest

from retrieval.faults import RetrievalMisconfigured, RetrievalUnavailable
from retrieval.passage import Scalar
from retrieval.pool import Pool, open_pool
from retrieval.ports import Query, SearchMode
from retrieval.view import TEXT_LIMIT, View, ViewRetriever
from tests.support.postgres import fresh_database

pytestmark = pytest.mark.anyio

SOON_S = 10.0

SETUP = """
CREATE SCHEMA shop;
CREATE TABLE shop.article (id int PRIMARY KEY, name text, body text, address text, facts jsonb, owner text, body_words tsvector);
INSERT INTO shop.article VALUES
    (1, 'Roses', 'Roses need six hours of sun.', 'https://shop.example/1', '{"shelf": "garden", "year": 2024, "tags": ["a"]}', 'acme'),
    (2, 'Ferns', 'Ferns grow in shade, never in the sun.', NULL, NULL, 'acme'),
    (3, NULL, 'Moss likes rain.', '', '{"shelf": "wood"}', 'other'),
    (4, 'Empty', NULL, NULL, '{}', 'other');
UPDATE shop.article SET body_words = to_tsvector('simple', body);
CREATE TABLE shop.log (at timestamptz);
CREATE FUNCTION shop.noted() RETURNS text VOLATILE LANGUAGE sql AS 'INSERT INTO shop.log VALUES (now()) RETURNING ''sun''';
CREATE VIEW shop.plain AS SELECT id, name AS title, body AS text, address AS url, facts AS metadata FROM shop.article;
CREATE VIEW shop.owned AS SELECT id, name AS title, body AS text, address AS url, facts AS metadata, owner, body_words FROM shop.article;
CREATE VIEW shop.writes AS SELECT id, name AS title, shop.noted() AS text, address AS url, facts AS metadata FROM shop.article;
CREATE VIEW shop.slow AS SELECT id, name AS title, body || pg_sleep(60)::text AS text, address AS url, facts AS metadata FROM shop.article;
CREATE VIEW shop.narrow AS SELECT id, name AS title FROM shop.article;
CREATE VIEW shop.no_json AS SELECT id, name AS title, body AS text, address AS url, name AS metadata FROM shop.article;
CREATE VIEW shop.twice AS SELECT * FROM shop.plain UNION ALL SELECT * FROM shop.plain;
CREATE VIEW shop.long AS SELECT 1 AS id, 'Long' AS title, repeat('sun ', 20000) AS text, '' AS url, NULL::jsonb AS metadata;
CREATE VIEW "odd""; DROP TABLE article; --" AS SELECT * FROM shop.plain;
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def shop_url(server_url: str) -> Iterator[str]:
    with fresh_database(server_url, migrated=False) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(SETUP)
        yield url


@pytest.fixture
async def pool(shop_url: str) -> AsyncIterator[Pool]:
    async with open_pool(shop_url, size=2, vectors=False) as pool:
        yield pool


def view(pool: Pool, name: str = "shop.plain", limit_s: float = SOON_S, **columns: str) -> ViewRetriever:
    return ViewRetriever(pool, View(name, **columns), "shop", limit_s=limit_s)


async def titles(retriever: ViewRetriever, text: str, **asked: object) -> list[str]:
    return [p.title for p in await retriever.retrieve(Query(text, **asked))]  # type: ignore[arg-type]


async def test_rows_that_share_a_word_are_passages_the_best_first(pool: Pool) -> None:
    first, second = await view(pool).retrieve(Query("How many hours of sun do roses need?"))
    assert (first.id, first.document_id, first.title, first.url) == (
        "shop:1",
        "shop:1",
        "Roses",
        "https://shop.example/1",
    )
    assert (first.text, first.start, first.end) == ("Roses need six hours of sun.", 0, 28)
    assert first.metadata == {"shelf": "garden", "year": 2024}
    assert first.score == first.scores["lexical"] > second.score
    assert (second.title, second.url, second.metadata) == ("Ferns", None, {})


@pytest.mark.parametrize("mode", list(SearchMode))
async def test_k_bounds_and_no_mode_or_collection_matters(pool: Pool, mode: SearchMode) -> None:
    assert await titles(view(pool), "sun", k=1, mode=mode, collection="none") == ["Roses"]
    assert await titles(view(pool), "sun", k=0, mode=mode) == []


@pytest.mark.parametrize("text", ["", "?!", "the of", "\x00", "hippopotamus"])
async def test_a_question_that_shares_no_word_finds_nothing(pool: Pool, text: str) -> None:
    assert await titles(view(pool), text) == []


async def test_a_row_without_a_title_is_found_and_one_without_text_is_not(pool: Pool) -> None:
    assert await titles(view(pool), "moss") == [""]
    assert await titles(view(pool), "empty") == []


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"shelf": "garden"}, ["Roses"]),
        ({"shelf": "garden", "year": 2024}, ["Roses"]),
        ({"year": "2024"}, []),
        ({"shelf": "cellar"}, []),
        ({"year": float("nan")}, []),
        ({"sh\x00elf\ud800": "x\ud800"}, []),
    ],
)
async def test_filters_are_equalities_on_metadata(pool: Pool, filters: dict[str, Scalar], found: list[str]) -> None:
    assert await titles(view(pool), "sun roses", filters=filters) == found


async def test_a_tenant_column_says_whose_a_row_is(pool: Pool) -> None:
    owned = view(pool, "shop.owned", tenant="owner")
    assert await titles(owned, "sun moss", tenant="acme") == ["Roses", "Ferns"]
    assert await titles(owned, "sun moss", tenant="other") == [""]
    assert await titles(owned, "sun moss", tenant="acme' OR 'a'='a") == []
    assert len(await titles(view(pool, "shop.owned"), "sun moss", tenant="nobody")) == 3


async def test_a_column_of_words_is_searched_where_there_is_one(pool: Pool) -> None:
    """The column was made with another language, which keeps plurals apart; a view's own words are stemmed."""
    assert await titles(view(pool, "shop.owned", words="body_words", language="simple"), "fern roses") == ["Roses"]
    assert set(await titles(view(pool, "shop.owned"), "fern roses")) == {"Ferns", "Roses"}


@pytest.mark.parametrize(
    "text",
    [
        "sun'; DROP TABLE shop.article; --",
        "%(text)s %s sun {} {0}",
        "sun & | ! <-> :* ( ' \\",
        "sun \"x\" $1 $$ E'\\x00'",
        "sun \ud83d \x00",
    ],
)
async def test_a_question_is_data_and_never_syntax(pool: Pool, text: str) -> None:
    assert set(await titles(view(pool), text)) >= {"Roses", "Ferns"}
    assert len(await titles(view(pool), "sun moss")) == 3


async def test_a_name_is_quoted_whatever_it_is(pool: Pool) -> None:
    assert await titles(view(pool, 'public.odd"; DROP TABLE article; --'), "sun") == ["Roses", "Ferns"]
    for name in (
        "shop.article; DROP TABLE shop.article",
        '"shop"."plain"',
        "shop.plain AS v, pg_sleep(9)",
        "",
        "a.b.c",
    ):
        with pytest.raises(RetrievalMisconfigured):
            await view(pool, name).retrieve(Query("sun"))
    for injected in (View("shop.owned", words="x) OR (true"), View("shop.owned", tenant="owner = owner OR owner")):
        with pytest.raises(RetrievalMisconfigured):
            await ViewRetriever(pool, injected, "shop").retrieve(Query("sun"))
    assert len(await titles(view(pool), "sun moss")) == 3


@pytest.mark.parametrize("name", ["shop.none", "shop.narrow", "shop.no_json", "nowhere.plain"])
async def test_a_view_that_is_missing_or_of_another_shape_is_named(pool: Pool, name: str) -> None:
    with pytest.raises(RetrievalMisconfigured, match=f"the view '{name}' cannot be searched"):
        await view(pool, name).retrieve(Query("sun"))


async def test_an_unknown_language_is_a_setting_that_is_wrong(pool: Pool) -> None:
    with pytest.raises(RetrievalMisconfigured):
        await view(pool, language="klingon").retrieve(Query("sun"))


async def test_a_view_that_writes_is_refused_and_has_written_nothing(pool: Pool, shop_url: str) -> None:
    with pytest.raises(RetrievalMisconfigured):
        await view(pool, "shop.writes").retrieve(Query("sun"))
    with psycopg.connect(shop_url) as connection:
        assert connection.execute("SELECT count(*) FROM shop.log").fetchone() == (0,)


async def test_a_view_that_takes_too_long_ends_by_itself(pool: Pool) -> None:
    with anyio.fail_after(SOON_S), pytest.raises(RetrievalUnavailable):
        await view(pool, "shop.slow", limit_s=0.2).retrieve(Query("sun"))
    assert pool.in_use == 0
    assert await titles(view(pool), "roses") == ["Roses"]


async def test_a_row_that_comes_twice_is_one_passage_and_a_long_one_is_cut(pool: Pool) -> None:
    assert await titles(view(pool, "shop.twice"), "sun") == ["Roses", "Ferns"]
    (long,) = await view(pool, "shop.long").retrieve(Query("sun"))
    assert len(long.text) == long.end == TEXT_LIMIT


async def test_a_cancelled_search_returns_nothing(pool: Pool) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await view(pool).retrieve(Query("sun"))
        pytest.fail("a cancelled search went on")
    assert scope.cancelled_caught
    assert pool.in_use == 0
