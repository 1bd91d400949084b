"""Figures of a ranking, against figures worked out by hand."""

from math import log2

import pytest

from gateway.evaluation.ranking import MEASURES, Measured, mean_intervals, percentile, ranked_figures


def test_a_perfect_ranking_has_every_figure_at_one() -> None:
    assert ranked_figures(["a", "b", "x"], ["b", "a"]) == dict.fromkeys(MEASURES, 1.0)


def test_a_ranking_without_evidence_has_every_figure_at_nought() -> None:
    assert ranked_figures(["x", "y"], ["a"]) == dict.fromkeys(MEASURES, 0.0)
    assert ranked_figures([], ["a"]) == dict.fromkeys(MEASURES, 0.0)


def test_figures_by_hand() -> None:
    found = ["x", "a", "x2", "x3", "x4", "b", *(f"y{n}" for n in range(6)), "c"]
    figures = ranked_figures(found, ["a", "b", "c"])
    assert figures["recall_at_5"] == pytest.approx(1 / 3)
    assert figures["recall_at_10"] == pytest.approx(2 / 3)
    assert figures["recall_at_20"] == 1
    assert figures["mrr_at_10"] == 0.5
    ideal = 1 + 1 / log2(3) + 1 / log2(4)
    assert figures["ndcg_at_10"] == pytest.approx((1 / log2(3) + 1 / log2(7)) / ideal)
    assert figures["all_evidence_at_10"] == 0


def measured(group: str, value: float) -> Measured:
    return Measured(group, dict.fromkeys(MEASURES, value))


def test_the_interval_holds_the_mean_and_is_the_same_each_time() -> None:
    questions = [measured(f"g{n}", n % 2) for n in range(60)]
    found = mean_intervals(questions, seed=1)["ndcg_at_10"]
    assert found.low < found.value == 0.5 < found.high
    assert found == mean_intervals(list(reversed(questions)), seed=1)["ndcg_at_10"]


def test_questions_of_one_conversation_are_drawn_together() -> None:
    """Ten conversations of six like questions say less than sixty of one: the interval must be wider."""
    together = mean_intervals([measured(f"g{n // 6}", n // 6 % 2) for n in range(60)], seed=1)["ndcg_at_10"]
    apart = mean_intervals([measured(f"g{n}", n % 2) for n in range(60)], seed=1)["ndcg_at_10"]
    assert together.high - together.low > 1.5 * (apart.high - apart.low)


@pytest.mark.parametrize(
    ("values", "share", "expected"), [([], 0.5, 0), ([7], 0.95, 7), ([3, 1, 2], 0.5, 2), (range(101), 0.95, 95)]
)
def test_percentiles(values: list[float], share: float, expected: float) -> None:
    assert percentile(values, share) == expected
