"""Signals of made sets: each moves as its name says; the free grader and the calibrated one over them."""

from dataclasses import replace

import pytest

from gateway.providers.local.slots import Urgency
from grading.calibrate import Calibration, default_calibration
from grading.calibrated import CalibratedGrader
from grading.evidence import Piece
from grading.faults import GraderUnavailable
from grading.grade import Verdict
from grading.score import FREE_SIGNALS, ScoreGrader, measured_freely
from grading.signals import (
    ALL_SIGNALS,
    LOWEST_LOGIT,
    SIGNAL_NAMES,
    Margins,
    Measured,
    Signals,
    clauses,
    names,
    signals,
)
from retrieval.passage import Passage
from tests.support.local import GARDEN, passages, shared_models

pytestmark = pytest.mark.anyio

YES = Margins(5.0, -2.0, -2.0, 3.0, 2.0, 6.0)
NO = Margins(-3.0, 3.0, -1.0, -2.0, -3.0, -4.0)
HALF = Margins(2.0, -1.0, 2.0, -1.0, 0.0, 0.0)


def of(question: str, *pieces: tuple[str, str], measured: Measured | None = None) -> Signals:
    default = Measured(YES, (0.0,) * len(pieces))
    return signals(question, [Piece(*each) for each in pieces], measured or default)


def test_every_signal_of_every_model_is_known() -> None:
    found = of("Who built the Alhambra in 1238?", ("Alhambra", "The Alhambra was begun in 1238."))
    assert len(found.values(ALL_SIGNALS)) == len(ALL_SIGNALS)
    assert all(value == value for value in found.values(sorted(SIGNAL_NAMES)))
    with pytest.raises(KeyError):
        found.values(("guess",))


def test_a_product_is_of_both_less_their_usual_values() -> None:
    found = of("q", ("", "one two three"))
    assert found.value("alone*lead") == pytest.approx(found.alone * found.lead)
    assert found.value("passage_length*lead") == pytest.approx((found.passage_length - 4.8) * found.lead)


def test_cover_counts_the_words_of_the_question_in_set_passage_and_sentence() -> None:
    found = of("deep tulip bulbs", ("", "Tulips are red. Plant bulbs."), ("", "A deep well."))
    assert found.cover == 1
    assert found.sentence_cover < found.passage_cover < 1


@pytest.mark.parametrize(
    ("cosines", "lexical", "agreement"),
    [
        ((0.9, 0.8, 0.7), (12.0, 6.0, 1.0), 1.0),
        ((0.9, 0.8, 0.7), (1.0, 6.0, 12.0), 0.0),
        ((0.9, 0.8, 0.7), (6.0, 12.0, 1.0), 2 / 3),
        ((0.9, 0.8), (0.0, 0.0), 0.5),
        ((0.9,), (3.0,), 0.5),
        ((0.9, 0.8), (), 0.5),
    ],
)
def test_vectors_and_words_agree_where_they_put_passages_in_the_same_order(
    cosines: tuple[float, ...], lexical: tuple[float, ...], agreement: float
) -> None:
    measured = Measured(YES, (0.0,), cosines=cosines, lexical=lexical)
    assert of("q", ("", "a"), measured=measured).agreement == pytest.approx(agreement)


def test_the_free_signals_hold_what_a_search_found() -> None:
    found = tuple(
        replace(each, scores={"cosine": n / 4, "lexical": -n}) for n, each in enumerate(passages("a", "b"), 1)
    )
    measured = measured_freely(found)
    assert (measured.cosines, measured.lexical) == ((0.25, 0.5), (-1, -2))
    assert "agreement" in FREE_SIGNALS


def test_names_and_numbers_that_are_swapped_are_not_found() -> None:
    text = ("Alhambra", "The Alhambra was begun in 1238 by Muhammad I.")
    assert of("Did Muhammad begin the Alhambra in 1238?", text).numbers_found == 1
    swapped = of("Did Yusuf begin the Alhambra in 1338?", text)
    assert (swapped.names_found, swapped.numbers_found) == (0.5, 0)
    assert swapped.title_match == 0.5


def test_a_passage_that_was_not_read_counts_as_the_lowest() -> None:
    found = of("q", ("", "a b"), ("", "c d"), measured=Measured(YES, (None, -3.0)))
    assert (found.best_logit, found.low_logit, found.high_logit) == (-3.0, -3.0, 0.0)
    assert of("q", ("", "a"), measured=Measured(YES, (None,))).best_logit == LOWEST_LOGIT


def test_the_weakest_clause_is_the_best_logit_of_a_question_of_one_part() -> None:
    assert of("q", ("", "a"), measured=Measured(YES, (2.0,))).weakest_clause == 2.0
    assert of("q", ("", "a"), measured=Measured(YES, (2.0,), (5.0, -4.0))).weakest_clause == -4.0


def test_late_interaction_looks_at_the_words_that_carry_content() -> None:
    similar = (("who", 0.1), ("built", 0.9), ("al", 0.8), ("##hambra", 0.4), ("?", 0.0))
    found = of("q", ("", "a"), measured=Measured(YES, (2.0,), similar=similar))
    assert found.late_mean == pytest.approx(0.7)
    assert found.late_low == pytest.approx(0.4)


def test_a_question_is_parted_where_it_asks_two_things() -> None:
    assert clauses("How deep are bulbs planted, and when are roses pruned?") == (
        "How deep are bulbs planted",
        "when are roses pruned?",
    )
    assert clauses("How deep are tulip and rose bulbs planted?") == ()
    assert clauses("How deep  are they\nplanted?\n\nWhen are roses pruned?") == (
        "How deep are they planted",
        "When are roses pruned?",
    )


def test_names_are_runs_of_capitals_without_the_word_that_begins_the_question() -> None:
    assert names("Where did The Duke of York meet Ilse Hahn?") == ("Duke of York", "Ilse Hahn")
    assert names("who built it") == ()


def calibration() -> Calibration:
    return replace(default_calibration(), threshold=0.5)


async def graded(measured: Measured, found: tuple[Passage, ...] = GARDEN[:2]) -> tuple[Verdict, tuple[int, ...], str]:
    async def measure(question: str, passages: tuple[Passage, ...]) -> Measured:
        return measured

    grade = await CalibratedGrader(measure, calibration()).grade("How deep do bulbs go?", found)
    assert grade.p_sufficient is not None
    assert grade.p_error is not None
    assert grade.p_error > 0
    return grade.verdict, grade.relevant, grade.missing or ""


async def test_the_verdict_is_sufficient_from_the_threshold_on_and_then_misses_nothing() -> None:
    assert await graded(Measured(YES, (-9.0, 7.0), similar=(("bulbs", 0.95),))) == (Verdict.SUFFICIENT, (2,), "")


async def test_below_the_threshold_the_reader_says_which_of_the_others() -> None:
    verdict, relevant, missing = await graded(Measured(NO, (-9.0, -9.5)))
    assert (verdict, relevant) == (Verdict.INSUFFICIENT, ())
    assert missing
    verdict, relevant, _ = await graded(Measured(HALF, (-9.0, -9.5)))
    assert (verdict, relevant) == (Verdict.PARTIAL, (1,))


def test_a_passage_that_says_more_than_the_set_speaks_for_it() -> None:
    found = Measured(NO, (2.0, 1.0), alone=((1, HALF), (2, YES)))
    assert found.best_alone == (2, YES)
    assert of("q", ("", "a"), ("", "b"), measured=found).best_lead == YES.lead
    quiet = Measured(YES, (2.0, 1.0), alone=((1, HALF), (2, NO)))
    assert quiet.best_alone is None
    assert of("q", ("", "a"), ("", "b"), measured=quiet).best_lead == YES.lead == quiet.whole.lead


async def test_the_passage_that_convinces_alone_is_relevant_whatever_the_cross_encoder_says() -> None:
    verdict, relevant, missing = await graded(Measured(NO, (-9.0, -9.5), alone=((1, NO), (2, YES))))
    assert (verdict, relevant, missing) == (Verdict.SUFFICIENT, (2,), "")
    verdict, relevant, _ = await graded(Measured(NO, (-9.0, -9.5), alone=((1, NO), (2, HALF))))
    assert (verdict, relevant) == (Verdict.PARTIAL, (2,))


async def test_no_passages_are_insufficient_without_a_look() -> None:
    async def measure(question: str, passages: tuple[Passage, ...]) -> Measured:
        raise AssertionError("nothing to measure")

    grade = await CalibratedGrader(measure, calibration()).grade("q", ())
    assert (grade.verdict, grade.p_sufficient) == (Verdict.INSUFFICIENT, 0.0)


async def test_what_breaks_while_measuring_is_no_verdict() -> None:
    async def measure(question: str, passages: tuple[Passage, ...]) -> Measured:
        raise RuntimeError("the runtime broke")

    with pytest.raises(GraderUnavailable, match="failed on 4 passages"):
        await CalibratedGrader(measure, calibration()).grade("q", GARDEN)


async def test_the_free_grader_tells_on_topic_from_off_topic() -> None:
    grader = ScoreGrader(default_calibration("score"))
    on = await grader.grade("How deep are tulip bulbs planted?", GARDEN)
    off = await grader.grade("Which year was the lighthouse of Alexandria destroyed?", GARDEN)
    assert on.p_sufficient is not None
    assert off.p_sufficient is not None
    assert on.p_sufficient > off.p_sufficient + 0.1
    assert (await grader.grade("q", ())).verdict is Verdict.INSUFFICIENT


async def test_the_local_models_measure_all_there_is() -> None:
    measured = await shared_models().measure("How deep do tulip bulbs go, and when are roses pruned?", GARDEN)
    assert len(measured.logits) == 4
    assert len(measured.clause_logits) == 2
    assert {piece for piece, _ in measured.similar} >= {"deep", "roses"}
    assert all(-1.01 <= value <= 1.01 for _, value in measured.similar)


async def test_local_grades_tell_an_answer_from_a_look_alike() -> None:
    grader = CalibratedGrader(shared_models().measure, default_calibration())
    yes = await grader.grade("How deep do tulip bulbs go?", GARDEN)
    no = await grader.grade("How much do tulip bulbs cost?", GARDEN)
    assert yes.p_sufficient is not None
    assert no.p_sufficient is not None
    assert yes.p_sufficient > 0.7 > 0.4 > no.p_sufficient
    assert 2 in yes.relevant
    assert "cost" in (no.missing or "")


async def test_claims_are_measured_against_every_passage() -> None:
    models = shared_models()
    found = await models.support(["Tulip bulbs go fifteen centimetres deep.", "A spade costs nine pounds."], GARDEN)
    assert found[0].margins.support > found[1].margins.support
    alone = await models.late.similar("Tulip bulbs go deep.", passages("Sheds.")[0].text, Urgency.VERDICT)
    together = await models.late.similar_to_all(["Tulip bulbs go deep."], ["Sheds.", " "], Urgency.VERDICT)
    assert together == [alone]
