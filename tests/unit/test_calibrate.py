"""The fit: what it learns, what it refuses, what it promises about its own figures."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grading.calibrate import (
    Calibration,
    CalibrationInvalid,
    Example,
    TooFewCases,
    band,
    cross_validated,
    default_calibration,
    equal_weights,
    fingerprints,
    fit,
    fold_of,
)
from grading.logistic import sigmoid, solved

NAMES = ("good", "noise")


def made(count: int, seed: int = 1, slope: float = 2.0, origin: str = "a") -> list[Example]:
    """Cases whose probability is sigmoid(slope x good), two of each group."""
    draw = random.Random(seed)
    found = []
    for number in range(count):
        good = draw.gauss(0, 1)
        label = draw.random() < sigmoid(slope * good)
        found.append(Example((good, draw.gauss(0, 1)), label, f"{origin}{number // 2}", origin))
    return found


def test_the_probability_is_the_one_by_which_the_cases_were_drawn() -> None:
    model = fit(made(3000), NAMES, ridge=0.1)
    for good in (-1.5, -0.5, 0.0, 0.5, 1.5):
        assert model.estimate((good, 0.0)).p == pytest.approx(sigmoid(2 * good), abs=0.05)
    assert abs(model.weights[1]) < abs(model.weights[0]) / 10


def test_the_same_cases_give_the_same_model_to_the_last_digit() -> None:
    assert fit(made(200), NAMES, seed=3).to_json() == fit(made(200), NAMES, seed=3).to_json()


def test_the_stated_error_shrinks_with_the_cases_and_covers_the_truth() -> None:
    few, many = fit(made(100), NAMES), fit(made(3000), NAMES)
    point = (1.0, 0.0)
    assert many.estimate(point).error < few.estimate(point).error / 2
    assert abs(many.estimate(point).p - sigmoid(2.0)) < 3 * many.estimate(point).error + 0.01


def test_a_signal_that_may_only_speak_for_a_set_never_speaks_against_it() -> None:
    against = [replace(each, sufficient=not each.sufficient) for each in made(400)]
    free, bound = fit(against, NAMES), fit(against, NAMES, rising=("good",))
    assert free.weights[0] < 0
    assert bound.weights[0] == 0
    assert bound.estimate((-3.0, 0.0)).p == bound.estimate((3.0, 0.0)).p


def test_beyond_what_was_seen_nothing_counts_for_more() -> None:
    model = fit(made(400), NAMES)
    assert model.estimate((1e9, 0.0)) == model.estimate((model.highs[0], 0.0))
    assert model.estimate((1e9, 0.0)).p < 1


def test_each_set_weighs_the_same_whatever_its_size() -> None:
    weights = equal_weights([*made(30, origin="small"), *made(270, origin="large")])
    assert sum(weights[:30]) == pytest.approx(sum(weights[30:]))
    assert sum(weights) == pytest.approx(300)


def test_out_of_fold_no_case_is_judged_by_a_model_that_saw_its_group() -> None:
    """Labels that only the group could tell are not told."""
    draw = random.Random(5)
    groups = {f"g{n}": draw.random() < 0.5 for n in range(150)}
    cases = [Example((float(hash_of(name)),), label, name) for name, label in groups.items() for _ in range(4)]
    held_out = cross_validated(cases, ("name",))
    right = sum((p >= 0.5) == case.sufficient for p, case in zip(held_out, cases, strict=True)) / len(cases)
    assert right < 0.65


def hash_of(name: str) -> int:
    return int(name[1:]) * 7919 % 101


def test_folds_hang_on_the_name_of_a_group_alone() -> None:
    assert fold_of("squad2:1") == fold_of("squad2:1")
    counts = [sum(fold_of(f"q{n}") == fold for n in range(2000)) for fold in range(5)]
    assert min(counts) > 300


def test_outside_the_band_the_cases_are_decided_rightly() -> None:
    cases = made(2000, slope=3.0)
    model = fit(cases, NAMES)
    assert 0 < model.low < model.threshold <= model.high < 1
    fresh = [(model.estimate(each.values).p, each.sufficient) for each in made(4000, seed=9, slope=3.0)]
    above = [label for p, label in fresh if p >= model.high]
    below = [label for p, label in fresh if p < model.low]
    assert sum(above) / len(above) > 0.92
    assert sum(below) / len(below) < 0.08


def test_a_band_without_a_sure_end_is_everything() -> None:
    assert band([0.1, 0.9] * 100, [True, True, False, False] * 50, [1.0] * 200) == (0.0, 1.0)


def test_the_threshold_follows_from_the_price_of_junk() -> None:
    model = fit(made(200), NAMES, cost_ratio=5)
    assert model.threshold == pytest.approx(5 / 6)
    assert model.at_cost(1).threshold == pytest.approx(0.5)
    assert model.at_cost(1).low <= 0.5 <= model.at_cost(1).high


@pytest.mark.parametrize("cases", [[], made(1), [replace(each, sufficient=True) for each in made(50)]])
def test_too_few_cases_are_refused_by_name(cases: list[Example]) -> None:
    with pytest.raises(TooFewCases, match="labelled cases"):
        fit(cases, NAMES)


def test_a_constant_signal_does_no_harm() -> None:
    cases = [replace(each, values=(each.values[0], 7.0)) for each in made(200)]
    assert fit(cases, NAMES).estimate((1.0, 7.0)).p > 0.5


def test_what_is_written_is_read_back() -> None:
    model = fit(made(100), NAMES, data="made", made="2026-11-29")
    again = Calibration.from_json(model.to_json())
    assert again == model
    assert again.version == model.version


def test_the_version_changes_with_what_changes_a_verdict_and_with_nothing_else() -> None:
    model = fit(made(100), NAMES)
    assert replace(model, data="others", made="2030-01-01").version == model.version
    assert model.at_cost(2).version != model.version


@pytest.mark.parametrize(
    "change",
    [
        ("{", ""),
        ('"format": 1', '"format": 99'),
        ('"weights": [', '"weights": [1.0, '),
        ('"threshold": 0.8', '"threshold": 7.8'),
        ('"constant": ', '"constant": NaN, "x": '),
        ('"names"', '"nouns"'),
    ],
)
def test_a_file_that_is_no_calibration_is_refused(change: tuple[str, str]) -> None:
    text = fit(made(100), NAMES).to_json()
    broken = text.replace(*change, 1)
    assert broken != text
    with pytest.raises(CalibrationInvalid):
        Calibration.from_json(broken)


def test_cases_that_a_model_was_fitted_on_are_known_again() -> None:
    model = replace(fit(made(100), NAMES), fitted_on=fingerprints(f"case {n}" for n in range(5000)))
    assert len(model.fitted_on) <= 400
    assert model.was_fitted_on(f"case {n}" for n in range(4000, 4200))
    assert not model.was_fitted_on(f"other {n}" for n in range(5000))


@pytest.mark.parametrize("grader", ["calibrated", "score"])
def test_the_shipped_models_can_be_read_and_say_what_they_were_made_of(grader: str) -> None:
    model = default_calibration(grader)
    assert "squad2" in model.data or "same sets" in model.data
    assert model.cost_ratio == 5
    assert model.cases > 1000


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-50, 50), min_size=3, max_size=3), st.floats(0.5, 20))
def test_a_linear_system_is_solved(wanted: list[float], diagonal: float) -> None:
    matrix = [[diagonal + 1, 0.5, 0.2], [0.5, diagonal + 2, 0.1], [0.2, 0.1, diagonal + 3]]
    right = [sum(a * b for a, b in zip(line, wanted, strict=True)) for line in matrix]
    assert solved(matrix, right) == pytest.approx(wanted, abs=1e-6)


def test_more_of_the_good_signal_is_never_less_probable() -> None:
    model = fit(made(300), NAMES, rising=("good",))
    ladder = [model.estimate((good / 4, 0.0)).p for good in range(-16, 17)]
    assert all(low <= high for low, high in pairwise(ladder))


def test_a_model_moved_to_another_share_of_sufficient_sets_moves_the_odds_alone() -> None:
    model = fit(made(200), NAMES)
    served = model.where_sufficient(0.8, 0.5)
    for good in (-2.0, 0.0, 1.5):
        before, after = model.estimate((good, 0.0)).p, served.estimate((good, 0.0)).p
        assert after / (1 - after) == pytest.approx(4 * before / (1 - before))
    assert served.threshold == model.threshold
    assert served.low <= served.threshold <= served.high
    assert served.version != model.version
    assert model.where_sufficient(0.5, 0.5).estimate((1.0, 0.0)) == model.estimate((1.0, 0.0))
    assert Calibration.from_json(served.to_json()) == served
