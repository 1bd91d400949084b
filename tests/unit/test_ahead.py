"""Looking ahead: which sources are searched beside the first, what that spends, and what it covers."""

from dataclasses import replace

import anyio
import pytest

from retrieval.faults import RetrievalUnavailable
from retrieval.ports import Query
from retrieval.searcher import Search, Searcher
from retrieval.sources import HOUSE, Source
from streaming.ahead import Ahead
from tests.support.clock import run_virtual
from tests.support.fakes import FakeRetriever, passages

FIRST = Query("What is it?")


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def finds(delay_s: float, tag: str) -> FakeRetriever:
    return FakeRetriever([(delay_s, passages(2, tag))])


def search(source: int, **more: object) -> Search:
    return replace(Search("next_source", (FIRST,), 5, source), **more)  # type: ignore[arg-type]


class Sources:
    """A house, then sources that are searched ahead or not."""

    def __init__(self) -> None:
        self.house, self.later = finds(0.0, "h"), finds(0.0, "l")
        self.near, self.web, self.other = finds(1.0, "n"), finds(2.0, "w"), finds(0.0, "o")
        self.all = (
            Source(HOUSE, self.house, parallel=True),
            Source("later", self.later),
            Source("near", self.near, parallel=True),
            Source("web", self.web, external=True, parallel=True),
            Source("other", self.other, external=True, parallel=True),
        )


def test_only_parallel_sources_after_the_first_are_searched_and_external_ones_within_their_budget(backend: str) -> None:
    async def play(allowed: int) -> tuple[int, list[int]]:
        sources = Sources()
        async with anyio.create_task_group() as tasks:
            spent = Ahead(Searcher(sources.all, None), FIRST, "q", tasks).start(allowed)
        each = (sources.house, sources.later, sources.near, sources.web, sources.other)
        return spent, [len(retriever.queries) for retriever in each]

    assert run_virtual(backend, play, 0) == (0, [0, 0, 1, 0, 0])
    assert run_virtual(backend, play, 1) == (1, [0, 0, 1, 1, 0])
    assert run_virtual(backend, play, 5) == (2, [0, 0, 1, 1, 1])


def test_what_was_found_ahead_is_taken_when_it_is_there_with_what_the_search_keeps(backend: str) -> None:
    async def play() -> tuple[list[str], float]:
        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            ahead = Ahead(Searcher(Sources().all, None), FIRST, "q", tasks)
            ahead.start(5)
            taken = ahead.take(search(3, keep=passages(1, "kept")))
            assert taken is not None
            found = [p.id for p in (await taken).kept]
        return found, anyio.current_time() - began

    assert run_virtual(backend, play) == (["kept1", "w1", "w2"], 2.0)


def test_another_query_another_source_or_a_rerank_is_not_covered(backend: str) -> None:
    async def play() -> list[bool]:
        async with anyio.create_task_group() as tasks:
            ahead = Ahead(Searcher(Sources().all, None), FIRST, "q", tasks)
            ahead.start(5)
        other = replace(FIRST, text="something else")
        asked = (search(2), search(1), search(0), search(2, queries=(other,)), search(2, rerank=True))
        return [ahead.covers(each) for each in asked]

    assert run_virtual(backend, play) == [True, False, False, False, False]


def test_closing_ends_what_still_searches(backend: str) -> None:
    async def play() -> float:
        async with anyio.create_task_group() as tasks:
            ahead = Ahead(
                Searcher((Source(HOUSE, finds(0, "h")), Source("w", finds(9_999, "w"), parallel=True)), None),
                FIRST,
                "q",
                tasks,
            )
            ahead.start(0)
            await anyio.sleep(1)
            ahead.close()
        return anyio.current_time()

    assert run_virtual(backend, play) < 10


def test_a_fault_ahead_is_raised_to_whoever_takes_it(backend: str) -> None:
    """A source outside the house only finds nothing; the house itself under another name may fail."""

    class Failing(Source):
        async def retrieve(self, query: Query, pass_over: object = None) -> tuple[()]:
            raise RetrievalUnavailable(f"no {query.text}")

    async def play() -> None:
        sources = (Source(HOUSE, finds(0, "h")), Failing("mirror", finds(0, "m"), parallel=True))
        async with anyio.create_task_group() as tasks:
            ahead = Ahead(Searcher(sources, None), FIRST, "q", tasks)
            ahead.start(0)
            taken = ahead.take(search(1))
            assert taken is not None
            with pytest.raises(RetrievalUnavailable):
                await taken

    run_virtual(backend, play)
