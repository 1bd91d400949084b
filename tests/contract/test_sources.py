"""What every search service as a source promises, against a server that answers as each of them does."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import anyio
import httpx2
import pytest

from gateway.providers.search.retriever import BODY_LIMIT_BYTES, TEXT_LIMIT, HttpRetriever
from retrieval.faults import GatewayFault, RetrievalMisconfigured, RetrievalUnavailable
from retrieval.ports import Query, SearchMode
from retrieval.sources import Source
from tests.support.search_api import DIALECTS, KEY, SERPER, Found, SearchApi, search_api

pytestmark = pytest.mark.anyio

SOON_S = 10.0  # bounds every wait; nothing is timed against it
THREE = [
    ("Roses", "Roses need six hours of sun.", "https://garden.example/roses"),
    ("Ferns", "Ferns grow in shade.", "https://garden.example/ferns"),
    ("Tulips", "Tulips are planted in October.", "https://garden.example/tulips"),
]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=DIALECTS, ids=[dialect.name for dialect in DIALECTS])
def api(request: pytest.FixtureRequest) -> Iterator[SearchApi]:
    with search_api(request.param) as api:
        api.found = THREE
        yield api


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(trust_env=False, verify=False) as client:  # plain HTTP needs no certificates
        yield client


@pytest.fixture
def retriever(api: SearchApi, http: httpx2.AsyncClient) -> HttpRetriever:
    return HttpRetriever("web", api.service(), http, limit_s=SOON_S)


async def fault(retriever: HttpRetriever) -> GatewayFault:
    """The fault that a search brings; it gives nothing away."""
    with pytest.raises((RetrievalUnavailable, RetrievalMisconfigured)) as caught:
        await retriever.retrieve(Query("a private question"))
    said = f"{caught.value}{caught.value.__cause__}"
    assert KEY not in said
    assert "private" not in str(caught.value)
    assert "'web'" in str(caught.value)
    return caught.value


async def test_results_are_passages_in_their_order(retriever: HttpRetriever, api: SearchApi) -> None:
    found = await retriever.retrieve(Query("roses and ferns"))
    assert [(p.title, p.text, p.url) for p in found] == THREE
    assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)
    assert len({p.id for p in found}) == 3
    assert all(p.text[p.start : p.end] == p.text for p in found)
    assert api.queries[0][api.dialect.query] == "roses and ferns"


async def test_the_same_search_finds_the_same_ids(retriever: HttpRetriever) -> None:
    first, second = await retriever.retrieve(Query("roses")), await retriever.retrieve(Query("ferns"))
    assert [p.id for p in first] == [p.id for p in second]


async def test_no_more_than_k_are_asked_for_and_given(retriever: HttpRetriever, api: SearchApi) -> None:
    assert [p.title for p in await retriever.retrieve(Query("roses", k=2))] == ["Roses", "Ferns"]
    assert 2 in [int(value) for value in api.queries[0].values() if str(value).isdigit()]
    assert await retriever.retrieve(Query("roses", k=0)) == ()
    assert len(api.queries) == 1


async def test_more_than_the_service_gives_can_be_asked_for(retriever: HttpRetriever) -> None:
    assert len(await retriever.retrieve(Query("roses", k=1000))) == 3


async def test_nothing_found_is_no_passage_and_no_fault(retriever: HttpRetriever, api: SearchApi) -> None:
    api.found = ()
    assert await retriever.retrieve(Query("roses")) == ()


async def test_a_refused_key_is_a_setting_that_is_wrong(api: SearchApi, http: httpx2.AsyncClient) -> None:
    raised = await fault(HttpRetriever("web", api.service("another-key"), http))
    assert isinstance(raised, RetrievalMisconfigured)
    assert "key" in str(raised)


async def test_a_service_that_cannot_now_may_be_asked_again(retriever: HttpRetriever, api: SearchApi) -> None:
    for api.status in (408, 429, 500, 502, 503, 529):
        raised = await fault(retriever)
        assert raised.retryable
        assert str(api.status) in str(raised)
    assert len(api.queries) == 6


async def test_a_request_that_is_not_taken_is_a_setting_that_is_wrong(retriever: HttpRetriever, api: SearchApi) -> None:
    for api.status in (302, 400, 404, 451):
        assert not (await fault(retriever)).retryable
    assert len(api.queries) == 4


NONSENSE = (
    b"",
    b"<html>Bad gateway</html>",
    b"{",
    b"null",
    b"[]",
    b"{}",
    b'"text"',
    b"\xff\xfe{",
    b'{"results": {"a": 1}, "organic": "none", "type": "search", "web": {"results": 3}, "data": {"hits": 1}}',
    b'{"results": 1, "organic": 1, "type": "search", "web": [1], "data": [1]}',
    b"[" * 100_000,
)


async def test_what_is_no_list_of_results_is_a_fault(retriever: HttpRetriever, api: SearchApi) -> None:
    for api.raw in NONSENSE:
        raised = await fault(retriever)
        assert isinstance(raised, RetrievalUnavailable)
        assert raised.retryable
        assert not raised.is_outage, "a question could bring it about, and would shut everybody else out"


async def test_results_of_odd_shapes_are_passed_over(retriever: HttpRetriever, api: SearchApi) -> None:
    api.found = [
        THREE[0],
        ("No text", "", "https://garden.example/empty"),
        ("No title", "Moss likes rain.", "https://garden.example/moss"),
        ("Odd", 17, None),  # type: ignore[list-item]
        ("Odder", {"a": 1}, ["x"]),  # type: ignore[list-item]
    ]
    found = await retriever.retrieve(Query("roses"))
    assert [p.text for p in found] == [THREE[0][1], "Moss likes rain.", "17"]


async def test_more_than_fits_is_not_read_to_its_end(retriever: HttpRetriever, api: SearchApi) -> None:
    api.raw = b" " * (BODY_LIMIT_BYTES + 1)
    assert "bytes" in str(await fault(retriever))


async def test_markup_and_hidden_characters_are_taken_out(retriever: HttpRetriever, api: SearchApi) -> None:
    snippet = (
        "<strong>Roses</strong> need <b class='x'>six</b> hours&nbsp;of sun &amp; rain, if a &lt; b.<script>alert(1)</script>"
        "\u202e\u200bDone.<br/>Next\n\n line <!-- <b>no</b> -->"
    )
    api.found = [("The <em>rose</em> &#x27;book&#x27;\n", snippet, "https://garden.example/roses")]
    (found,) = await retriever.retrieve(Query("roses"))
    assert found.title == "The rose 'book'"
    assert found.text == "Roses need six hours of sun & rain, if a < b. Done.\nNext\nline"


async def test_an_address_that_is_none_is_left_out(retriever: HttpRetriever, api: SearchApi) -> None:
    bad = [
        "javascript:alert(1)",
        "data:text/html,x",
        "",
        "http://[::bad",
        "https://user:pass@host.example/x",
        "http://a b/",
    ]
    api.found = [(f"T{n}", f"Text {n}.", url) for n, url in enumerate(bad)]
    found = await retriever.retrieve(Query("roses", k=10))
    assert [p.url for p in found] == [None] * len(bad)


async def test_one_page_comes_once(retriever: HttpRetriever, api: SearchApi) -> None:
    same = ["https://garden.example/roses", "http://www.garden.example/roses/", "https://GARDEN.example/roses#sun"]
    other = ["https://garden.example/roses?page=2", "https://garden.example/rose"]
    api.found = [(f"T{n}", f"Text {n}.", url) for n, url in enumerate([*same, *other])]
    assert [p.title for p in await retriever.retrieve(Query("roses", k=10))] == ["T0", "T3", "T4"]


async def test_a_long_text_is_cut(retriever: HttpRetriever, api: SearchApi) -> None:
    api.found = [("Long", "word " * 20_000, "https://garden.example/long")]
    (found,) = await retriever.retrieve(Query("roses"))
    assert len(found.text) == found.end == TEXT_LIMIT


@pytest.mark.parametrize("text", ["word " * 500, "x" * 5000, "\ud83d odd \x00 text", "a&b=c#d?e /%00 \u202e \n+1"])
async def test_any_question_can_be_asked(retriever: HttpRetriever, api: SearchApi, text: str) -> None:
    assert len(await retriever.retrieve(Query(text))) == 3
    assert api.queries[0].keys() == (await asked_keys(retriever, api))


async def asked_keys(retriever: HttpRetriever, api: SearchApi) -> set[str]:
    """The names that a plain question is sent with."""
    await retriever.retrieve(Query("plain"))
    return set(api.queries[-1])


async def test_a_blank_or_filtered_question_asks_nobody(retriever: HttpRetriever, api: SearchApi) -> None:
    assert await retriever.retrieve(Query(" \n")) == ()
    assert await retriever.retrieve(Query("roses", filters={"shelf": "kitchen"})) == ()
    assert api.queries == []


@pytest.mark.parametrize("mode", list(SearchMode))
async def test_a_mode_that_is_not_known_changes_nothing(retriever: HttpRetriever, mode: SearchMode) -> None:
    assert len(await retriever.retrieve(Query("roses", mode=mode))) == 3


async def test_silence_is_a_fault_after_the_limit(api: SearchApi, http: httpx2.AsyncClient) -> None:
    api.is_silent = True
    with anyio.fail_after(SOON_S):
        raised = await fault(HttpRetriever("web", api.service(), http, limit_s=0.1))
    assert "within 0.1 s" in str(raised)
    assert await anyio.to_thread.run_sync(api.left.wait, SOON_S)


async def test_a_body_that_never_ends_is_a_fault_after_the_limit(api: SearchApi, http: httpx2.AsyncClient) -> None:
    api.drips = True
    with anyio.fail_after(SOON_S):
        assert (await fault(HttpRetriever("web", api.service(), http, limit_s=0.3))).retryable


async def test_nobody_there_is_a_fault(api: SearchApi, http: httpx2.AsyncClient) -> None:
    with search_api(api.dialect) as gone:
        service = gone.service()
    raised = await fault(HttpRetriever("web", service, http))
    assert "cannot be reached" in str(raised)


async def test_cancelled_it_closes_its_request_and_works_again(retriever: HttpRetriever, api: SearchApi) -> None:
    api.is_silent = True
    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(retriever.retrieve, Query("roses"))
            assert await anyio.to_thread.run_sync(api.asked.wait, SOON_S)
            tasks.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(api.left.wait, SOON_S)
    api.is_silent = False
    assert len(await retriever.retrieve(Query("roses"))) == 3


async def test_many_at_once_do_not_mix(retriever: HttpRetriever, api: SearchApi) -> None:
    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:
            for n in range(20):
                tasks.start_soon(retriever.retrieve, Query(f"question {n}"))
    assert {query[api.dialect.query] for query in api.queries} == {f"question {n}" for n in range(20)}


async def test_a_service_shows_no_key(api: SearchApi) -> None:
    assert KEY not in repr(api.service())


async def test_as_a_source_its_passages_are_marked(retriever: HttpRetriever) -> None:
    found = await Source("web", retriever, external=True).retrieve(Query("roses"))
    assert all(p.metadata["source"] == "web" and p.metadata["external"] is True for p in found)


async def test_a_source_that_fails_has_found_nothing(
    retriever: HttpRetriever, api: SearchApi, caplog: pytest.LogCaptureFixture
) -> None:
    """The house's own documents failing is a fault; anything after them failing is one source less."""
    api.status = 500
    assert await Source("web", retriever, external=True).retrieve(Query("roses")) == ()
    assert "'web'" in caplog.text
    with pytest.raises(RetrievalUnavailable):
        await Source("house", retriever).retrieve(Query("roses"))


@pytest.fixture
def serper() -> Iterator[SearchApi]:
    with search_api(SERPER) as api:
        api.found = THREE
        yield api


async def test_the_highlighted_answer_comes_first_and_once(serper: SearchApi, http: httpx2.AsyncClient) -> None:
    def boxed(query: str, found: Sequence[Found]) -> Any:
        box = {"title": "Ferns", "answer": "In shade.", "link": "https://garden.example/ferns"}
        return {**SERPER.body(query, found), "answerBox": box}

    serper.dialect = replace(SERPER, body=boxed)
    found = await HttpRetriever("web", serper.service(), http).retrieve(Query("ferns"))
    assert [(p.title, p.text) for p in found] == [("Ferns", "In shade."), THREE[0][:2], THREE[2][:2]]
