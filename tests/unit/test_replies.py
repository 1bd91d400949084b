"""A model's words about questions, sentences and passages: read strictly, a contradiction is no answer."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grading.faults import GraderUnavailable, RewriterUnavailable, VerifierUnavailable
from grading.grade import Grade, Verdict, consistent
from grading.replies import numbers_in, passages_grade_in, query_in, questions_in, verdicts_in


def judged(*states: list[int], parts: tuple[str, ...] = ("the price", "the year"), conflicts: str | None = None) -> str:
    passages = [{"passage": n, "states": each} for n, each in enumerate(states, 1)]
    return json.dumps({"parts": parts, "passages": passages, "conflicts": conflicts})


@pytest.mark.parametrize(
    ("said", "grade"),
    [
        (judged([1], [2], []), Grade(Verdict.SUFFICIENT, None, (1, 2), grader="m")),
        (judged([], [1, 2], []), Grade(Verdict.SUFFICIENT, None, (2,), grader="m")),
        (judged([], [2], [2]), Grade(Verdict.PARTIAL, "the price", (2, 3), grader="m")),
        (judged([], [], []), Grade(Verdict.INSUFFICIENT, "the price; the year", (), grader="m")),
        (
            judged([1], [1], [2], conflicts="1 and 2 differ"),
            Grade(Verdict.SUFFICIENT, None, (1, 2, 3), "1 and 2 differ", "m"),
        ),
    ],
)
def test_the_verdict_on_a_set_follows_from_its_passages(said: str, grade: Grade) -> None:
    assert passages_grade_in(said, 3, "m") == grade
    assert passages_grade_in(f"Here:\n```json\n{said}\n```", 3, "m") == grade


WRONG: list[Any] = [
    judged([1], [2]),  # a passage left out
    judged([1], [2], [], []),  # one too many
    judged([1], [3], []),  # a part that does not exist
    judged([0], [1], [2]),
    judged([], [], [], parts=()),
    judged([1], [2], [5], parts=("a", "b", "c", "d", "e")),
    judged([1], [1], [1], parts=("", " ")),
    '{"parts": ["a"], "passages": [{"passage": 1, "states": [1]}, {"passage": 1, "states": []}, {"passage": 2, "states": []}]}',
    '{"parts": ["a"], "passages": [{"passage": true, "states": [1]}]}',
    '{"parts": "a", "passages": []}',
    '{"parts": ["a"], "passages": [1, 2, 3]}',
    '{"passages": []}',
    "All of them, I think.",
    "",
]


@pytest.mark.parametrize("said", WRONG)
def test_a_judgement_that_contradicts_itself_is_none(said: str) -> None:
    with pytest.raises(GraderUnavailable):
        passages_grade_in(said, 3, "m")


@given(st.lists(st.lists(st.integers(1, 3), max_size=3), min_size=1, max_size=6))
def test_what_is_derived_never_contradicts_itself(states: list[list[int]]) -> None:
    grade = passages_grade_in(judged(*states, parts=("a", "b", "c")), len(states), "m")
    assert consistent(grade, len(states)) == grade
    assert grade.is_sufficient == (set().union(*states) == {1, 2, 3})


def sentences(*verdicts: tuple[Any, Any]) -> str:
    return json.dumps({"sentences": [{"sentence": n, "supported": supported} for n, supported in verdicts]})


def test_verdicts_come_back_in_the_order_of_the_sentences() -> None:
    assert verdicts_in(sentences((2, False), (1, True), (3, True)), 3) == (True, False, True)


@pytest.mark.parametrize(
    "said",
    [
        sentences((1, True)),
        sentences((1, True), (2, True), (3, True)),
        sentences((1, True), (1, False)),
        sentences((1, True), (2, "yes")),
        sentences((1, True), (2, 1)),
        sentences((0, True), (1, True)),
        '{"sentences": {"1": true, "2": true}}',
        "both are fine",
    ],
)
def test_sentences_that_are_not_each_judged_once_are_not_judged(said: str) -> None:
    with pytest.raises(VerifierUnavailable):
        verdicts_in(said, 2)


def test_what_is_rewritten_is_one_line_and_sub_questions_are_at_least_two() -> None:
    assert query_in('{"query": " other\\nwords "}') == "other words"
    assert questions_in('{"questions": ["a?", "", "a?", "b?", "c?", "d?", "e?"]}') == ("a?", "b?", "c?", "d?")
    assert questions_in('{"questions": ["a?"]}') == ()
    assert numbers_in('{"filters": [2, 9, 0, 2, 1]}', 3) == (2, 1)


@pytest.mark.parametrize("said", ['{"query": 1}', '{"query": "%s"}' % ("x" * 3_000), "other words", '{"other": "x"}'])
def test_a_query_in_another_form_is_none(said: str) -> None:
    with pytest.raises(RewriterUnavailable):
        query_in(said)
