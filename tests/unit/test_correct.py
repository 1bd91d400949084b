"""How the next attempt searches: every row of the policy table, what is passed over, and how sets are merged (D7)."""

from collections.abc import Mapping

import pytest

from grading.correct import DEFAULT_POLICY, Cause, Corrector, Failure, Strategy
from grading.faults import RewriterUnavailable
from grading.grade import Grade, Verdict, consistent
from retrieval.faults import EmbeddingFailed
from retrieval.passage import Passage, Scalar, merge
from retrieval.ports import Query, SearchMode
from retrieval.searcher import Search, interleaved
from retrieval.sources import HOUSE, Source
from tests.support.fakes import FakeRetriever, FakeRewriter, passages

pytestmark = pytest.mark.anyio

FIRST = Query("What does it cost?", collection="shop", k=5)
GAP = Grade(Verdict.PARTIAL, missing="the price in euros", relevant=(2, 4))
BAD = Grade(Verdict.INSUFFICIENT)
NOTHING = FakeRetriever([(0.0, ())])
SOURCES = (Source(HOUSE, NOTHING), Source("archive", NOTHING), Source("web", NOTHING, external=True))


def failure(grade: Grade, count: int = 5, *, ungrounded: bool = False) -> Failure:
    return Failure(FIRST.text, grade, passages(count), Search("first", (FIRST,), 5), ungrounded)


class Shop:
    async def fields(self, collection: str, tenant: str) -> Mapping[str, tuple[Scalar, ...]]:
        return {"year": (2024, 2025), "kind": ("price list",)}


def corrector(
    rewriter: FakeRewriter | None = None, policy: tuple[Strategy, ...] | None = None, **more: object
) -> Corrector:
    table = DEFAULT_POLICY if policy is None else dict.fromkeys(DEFAULT_POLICY, policy)
    return Corrector(FIRST, SOURCES, table, rewriter, **more)  # type: ignore[arg-type]


async def test_partial_searches_for_the_gap_and_keeps_what_was_relevant() -> None:
    search = await corrector().next_search(failure(GAP))
    assert search is not None
    assert (search.strategy, search.text) == ("gap_query", "What does it cost? the price in euros")
    assert search.queries[0].collection == "shop"
    joined = search.joined(passages(5, "new")).kept
    assert [p.id for p in joined] == ["p2", "p4", "new1", "new2", "new3", "new4", "new5"]


async def test_insufficient_searches_wider_reranks_and_replaces() -> None:
    search = await corrector().next_search(failure(BAD))
    assert search is not None
    assert (search.strategy, search.rerank, search.keep) == ("broaden", True, ())
    assert (search.queries[0].k, search.queries[0].mode, search.text) == (20, SearchMode.HYBRID, FIRST.text)


@pytest.mark.parametrize(
    ("grade", "count", "ungrounded", "cause"),
    [
        (GAP, 5, False, Cause.GAP),
        (Grade(Verdict.PARTIAL, relevant=(1,)), 5, False, Cause.UNSTATED),
        (Grade(Verdict.PARTIAL, relevant=(1,), conflicts="1 and 2 differ"), 5, False, Cause.CONFLICT),
        (GAP, 5, True, Cause.UNGROUNDED),
        (BAD, 5, False, Cause.OFF_TOPIC),
        (BAD, 0, False, Cause.EMPTY),
        (Grade(Verdict.INSUFFICIENT, conflicts="1 and 2 differ"), 5, False, Cause.CONFLICT),
    ],
)
async def test_every_row_of_the_policy_is_tried_in_its_order_and_then_exhausted(
    grade: Grade, count: int, ungrounded: bool, cause: Cause
) -> None:
    failed = failure(grade, count, ungrounded=ungrounded)
    assert failed.cause is cause
    row = DEFAULT_POLICY[grade.verdict, cause]
    helped = corrector(FakeRewriter("other words", ("one?", "two?"), asked={"year": 2024}), fields=Shop())
    tried = []
    while (search := await helped.next_search(failed)) is not None:
        tried.append(search.strategy)
    sources = sum(s == "next_source" for s in tried)
    assert sources == (2 if Strategy.NEXT_SOURCE in row else 0)
    expected = [s.value for s in row]
    assert [s for i, s in enumerate(tried) if s != "next_source" or s not in tried[:i]] == expected


async def test_a_rewrite_that_is_empty_or_equal_is_passed_over() -> None:
    for words in ("", "  ", "what does it COST"):
        assert await corrector(FakeRewriter(words), (Strategy.REWRITE,)).next_search(failure(BAD)) is None


async def test_a_rewrite_that_drifts_is_passed_over() -> None:
    async def far(text: str, question: str) -> float:
        return 0.2

    async def near(text: str, question: str) -> float:
        return 0.9

    policy = (Strategy.REWRITE,)
    assert await corrector(FakeRewriter("cats"), policy, similarity=far).next_search(failure(BAD)) is None
    search = await corrector(FakeRewriter("its price"), policy, similarity=near).next_search(failure(BAD))
    assert search is not None
    assert (search.text, search.similarity) == ("its price", 0.9)


async def test_parts_of_which_one_drifts_are_passed_over() -> None:
    async def similarity(text: str, question: str) -> float:
        return {"cats": 0.2, "its price": 0.9, "its size": 0.7}[text]

    policy = (Strategy.DECOMPOSE,)
    drifting = FakeRewriter(parts=("its price", "cats"))
    assert await corrector(drifting, policy, similarity=similarity).next_search(failure(GAP)) is None
    search = await corrector(FakeRewriter(parts=("its price", "its size")), policy, similarity=similarity).next_search(
        failure(GAP)
    )
    assert search is not None
    assert (search.text, search.similarity) == ("its price; its size", 0.7)


async def test_a_rewrite_that_cannot_be_compared_is_passed_over() -> None:
    async def away(text: str, question: str) -> float:
        raise EmbeddingFailed("away")

    policy = (Strategy.REWRITE, Strategy.BROADEN)
    search = await corrector(FakeRewriter("its price"), policy, similarity=away).next_search(failure(BAD))
    assert search is not None
    assert search.strategy == "broaden"


async def test_a_rewriter_that_is_down_costs_its_strategies_only() -> None:
    down = FakeRewriter(fault=RewriterUnavailable("down"))
    search = await corrector(down, (Strategy.REWRITE, Strategy.DECOMPOSE, Strategy.BROADEN)).next_search(failure(BAD))
    assert search is not None
    assert search.strategy == "broaden"


async def test_parts_are_searched_side_by_side_and_each_is_covered() -> None:
    search = await corrector(FakeRewriter(parts=("one?", "two?")), (Strategy.DECOMPOSE,)).next_search(failure(GAP))
    assert search is not None
    assert [q.text for q in search.queries] == ["one?", "two?"]
    mixed = interleaved([passages(3, "a"), passages(2, "b")])
    assert [p.id for p in mixed] == ["a1", "b1", "a2", "b2", "a3"]


async def test_a_question_of_one_part_is_not_decomposed() -> None:
    assert await corrector(FakeRewriter(parts=("one?",)), (Strategy.DECOMPOSE,)).next_search(failure(BAD)) is None


async def test_only_filters_that_the_collection_has_are_used() -> None:
    asked: dict[str, Scalar] = {"year": 2024, "kind": "rumour", "author": "x"}
    search = await corrector(FakeRewriter(asked=asked), (Strategy.FILTERS,), fields=Shop()).next_search(failure(BAD))
    assert search is not None
    assert search.queries[0].filters == {"year": 2024}
    none = corrector(FakeRewriter(asked={"author": "x"}), (Strategy.FILTERS,), fields=Shop())
    assert await none.next_search(failure(BAD)) is None


async def test_the_next_source_skips_external_ones_when_their_budget_is_spent() -> None:
    def internal(search: Search) -> bool:
        return not SOURCES[search.source].external

    planner = corrector(policy=(Strategy.NEXT_SOURCE,))
    first = await planner.next_search(failure(BAD), internal)
    assert first is not None
    assert first.source == 1
    assert await planner.next_search(failure(BAD), internal) is None


async def test_external_passages_never_come_before_internal_ones() -> None:
    outside = Passage("w", "web", "t", "from outside", metadata={"external": True})
    search = Search("next_source", (FIRST,), 5, keep=(outside,))
    assert [p.id for p in search.joined(passages(2)).kept] == ["p1", "p2", "w"]


def test_merge_drops_the_same_passage_once_keeps_order_and_still_meets_k() -> None:
    old, new = passages(8), (*passages(5), *passages(3, "new"))
    assert [p.id for p in merge(old, new, limit=11)] == [*(f"p{n}" for n in range(1, 9)), "new1", "new2", "new3"]


def test_merge_keeps_two_passages_of_one_document_with_different_text() -> None:
    a = Passage("1", "doc", "t", "first chunk")
    b = Passage("2", "doc", "t", "second chunk")
    again = Passage("3", "doc", "t", "first chunk")
    assert merge((a, b), (again,), limit=9) == (a, b)


def test_a_sufficient_grade_that_contradicts_itself_is_lowered() -> None:
    assert consistent(Grade(Verdict.SUFFICIENT, relevant=(1,)), 2).verdict is Verdict.SUFFICIENT
    assert consistent(Grade(Verdict.SUFFICIENT, missing="x", relevant=(1,)), 2).verdict is Verdict.PARTIAL
    assert consistent(Grade(Verdict.SUFFICIENT, relevant=(1, 7)), 2) == Grade(Verdict.PARTIAL, relevant=(1,))
    assert consistent(Grade(Verdict.SUFFICIENT), 2).verdict is Verdict.INSUFFICIENT
    assert consistent(Grade(Verdict.SUFFICIENT, relevant=(0,)), 2).verdict is Verdict.INSUFFICIENT
    assert consistent(Grade(Verdict.PARTIAL, missing=" ", relevant=(2, 2)), 2) == Grade(Verdict.PARTIAL, relevant=(2,))
