"""What the set is before it is graded: searched as the question asks for it, cleaned, its conflicts told. In virtual time."""

from dataclasses import replace
from typing import Any

import pytest

from grading.correct import Cause, Strategy
from grading.grade import Grade, Verdict
from grading.routing import always
from retrieval.passage import Passage, Scalar
from retrieval.ports import SearchMode
from streaming.budget import Conflicts, Limits, Verify
from streaming.events import Done, Refusal, Retry, Sources, Token, Verification
from streaming.facts import AttemptBegan, Retrieved
from streaming.ports import Stopped, StopReason, Text, Turn
from tests.support.fakes import (
    DraftScript,
    FakeGenerator,
    FakeGrader,
    FakeRetriever,
    FakeRewriter,
    FakeVerifier,
    passages,
)
from tests.support.loop import Loop, play

GOOD = Grade(Verdict.SUFFICIENT, relevant=(1, 2))
STOP = (0.0, (Stopped(StopReason.END),))
LEAVE = "Every employee has {} days of annual leave in each calendar year. It is requested in the portal."


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def says(text: str = "All is well here.") -> FakeGenerator:
    return FakeGenerator([DraftScript(((0.0, (Text(text),)), STOP))])


def passage(name: str, text: str, title: str = "Leave", **metadata: Scalar) -> Passage:
    return Passage(name, f"doc-{name}", title, text, metadata=metadata)


def answering(*found: Passage, grade: Grade = GOOD, **more: Any) -> Loop:
    return Loop(FakeGrader([(1.0, grade)]), says(), FakeRetriever([(0.0, found)]), **more)


# ---------------------------------------------------------------- the first search


@pytest.mark.parametrize(
    ("question", "mode", "need"),
    [
        ("How much annual leave is there?", "hybrid", "meaning"),
        ("What does ORA-00942 mean?", "hybrid", "exact"),
        ("ORA-00942", "lexical", "exact"),
        ("Who leads the team that Craig Westcarr played for?", "hops", "parts"),
    ],
)
def test_the_first_search_is_the_one_the_question_asks_for(backend: str, question: str, mode: str, need: str) -> None:
    loop = play(backend, answering(*passages(2), question=question))
    assert [query.mode for query in loop.house.queries] == [mode]
    began = loop.facts.of(AttemptBegan)
    assert [(fact.correction, fact.mode, fact.need, fact.strategy) for fact in began] == [(None, mode, need, mode)]
    assert (loop.calls("search"), loop.calls("grade"), loop.calls("draft")) == (1, 1, 1)


@pytest.mark.parametrize("mode", SearchMode)
def test_a_fixed_first_search_is_the_same_for_every_question(backend: str, mode: SearchMode) -> None:
    loop = play(backend, answering(*passages(2), question="ORA-00942", router=always(mode)))
    assert [query.mode for query in loop.house.queries] == [mode]
    assert [fact.need for fact in loop.facts.of(AttemptBegan)] == ["setting"]


def test_the_stand_alone_question_decides_how_to_search(backend: str) -> None:
    history = (Turn("user", "I see ORA-00942."), Turn("assistant", "That is an error of a database."))
    helper = FakeRewriter(alone="ORA-00942")
    loop = play(backend, answering(*passages(2), question="And why?", history=history, rewriter=helper))
    assert [(query.text, query.mode) for query in loop.house.queries] == [("ORA-00942", "lexical")]


OFF_TOPIC = (Verdict.INSUFFICIENT, Cause.OFF_TOPIC)


@pytest.mark.parametrize(
    ("first", "hybrid_is_new", "broad"),
    [("dense", True, "hybrid"), ("lexical", True, "hybrid"), ("hybrid", False, "hybrid"), ("hops", False, "hops")],
)
def test_a_correction_is_never_the_first_search_again(
    backend: str, first: str, hybrid_is_new: bool, broad: str
) -> None:
    loop = answering(*passages(3), grade=Grade(Verdict.INSUFFICIENT), router=always(SearchMode(first)))
    loop.policy = {OFF_TOPIC: (Strategy.HYBRID, Strategy.BROADEN)}
    loop.limits = Limits(max_retries=2)
    play(backend, loop)
    assert [r.correction for r in loop.of(Retry)] == (["hybrid", "broaden"] if hybrid_is_new else ["broaden"])
    assert (loop.house.queries[-1].mode, loop.house.queries[-1].k) == (broad, 20)
    facts = loop.facts.of(AttemptBegan)
    assert [(fact.strategy, fact.need) for fact in facts][1:] == [(r.correction, None) for r in loop.of(Retry)]


# ---------------------------------------------------------------- evidence


def test_copies_and_outdated_versions_are_neither_graded_nor_drafted_from(backend: str) -> None:
    old = passage("old", LEAVE.format("twenty"), version="1")
    new = passage("new", LEAVE.format("thirty"), version="2")
    copy = passage("copy", LEAVE.format("thirty"))
    loop = play(backend, answering(old, new, copy, passage("other", "Sick leave is paid for six weeks.", "Sickness")))
    assert sorted(loop.journal[1:]) == ["draft new other", "grade new other"]
    assert [p.id for _, p in loop.of(Sources)[0].passages] == ["new", "other"]
    (found,) = loop.facts.of(Retrieved)
    assert (found.passages, found.duplicates, found.outdated, found.outranked, found.conflicts) == (2, 1, 1, 0, 0)
    assert [p.id for p in found.found] == ["new", "other"]


def test_an_outside_passage_that_contradicts_the_house_is_left_out(backend: str) -> None:
    house = passage("house", LEAVE.format(30))
    web = passage("web", LEAVE.format(20), external=True)
    loop = play(backend, answering(web, house, grade=Grade(Verdict.SUFFICIENT, relevant=(1,))))
    assert sorted(loop.journal[1:]) == ["draft house", "grade house"]
    assert [(f.outranked, f.conflicts) for f in loop.facts.of(Retrieved)] == [(1, 0)]


def test_an_outside_source_of_great_authority_comes_after_the_house(backend: str) -> None:
    web, house = passage("web", "x y z", external=True, authority=99), passage("house", "a b c")
    expert = passage("expert", "d e f", authority=5)
    loop = play(backend, answering(web, house, expert))
    assert sorted(loop.journal[1:]) == ["draft expert house web", "grade expert house web"]


# ---------------------------------------------------------------- conflicts

THIRTY, TWENTY = passage("a", LEAVE.format(30), "Leave 2024"), passage("b", LEAVE.format(20), "Leave 2025")
SAID = (
    "The sources disagree: “Every employee has 30 days of annual leave in each calendar year” (Leave 2024), "
    "but “Every employee has 20 days of annual leave in each calendar year” (Leave 2025)"
)


def test_a_conflict_is_named_after_the_answer(backend: str) -> None:
    loop = play(backend, answering(THIRTY, TWENTY))
    assert loop.text == f"All is well here.\n\n{SAID}"
    assert loop.names[-3:] == ["Token", "Token", "Done"]
    assert ([d.path for d in loop.of(Done)], loop.calls("draft")) == (["clean"], 1)
    assert [f.conflicts for f in loop.facts.of(Retrieved)] == [1]


def test_the_grader_s_own_words_for_a_conflict_count_more(backend: str) -> None:
    loop = play(backend, answering(THIRTY, TWENTY, grade=replace(GOOD, conflicts="20 or 30 days")))
    assert loop.text == "All is well here.\n\nThe sources disagree: 20 or 30 days"


def test_a_conflict_with_a_passage_that_does_not_matter_is_none(backend: str) -> None:
    loop = play(backend, answering(THIRTY, TWENTY, grade=Grade(Verdict.SUFFICIENT, relevant=(1,))))
    assert loop.text == "All is well here."


def test_what_was_checked_is_the_answer_without_its_note(backend: str) -> None:
    verifier = FakeVerifier()
    loop = answering(THIRTY, TWENTY, verifier=verifier, limits=Limits(verify=Verify.ANNOTATE))
    play(backend, loop)
    assert [claim.text for claim in verifier.claims] == ["All is well here."]
    assert [(v.grounded, len(v.claims)) for v in loop.of(Verification)] == [(True, 1)]


@pytest.mark.parametrize("said", ["20 or 30 days", None], ids=["by the grader", "seen in the set"])
def test_a_conflict_is_refused_where_the_policy_says_so(backend: str, said: str | None) -> None:
    limits = Limits(max_retries=1, conflicts=Conflicts.REFUSE)
    loop = play(backend, answering(THIRTY, TWENTY, grade=replace(GOOD, conflicts=said), limits=limits))
    assert loop.of(Token) == []
    assert [(r.attempt, r.verdict, r.correction) for r in loop.of(Retry)] == [(1, "partial", "broaden")]
    (refusal,) = loop.of(Refusal)
    assert refusal.reason == "insufficient_evidence"
    assert refusal.missing == (f"The sources disagree: {said}" if said else SAID)
    assert (loop.calls("search"), loop.calls("grade"), loop.calls("draft")) == (2, 2, 2)
    assert loop.outcomes == ["discarded", "discarded"]


def test_a_set_without_conflict_is_answered_where_conflicts_are_refused(backend: str) -> None:
    loop = play(backend, answering(*passages(2), limits=Limits(conflicts=Conflicts.REFUSE)))
    assert (loop.text, loop.calls("grade")) == ("All is well here.", 1)
