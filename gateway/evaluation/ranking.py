"""Figures of a ranking against the passages that were marked as evidence: recall, MRR, nDCG; each with a 95 % interval. Pure."""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, log2

from gateway.evaluation.figures import Interval

DEPTH = 10
MEASURES = ("recall_at_5", "recall_at_10", "recall_at_20", "mrr_at_10", "ndcg_at_10", "all_evidence_at_10")
RESAMPLES = 1000


def ranked_figures(found: Sequence[str], evidence: Sequence[str]) -> dict[str, float]:
    """The figures of one question (each 0..1), by the names of MEASURES. `found` is best first; `evidence` is not empty.

    nDCG with gains of 0 and 1 and the logarithmic discount of Järvelin and Kekäläinen (2002).
    """
    wanted = set(evidence)
    places = [place for place, name in enumerate(found[:DEPTH]) if name in wanted]
    gain = fsum(1 / log2(place + 2) for place in places)
    best = fsum(1 / log2(place + 2) for place in range(min(DEPTH, len(wanted))))
    return {
        **{f"recall_at_{depth}": len(wanted & set(found[:depth])) / len(wanted) for depth in (5, 10, 20)},
        "mrr_at_10": 1 / (places[0] + 1) if places else 0.0,
        "ndcg_at_10": gain / best,
        "all_evidence_at_10": float(len(places) == len(wanted)),
    }


@dataclass(frozen=True, slots=True)
class Measured:
    """One question's figures; questions of one `group` (a conversation) are drawn together."""

    group: str
    figures: Mapping[str, float]


def mean_intervals(questions: Sequence[Measured], seed: int) -> dict[str, Interval]:
    """The mean of each figure with the 2.5th and 97.5th percentile of a bootstrap over whole groups. The same for the same input."""
    by_group: dict[str, list[Measured]] = defaultdict(list)
    for each in questions:
        by_group[each.group].append(each)
    groups = [by_group[name] for name in sorted(by_group)]
    sums = [{measure: fsum(each.figures[measure] for each in group) for measure in MEASURES} for group in groups]
    draws = _draws(len(groups), seed)
    counts = [sum(len(groups[place]) for place in draw) for draw in draws]
    return {measure: _interval([each[measure] for each in sums], len(questions), draws, counts) for measure in MEASURES}


def _draws(size: int, seed: int) -> list[list[int]]:
    source = random.Random(seed)
    return [source.choices(range(size), k=size) for _ in range(RESAMPLES)]


def _interval(sums: list[float], total: int, draws: list[list[int]], counts: list[int]) -> Interval:
    means = sorted(fsum(sums[place] for place in draw) / count for draw, count in zip(draws, counts, strict=True))
    return Interval(fsum(sums) / total, means[round(0.025 * (RESAMPLES - 1))], means[round(0.975 * (RESAMPLES - 1))])


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of `values` lie (nearest rank); 0 without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))] if ordered else 0.0
