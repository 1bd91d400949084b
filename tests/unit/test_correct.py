"""How the next attempt searches, by verdict; and how sets are merged (FIELD_REPORTS D7)."""

from grading.correct import correct
from grading.grade import Grade, Verdict, consistent
from retrieval.passage import Passage, merge
from retrieval.ports import Query, SearchMode
from tests.support.fakes import passages

FIRST = Query("What does it cost?", collection="shop", k=5)


def test_partial_searches_for_the_gap_and_keeps_what_was_relevant() -> None:
    found = passages(5)
    grade = Grade(Verdict.PARTIAL, missing="the price in euros", relevant=(2, 4))
    correction = correct(FIRST.text, grade, found, FIRST, k=5)
    assert correction.name == "gap_query"
    assert correction.query.text == "What does it cost? the price in euros"
    assert correction.query.collection == "shop"
    assert [p.id for p in correction.joined(passages(5, "new"))] == ["p2", "p4", "new1", "new2", "new3", "new4", "new5"]


def test_insufficient_searches_wider_reranks_and_replaces() -> None:
    correction = correct(FIRST.text, Grade(Verdict.INSUFFICIENT, missing="x"), passages(5), FIRST, k=5)
    assert (correction.name, correction.rerank, correction.keep) == ("broaden", True, ())
    assert (correction.query.k, correction.query.mode) == (20, SearchMode.HYBRID)
    assert correction.query.text == FIRST.text


def test_partial_without_a_stated_gap_searches_wider() -> None:
    assert correct(FIRST.text, Grade(Verdict.PARTIAL), passages(2), FIRST, k=5).name == "broaden"


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
