"""Scripts: markers in a question, and that the same question always plays the same way."""

import pytest

from gateway.providers.script import (
    Fault,
    FaultKind,
    GraderFault,
    Script,
    search_number,
    stamp,
    stamped_search,
)
from grading.correct import Corrector, Failure
from grading.grade import Grade, Verdict
from retrieval.passage import Passage
from retrieval.ports import Query, SearchMode
from retrieval.searcher import Search

FULL = (
    "Where? [[verdict=partial,sufficient grade_ms=250 ttft_ms=400 tps=80 tokens=60 fault=overloaded@10,none]] "
    "And [[missing='the price' relevant=1,3 passages=0,5 cite=7 jitter=0.5 seed=3 retrieve_ms=9 grader_fault=stall]]"
)


def test_markers_override_the_defaults() -> None:
    assert Script.parse(FULL, Script(tps=1)) == Script(
        retrieve_ms=9,
        grade_ms=250,
        ttft_ms=400,
        tps=80,
        tokens=60,
        jitter=0.5,
        seed=3,
        verdicts=(Verdict.PARTIAL, Verdict.SUFFICIENT),
        missing="the price",
        relevant=(1, 3),
        passages=(0, 5),
        cite=7,
        faults=(Fault(FaultKind.OVERLOADED, 10), Fault()),
        grader_faults=(GraderFault.STALL,),
        question=FULL,
    )


def test_a_question_without_markers_plays_the_defaults() -> None:
    assert Script.parse("Where? [1] [[wire: pings=2]]", Script(tokens=3)).tokens == 3


@pytest.mark.parametrize(
    ("marker", "named"),
    [
        ("[[speed=9]]", "speed"),
        ("[[verdict]]", "verdict"),
        ("[[verdict=good]]", "verdict"),
        ("[[tps=0]]", "tps"),
        ("[[grade_ms=-1]]", "grade_ms"),
        ("[[grade_ms=nan]]", "grade_ms"),
        ("[[fault=burns]]", "fault"),
        ("[[fault=ends@-1]]", "fault"),
        ("[[fault=ends@x]]", "fault"),
        ("[[tokens=1.5]]", "tokens"),
    ],
)
def test_a_marker_that_is_not_understood_names_its_key(marker: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Script.parse(f"q {marker}")


def test_a_fault_without_a_place_happens_before_the_response_where_it_can() -> None:
    assert Script.parse("[[fault=overloaded]]").fault(1) == Fault(FaultKind.OVERLOADED, None)
    assert Script.parse("[[fault=ends]]").fault(1) == Fault(FaultKind.ENDS, 0)


def test_no_two_drafts_share_a_token() -> None:
    script = Script(tokens=30)
    seen = [set(script.words(attempt, draft)) for attempt in (1, 2, 11) for draft in (1, 2)]
    assert sum(map(len, seen)) == len(set().union(*seen)) == 180


def test_the_schedule_is_exact_without_jitter() -> None:
    assert Script(ttft_ms=400, tps=80, tokens=3).due_s(1) == pytest.approx((0.4, 0.4125, 0.425))


def test_jitter_is_drawn_from_the_seed_and_the_question() -> None:
    jittery = Script.parse("q [[jitter=0.5 seed=1]]")
    again = Script.parse("q [[jitter=0.5 seed=1]]")
    others = [Script.parse("q [[jitter=0.5 seed=2]]"), Script.parse("r [[jitter=0.5 seed=1]]")]
    assert jittery.due_s(1) == again.due_s(1)
    assert jittery.grade_s(1) == again.grade_s(1)
    assert jittery.due_s(1) == tuple(sorted(jittery.due_s(1)))
    assert all(jittery.due_s(1) != other.due_s(1) for other in others)
    assert jittery.due_s(1) != jittery.due_s(2)


def test_verdicts_repeat_the_last() -> None:
    script = Script(verdicts=(Verdict.PARTIAL, Verdict.SUFFICIENT))
    assert [script.grade(n, 3).verdict for n in (1, 2, 3)] == [
        Verdict.PARTIAL,
        Verdict.SUFFICIENT,
        Verdict.SUFFICIENT,
    ]


def test_passages_say_which_search_found_them() -> None:
    assert stamped_search(f"{stamp(1, 1)} x\n{stamp(2, 3)} y") == 3
    assert stamped_search("an ordinary passage") is None


@pytest.mark.anyio
async def test_each_correction_leads_to_the_next_search() -> None:
    question = "q [[verdict=partial,partial,sufficient]]"
    script, query = Script.parse(question), Query(question)
    passages = (Passage("p", "d", "t", stamp(1, 1)),)
    corrector = Corrector(query, ())
    search = Search("first", (query,), query.k)
    assert search_number(query.text, widened=False) == 1
    for attempt in (1, 2):
        failure = Failure(question, script.grade(attempt, 1), passages, search)
        again = await corrector.next_search(failure)
        assert again is not None
        (query,) = again.queries
        assert search_number(query.text, widened=query.mode is SearchMode.HYBRID) == attempt + 1


@pytest.mark.anyio
async def test_a_widened_search_is_the_second() -> None:
    failure = Failure("q", Grade(Verdict.INSUFFICIENT), (), Search("first", (Query("q"),), 5))
    search = await Corrector(Query("q"), ()).next_search(failure)
    assert search is not None
    assert search_number(search.text, widened=search.queries[0].mode is SearchMode.HYBRID) == 2
