"""From measurements to a grade."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.providers.local.judgement import JUNK_COST, Reading, judged
from grading.grade import Grade, Verdict, consistent
from grading.relevant import RELEVANT_LOGIT, lacking

LOGIT = st.floats(-15, 15, allow_nan=False)
READING = st.builds(Reading, LOGIT, LOGIT, LOGIT, LOGIT, LOGIT, LOGIT)


def reading(sufficient: float, partial: float = -5.0, insufficient: float = -5.0) -> Reading:
    return Reading(0.0, insufficient, partial, sufficient, 0.0, 0.0)


def grade(question: str, texts: list[str], of: Reading, logits: list[float]) -> Grade:
    return judged(question, texts, of, logits, JUNK_COST)


@pytest.mark.parametrize(
    ("of", "verdict"),
    [
        (reading(sufficient=4), Verdict.SUFFICIENT),
        (reading(sufficient=-4, partial=3), Verdict.PARTIAL),
        (reading(sufficient=-4, insufficient=3), Verdict.INSUFFICIENT),
        (reading(sufficient=1, insufficient=0, partial=-3), Verdict.INSUFFICIENT),  # likely, but not five to one
    ],
)
def test_each_verdict_has_its_reading(of: Reading, verdict: Verdict) -> None:
    assert of.verdict(JUNK_COST) is verdict


def test_the_dearer_junk_is_the_surer_the_reader_must_be() -> None:
    of = reading(sufficient=1, insufficient=0, partial=-3)
    assert of.verdict(1.0) is Verdict.SUFFICIENT
    assert of.verdict(5.0) is Verdict.INSUFFICIENT


@given(READING)
def test_the_probability_is_one_and_follows_the_margin(of: Reading) -> None:
    assert 0.0 <= of.p_sufficient <= 1.0
    higher = Reading(of.relevance, of.insufficient, of.partial, of.sufficient + 1, of.support, of.span)
    assert higher.p_sufficient >= of.p_sufficient
    everything = math.exp(of.insufficient) + math.exp(of.partial)
    assert of.margin == pytest.approx(of.sufficient - math.log(everything))


@given(st.text(max_size=60), READING, st.lists(LOGIT, min_size=1, max_size=8))
def test_no_grade_contradicts_itself(question: str, of: Reading, logits: list[float]) -> None:
    texts = ["Roses need sun."] * len(logits)
    found = grade(question, texts, of, logits)
    assert consistent(found, len(logits)) == found
    assert found.is_sufficient == (found.missing is None)
    assert found.verdict is Verdict.INSUFFICIENT or found.relevant
    assert found.missing is None or found.missing.strip()


def test_relevant_passages_are_those_the_cross_encoder_finds_so() -> None:
    logits = [RELEVANT_LOGIT - 1, 3.0, RELEVANT_LOGIT, -11.0]
    assert grade("q", ["a"] * 4, reading(sufficient=4), logits).relevant == (2, 3)
    assert grade("q", ["a"] * 4, reading(sufficient=-4), logits).relevant == (2, 3)


def test_a_sufficient_set_has_its_best_passage_as_relevant_at_least() -> None:
    assert grade("q", ["a"] * 3, reading(sufficient=4), [-11.0, -7.0, -9.0]).relevant == (2,)
    assert grade("q", ["a"] * 3, reading(sufficient=-4, insufficient=4), [-11.0, -7.0, -9.0]).relevant == ()


def test_what_is_missing_is_said_in_the_questions_words() -> None:
    assert lacking("What is the warranty on refurbished phones?", ["We sell phones."]) == "warranty, refurbished"
    assert lacking("Are phones sold?", ["We sell phones; they are sold."]) == "a direct answer to: Are phones sold?"
    assert lacking("", []) == "a direct answer to: the question"


def test_words_that_only_irrelevant_passages_speak_of_are_missing() -> None:
    texts = ["Phones come in red.", "A warranty is a promise."]
    found = grade("What warranty do phones have?", texts, reading(-4, insufficient=4), [2.0, -11.0])
    assert found.missing == "warranty"


def test_a_set_supports_what_one_of_its_passages_supports_alone() -> None:
    texts, doubtful = ["Ferns need shade.", "Roses need sun."], reading(sufficient=0, insufficient=1)
    sure = {1: reading(sufficient=-4, insufficient=3), 2: reading(sufficient=4)}
    found = judged("What do roses need?", texts, doubtful, [-9.0, -9.0], JUNK_COST, sure)
    assert found.verdict is Verdict.SUFFICIENT
    assert found.relevant == (2,)
    assert found.p_sufficient == sure[2].p_sufficient


def test_single_passages_that_convince_less_than_the_set_change_nothing() -> None:
    texts, of = ["Ferns need shade.", "Roses need sun."], reading(sufficient=-1, partial=1)
    unsure = {1: reading(sufficient=-4, insufficient=3)}
    assert judged("What?", texts, of, [1.0, 1.0], JUNK_COST, unsure) == judged(
        "What?", texts, of, [1.0, 1.0], JUNK_COST
    )
