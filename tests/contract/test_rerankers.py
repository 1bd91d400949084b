"""What every reranker promises: the contract of retrieval.ports.Reranker."""

import anyio
import pytest

from retrieval.ports import Reranker
from tests.support.local import GARDEN, passages, shared_models

pytestmark = pytest.mark.anyio

SOON_S = 10.0  # bounds every wait; nothing is timed against it


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["cross-encoder"])
def reranker(request: pytest.FixtureRequest) -> Reranker:
    return {"cross-encoder": shared_models().reranker}[request.param]


async def test_the_best_k_come_first_and_keep_their_earlier_scores(reranker: Reranker) -> None:
    given = tuple(each.scored("cosine", n / 10) for n, each in enumerate(GARDEN))
    ranked = await reranker.rerank("How deep are tulip bulbs planted?", given, 2)
    assert ranked[0].id == "p2"
    assert len(ranked) == 2
    assert [each.score for each in ranked] == sorted((each.score for each in ranked), reverse=True)
    assert ranked[0].scores == {"cosine": 0.1, "rerank": ranked[0].score}
    assert ranked[0].text == GARDEN[1].text


async def test_no_passages_give_none(reranker: Reranker) -> None:
    assert await reranker.rerank("What is it?", (), 5) == ()


async def test_fewer_than_k_are_all_returned(reranker: Reranker) -> None:
    ranked = await reranker.rerank("When are roses pruned?", GARDEN, 50)
    assert {each.id for each in ranked} == {each.id for each in GARDEN}
    assert ranked[0].id == "p1"


async def test_equals_keep_their_order(reranker: Reranker) -> None:
    same = passages("Ferns grow in shade.", "Ferns grow in shade.", "Ferns grow in shade.")
    ranked = await reranker.rerank("Where do ferns grow?", same, 3)
    assert [each.id for each in ranked] == ["p1", "p2", "p3"]


@pytest.mark.parametrize("question", ["", "?", "ferns", "\x00\ud800", "漢字", "word " * 2000, "x" * 8000])
async def test_odd_questions_are_ranked_all_the_same(reranker: Reranker, question: str) -> None:
    assert len(await reranker.rerank(question, GARDEN, 4)) == 4


async def test_cancelled_it_returns_and_works_again(reranker: Reranker) -> None:
    many = passages(*(f"Passage number {n} is about nothing at all. " * 20 for n in range(40)))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await reranker.rerank("What is it about?", many, 5)
    assert scope.cancelled_caught
    with anyio.fail_after(SOON_S):
        assert (await reranker.rerank("When are roses pruned?", GARDEN, 1))[0].id == "p1"
