"""The local grader on real questions, with the real models."""

import anyio
import pytest

from gateway.providers.local.faults import LocalModelMissing
from gateway.providers.local.files import ModelFiles
from gateway.providers.local.grader import ReaderGrader
from gateway.providers.local.network import Network
from gateway.providers.local.pairs import PairScorer
from gateway.providers.local.slots import Slots
from grading.faults import GraderUnavailable
from grading.grade import Verdict, consistent
from tests.support.local import GARDEN, passages, shared_models

pytestmark = pytest.mark.anyio

SOON_S = 10.0  # bounds every wait; nothing is timed against it


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(
    ("question", "number"),
    [
        ("How deep are tulip bulbs planted?", 2),
        ("When are roses pruned?", 1),
        ("Where do ferns grow?", 3),
        ("What is done with a spade after use?", 4),
    ],
)
async def test_a_set_that_answers_the_question_is_sufficient(question: str, number: int) -> None:
    grade = await shared_models().grader.grade(question, GARDEN)
    assert grade.verdict is Verdict.SUFFICIENT
    assert number in grade.relevant
    assert grade.missing is None


@pytest.mark.parametrize(
    ("question", "missing"),
    [
        ("Who designed the Eiffel Tower?", "designed, Eiffel Tower"),
        ("What does a bag of fertiliser cost?", "bag, fertiliser cost"),
        ("How are dahlias overwintered?", "dahlias overwintered"),
    ],
)
async def test_a_set_about_something_else_is_insufficient_and_says_what_is_missing(question: str, missing: str) -> None:
    grade = await shared_models().grader.grade(question, GARDEN)
    assert grade.verdict is Verdict.INSUFFICIENT
    assert grade.missing == missing


async def test_taking_the_answer_away_takes_sufficient_away() -> None:
    question = "How deep are tulip bulbs planted?"
    without = passages(
        ("Tulips", "Tulip bulbs are planted in October. They come from Turkey."), *(["Ferns grow in shade."] * 2)
    )
    grade = await shared_models().grader.grade(question, without)
    assert grade.verdict is not Verdict.SUFFICIENT
    assert grade.missing


@pytest.mark.parametrize(
    "question", ["roses", "?", "", "pruned when", "a", "漢字 漢字", "\ud800", "word " * 1600, "x" * 8000]
)
async def test_short_and_odd_questions_are_graded(question: str) -> None:
    grade = await shared_models().grader.grade(question, GARDEN)
    assert grade.grader == "reader"
    assert consistent(grade, len(GARDEN)) == grade
    assert grade.is_sufficient == (grade.missing is None)


async def test_odd_passages_are_graded() -> None:
    odd = passages("", " \n ", "x" * 50_000, "| a | b |\n|---|---|", ("Only a title", ""), "\ud800 \x00")
    grade = await shared_models().grader.grade("When are roses pruned?", odd)
    assert grade.verdict is not Verdict.SUFFICIENT


async def test_an_empty_set_is_insufficient() -> None:
    grade = await shared_models().grader.grade("When are roses pruned?", ())
    assert (grade.verdict, grade.relevant) == (Verdict.INSUFFICIENT, ())
    assert grade.missing


async def test_the_same_set_is_always_graded_the_same() -> None:
    fresh = ReaderGrader(shared_models().grader.network, PairScorer(shared_models().pairs.network, Slots(2)), Slots(2))
    assert await fresh.grade("Where do ferns grow?", GARDEN) == await shared_models().grader.grade(
        "Where do ferns grow?", GARDEN
    )


async def test_models_that_are_not_there_are_no_bad_grade() -> None:
    def missing() -> ModelFiles:
        raise LocalModelMissing("not here")

    broken = Network(missing, 320)
    grader = ReaderGrader(broken, PairScorer(broken, Slots(1)), Slots(1))
    with pytest.raises(GraderUnavailable, match="not here"):
        await grader.grade("q", GARDEN)


async def test_cancelled_in_the_middle_it_returns_and_grades_again() -> None:
    many = passages(*(f"Passage {n} speaks of many things that do not matter. " * 30 for n in range(30)))
    with anyio.move_on_after(0.05) as scope:
        await shared_models().grader.grade("What matters?", many)
    assert scope.cancelled_caught
    with anyio.fail_after(SOON_S):
        assert (await shared_models().grader.grade("Where do ferns grow?", GARDEN)).is_sufficient
