"""Figures of a judge against labels: AUC, F1, calibration error, share decided, cost; each with a 95 % interval. Pure.

A case is a `Scored`: the probability the judge gave and the label. All functions take them in any order and give the same figure
for the same cases; the bootstrap draws whole groups (all cases of one question), because cases of one question are not independent.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import nan

BINS = 10
RESAMPLES = 1000
CHANCE_DRAWS = 200
DECIDED_PRECISION = 0.95


@dataclass(frozen=True, slots=True)
class Scored:
    """`p` (0..1) is the judge's probability that the label is true; cases of one `group` belong together."""

    p: float
    label: bool
    group: str


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure and the 2.5th and 97.5th percentile of its bootstrap."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True, slots=True)
class Confusion:
    """Counts at one threshold: `released_wrongly` is what the label calls false and the judge lets through."""

    released: int
    refused_wrongly: int
    released_wrongly: int
    refused: int

    @property
    def precision(self) -> float:
        return _share(self.released, self.released + self.released_wrongly)

    @property
    def recall(self) -> float:
        return _share(self.released, self.released + self.refused_wrongly)

    @property
    def f1(self) -> float:
        return _f1(self.released, self.released_wrongly, self.refused_wrongly)

    @property
    def f1_of_false(self) -> float:
        return _f1(self.refused, self.refused_wrongly, self.released_wrongly)

    @property
    def macro_f1(self) -> float:
        return (self.f1 + self.f1_of_false) / 2

    def cost(self, ratio: float) -> float:
        """Mean cost of a case, in refusals: a wrong release costs `ratio`, a wrong refusal 1."""
        cases = self.released + self.refused_wrongly + self.released_wrongly + self.refused
        return _share(ratio * self.released_wrongly + self.refused_wrongly, cases)


@dataclass(frozen=True, slots=True)
class Bin:
    """Cases of like probability: how many, what was said on average, how many were true."""

    count: int
    said: float
    true: float


def auc(cases: Sequence[Scored]) -> float:
    """The chance that a true case has the higher probability of two, one true and one false; ties count half. NaN without both kinds.

    Method: Mann and Whitney's rank sum.
    """
    ordered = sorted(cases, key=lambda case: case.p)
    positives = sum(case.label for case in ordered)
    negatives = len(ordered) - positives
    if not positives or not negatives:
        return nan
    ranks, place = 0.0, 0
    while place < len(ordered):
        end = place
        while end < len(ordered) and ordered[end].p == ordered[place].p:
            end += 1
        ranks += sum(case.label for case in ordered[place:end]) * (place + 1 + end) / 2
        place = end
    return (ranks - positives * (positives + 1) / 2) / (positives * negatives)


def confusion(cases: Iterable[Scored], threshold: float) -> Confusion:
    """What is released from `threshold` on."""
    counts = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
    for case in cases:
        counts[case.label, case.p >= threshold] += 1
    return Confusion(counts[True, True], counts[True, False], counts[False, True], counts[False, False])


def reliability(cases: Sequence[Scored], bins: int = BINS) -> list[Bin]:
    """Cases in order of probability, in `bins` parts of equal count: each part's mean probability beside its share of true cases."""
    ordered = sorted(cases, key=lambda case: case.p)
    edges = [round(number * len(ordered) / bins) for number in range(bins + 1)]
    parts = [ordered[start:end] for start, end in pairwise(edges) if end > start]
    return [
        Bin(len(part), sum(case.p for case in part) / len(part), sum(case.label for case in part) / len(part))
        for part in parts
    ]


def calibration_error(cases: Sequence[Scored], bins: int = BINS) -> float:
    """Expected calibration error: |said - true| averaged over parts of equal count, each weighing by its cases. NaN without cases.

    Method: Naeini et al. 2015, with equal-count parts (Nguyen and O'Connor 2015). It is biased upwards, the more the fewer cases:
    `error_by_chance` says by how much. Its bootstrap interval is so too, because a draw is noisier than the cases.
    """
    return _share(sum(part.count * abs(part.said - part.true) for part in reliability(cases, bins)), len(cases))


def error_by_chance(cases: Sequence[Scored], seed: int, draws: int = CHANCE_DRAWS) -> Interval:
    """The calibration error of a judge whose every probability is true, on as many cases: the mean of `draws`, and where 95 % of them lie.

    No judge can be expected to have less. Labels are drawn from the probabilities, each case's by itself, which cases of one question
    are not: the true spread is somewhat wider. NaN without cases.
    """
    draw = random.Random(seed)  # figures, not secrets
    found = [
        calibration_error([replace(case, label=draw.random() < case.p) for case in cases])
        for _ in range(draws if cases else 0)
    ]
    return Interval(_share(sum(found), len(found)), percentile(found, 2.5), percentile(found, 97.5))


def share_decided(cases: Sequence[Scored], precision: float = DECIDED_PRECISION) -> float:
    """The largest share of cases, surest first (by distance from .5), of which at least `precision` are decided rightly.

    Cases of equal sureness are decided together. The cut is chosen on the same cases, so the figure is a little optimistic.
    """
    ordered = sorted(cases, key=_sureness, reverse=True)
    right = best = 0
    for place, case in enumerate(ordered, 1):
        right += case.label == (case.p >= 0.5)
        is_edge = place == len(ordered) or _sureness(ordered[place]) < _sureness(case)
        if is_edge and right >= precision * place:
            best = place
    return _share(best, len(ordered))


def intervals(
    cases: Sequence[Scored],
    measures: dict[str, Callable[[Sequence[Scored]], float]],
    seed: int,
    resamples: int = RESAMPLES,
) -> dict[str, Interval]:
    """Each measure of the cases with its 95 % interval; groups are drawn with replacement, the same draws for every measure."""
    groups: dict[str, list[Scored]] = defaultdict(list)
    for case in cases:
        groups[case.group].append(case)
    names = sorted(groups)
    draw = random.Random(seed)  # figures, not secrets
    drawn: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(resamples if names else 0):
        sample = [case for name in draw.choices(names, k=len(names)) for case in groups[name]]
        for name, measure in measures.items():
            value = measure(sample)
            if value == value:  # not NaN: a draw of one kind alone has no AUC
                drawn[name].append(value)
    return {
        name: Interval(measure(cases), percentile(drawn[name], 2.5), percentile(drawn[name], 97.5))
        for name, measure in measures.items()
    }


def three_way_macro_f1(pairs: Sequence[tuple[str, str]]) -> float:
    """The mean F1 over the kinds that the labels hold; a pair is (label, verdict)."""
    kinds = sorted({label for label, _ in pairs})
    scores = [
        _f1(
            sum(label == kind == said for label, said in pairs),
            sum(said == kind != label for label, said in pairs),
            sum(label == kind != said for label, said in pairs),
        )
        for kind in kinds
    ]
    return _share(sum(scores), len(scores))


def _sureness(case: Scored) -> float:
    return abs(case.p - 0.5)


def _f1(hits: int, false_alarms: int, misses: int) -> float:
    return _share(2 * hits, 2 * hits + false_alarms + misses)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else nan


def percentile(values: Sequence[float], percent: float) -> float:
    """Linear between neighbours; NaN of nothing."""
    if not values:
        return nan
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
