"""How well a judge tells sufficient sets from the others: figures by set of cases, with intervals. Pure."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum, isfinite
from typing import Any

from gateway.evaluation.figures import (
    Confusion,
    Interval,
    Scored,
    auc,
    calibration_error,
    confusion,
    error_by_chance,
    intervals,
    share_decided,
    three_way_macro_f1,
)

MEASURES = ("auc", "macro_f1", "f1_not_sufficient", "precision", "recall", "ece", "share_decided_at_95", "cost")
RESAMPLES = 500


@dataclass(frozen=True, slots=True)
class Judged:
    """A case with what was said of it; `verdict` is the judge's own of the three, `label` the labeller's."""

    origin: str
    group: str
    p: float
    label: str
    verdict: str

    @property
    def scored(self) -> Scored:
        return Scored(self.p, self.label == "sufficient", self.group)


@dataclass(frozen=True, slots=True)
class SetFigures:
    """The figures of one set at one threshold; `figures` by the names of MEASURES. `chance` is the calibration error (`ece`) that a judge
    with true probabilities would have on as many cases.
    """

    name: str
    cases: int
    sufficient: int
    figures: Mapping[str, Interval]
    counts: Confusion
    chance: Interval
    verdict_macro_f1: float


@dataclass(frozen=True, slots=True)
class SufficiencyReport:
    """Every set's figures, and their mean over the sets, each weighing the same; `together` are those of all cases as one set."""

    sets: tuple[SetFigures, ...]
    together: SetFigures
    threshold: float
    cost_ratio: float

    def mean(self, measure: str) -> float:
        return fsum(each.figures[measure].value for each in self.sets) / len(self.sets)

    def as_json(self) -> dict[str, Any]:
        """Plain figures (the mean of the sets) on top, the sets with intervals below, then all as one; what is not a number is null."""
        return {
            **{measure: _number(self.mean(measure)) for measure in MEASURES},
            "ece_by_chance": _number(fsum(each.chance.value for each in self.sets) / len(self.sets)),
            "threshold": self.threshold,
            "cost_ratio": self.cost_ratio,
            "cases": sum(each.cases for each in self.sets),
            "sets": {each.name: _set_json(each) for each in self.sets},
            "together": _set_json(self.together),
        }


def report(judged: Sequence[Judged], threshold: float, cost_ratio: float, seed: int) -> SufficiencyReport:
    """The figures of all sets, in the order in which they first come. The same input and seed give the same figures."""
    by_set: dict[str, list[Judged]] = defaultdict(list)
    for each in judged:
        by_set[each.origin].append(each)
    sets = tuple(_figures(name, cases, threshold, cost_ratio, seed) for name, cases in by_set.items())
    together = sets[0] if len(sets) == 1 else _figures("together", list(judged), threshold, cost_ratio, seed)
    return SufficiencyReport(sets, together, threshold, cost_ratio)


def measures(threshold: float, cost_ratio: float) -> dict[str, Callable[[Sequence[Scored]], float]]:
    """What is computed of every set and every bootstrap draw."""
    return {
        "auc": auc,
        "macro_f1": lambda cases: confusion(cases, threshold).macro_f1,
        "f1_not_sufficient": lambda cases: confusion(cases, threshold).f1_of_false,
        "precision": lambda cases: confusion(cases, threshold).precision,
        "recall": lambda cases: confusion(cases, threshold).recall,
        "ece": calibration_error,
        "share_decided_at_95": share_decided,
        "cost": lambda cases: confusion(cases, threshold).cost(cost_ratio),
    }


def _figures(name: str, judged: list[Judged], threshold: float, cost_ratio: float, seed: int) -> SetFigures:
    scored = [each.scored for each in judged]
    return SetFigures(
        name=name,
        cases=len(scored),
        sufficient=sum(each.label for each in scored),
        figures=intervals(scored, measures(threshold, cost_ratio), seed, RESAMPLES),
        counts=confusion(scored, threshold),
        chance=error_by_chance(scored, seed),
        verdict_macro_f1=three_way_macro_f1([(each.label, each.verdict) for each in judged]),
    )


def _set_json(each: SetFigures) -> dict[str, Any]:
    return {
        "cases": each.cases,
        "sufficient": each.sufficient,
        **{measure: _number(found.value) for measure, found in each.figures.items()},
        "ece_by_chance": _number(each.chance.value),
        "verdict_macro_f1": _number(each.verdict_macro_f1),
        "confusion": asdict(each.counts),
        "intervals": {
            measure: [_number(found.low), _number(found.high)] for measure, found in intervals_of(each).items()
        },
    }


def intervals_of(each: SetFigures) -> dict[str, Interval]:
    """Of every measure, and of the calibration error by chance."""
    return {**each.figures, "ece_by_chance": each.chance}


def _number(value: float) -> float | None:
    return round(value, 4) if isfinite(value) else None
