"""What came of many questions, as figures: answered, refused, corrected, recovered; by set and by strategy, with intervals. Pure."""

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, isfinite, nan
from typing import Any

from gateway.evaluation.asking import Told
from gateway.evaluation.figures import Interval, percentile
from streaming.events import Path

RESAMPLES = 1000

Measure = Callable[[Sequence[Told]], float]


def answerable(found: Sequence[Told]) -> list[Told]:
    return [each for each in found if each.answerable]


def unanswerable(found: Sequence[Told]) -> list[Told]:
    return [each for each in found if not each.answerable]


def share(found: Sequence[Told], holds: Callable[[Told], bool | None]) -> float:
    """The share of those of which it is known; NaN of none."""
    known = [value for value in map(holds, found) if value is not None]
    return sum(known) / len(known) if known else nan


def corrected(found: Sequence[Told]) -> list[Told]:
    return [each for each in found if each.strategies]


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values) if values else nan


MEASURES: Mapping[str, Measure] = {
    # Of the questions that the documents answer, and of the others.
    "answerable_answered": lambda found: share(answerable(found), lambda one: one.is_released),
    "unanswerable_released": lambda found: share(unanswerable(found), lambda one: one.is_released),
    "abstention_on_answerable": lambda found: share(answerable(found), lambda one: one.path is Path.REFUSED),
    "abstention_on_unanswerable": lambda found: share(unanswerable(found), lambda one: one.path is Path.REFUSED),
    # Of everything that was released: how much had an answer; where the labels tell, how much says it.
    "released": lambda found: share(found, lambda one: one.is_released),
    "released_answerable": lambda found: share([one for one in found if one.is_released], lambda one: one.answerable),
    "says_the_answer": lambda found: share(
        [one for one in answerable(found) if one.is_released], lambda one: one.says_it
    ),
    # The corrective loop. Recovery counts answerable questions alone: an answer to another one is no recovery.
    "correction_rate": lambda found: share(found, lambda one: bool(one.strategies)),
    "recovery_rate": lambda found: share(corrected(answerable(found)), lambda one: one.is_released),
    "wrongly_recovered": lambda found: share(corrected(unanswerable(found)), lambda one: one.is_released),
    "mean_retries": lambda found: _mean([float(len(one.strategies)) for one in found]),
    "evidence_at_first": lambda found: share(answerable(found), lambda one: one.evidence_first),
    "evidence_at_last": lambda found: share(answerable(found), lambda one: one.evidence_last),
    # What was found.
    "duplicates": lambda found: _ratio(sum(one.repeats for one in found), sum(one.found for one in found)),
    "conflicts": lambda found: share(found, lambda one: one.conflicts > 0),
    "failed": lambda found: share(found, lambda one: one.path is Path.FAILED),
}
"""Every figure by name; shares are 0..1. A figure whose denominator is empty is NaN."""


@dataclass(frozen=True, slots=True)
class StrategyFigures:
    """A correction: the questions it was the last one tried on, and how many of each kind it ended with an answer to."""

    name: str
    answerable: int
    answered: int
    unanswerable: int
    released: int

    @property
    def success(self) -> float:
        """The share of answerable questions answered; NaN of none."""
        return _ratio(self.answered, self.answerable)


@dataclass(frozen=True, slots=True)
class AnswerFigures:
    """The figures of one set, by the names of MEASURES."""

    name: str
    answerable: int
    unanswerable: int
    figures: Mapping[str, Interval]
    strategies: tuple[StrategyFigures, ...]
    refusals: Mapping[str, int]
    p50_ms: float
    p95_ms: float


def answer_figures(found: Sequence[Told], seed: int) -> list[AnswerFigures]:
    """Of each set, in the order in which they first come. The same outcomes and seed give the same figures, times apart."""
    return [
        _figures(name, [one for one in found if one.origin == name], seed)
        for name in dict.fromkeys(one.origin for one in found)
    ]


def answers_json(sets: Sequence[AnswerFigures], seed: int, asked_with: Mapping[str, Any]) -> dict[str, Any]:
    """The mean of the sets on top, every set with intervals below; what is not a number is null."""
    return {
        "kind": "answers",
        **{name: _number(_mean_of([each.figures[name].value for each in sets])) for name in MEASURES},
        "questions": sum(each.answerable + each.unanswerable for each in sets),
        "seed": seed,
        **asked_with,
        "sets": {each.name: _set_json(each) for each in sets},
    }


def _figures(name: str, found: Sequence[Told], seed: int) -> AnswerFigures:
    took_ms = sorted(one.took_ms for one in found)
    reasons = [one.reason or one.path.value for one in found if not one.is_released]
    return AnswerFigures(
        name=name,
        answerable=len(answerable(found)),
        unanswerable=len(unanswerable(found)),
        figures=_intervals(found, seed),
        strategies=_strategies(found),
        refusals={reason: reasons.count(reason) for reason in sorted(set(reasons))},
        p50_ms=percentile(took_ms, 50),
        p95_ms=percentile(took_ms, 95),
    )


def _intervals(found: Sequence[Told], seed: int) -> dict[str, Interval]:
    """Bootstrap over whole groups (a conversation, a question), the same draws for every figure."""
    groups: dict[str, list[Told]] = defaultdict(list)
    for one in found:
        groups[one.group].append(one)
    names = sorted(groups)
    source = random.Random(seed)
    values: dict[str, list[float]] = {name: [] for name in MEASURES}
    for _ in range(RESAMPLES):
        sample = [one for name in source.choices(names, k=len(names)) for one in groups[name]]
        for name, measure in MEASURES.items():
            value = measure(sample)
            if isfinite(value):
                values[name].append(value)
    return {
        name: Interval(measure(found), percentile(sorted(values[name]), 2.5), percentile(sorted(values[name]), 97.5))
        for name, measure in MEASURES.items()
    }


def _strategies(found: Sequence[Told]) -> tuple[StrategyFigures, ...]:
    last: dict[str, list[Told]] = defaultdict(list)
    for one in found:
        if one.strategies:
            last[one.strategies[-1]].append(one)
    return tuple(
        StrategyFigures(
            name,
            len(answerable(tried)),
            sum(one.is_released for one in answerable(tried)),
            len(unanswerable(tried)),
            sum(one.is_released for one in unanswerable(tried)),
        )
        for name, tried in sorted(last.items())
    )


def _set_json(each: AnswerFigures) -> dict[str, Any]:
    return {
        "answerable": each.answerable,
        "unanswerable": each.unanswerable,
        **{name: _number(found.value) for name, found in each.figures.items()},
        "intervals": {name: [_number(found.low), _number(found.high)] for name, found in each.figures.items()},
        "strategies": {
            one.name: {
                "answerable": one.answerable,
                "answered": one.answered,
                "unanswerable": one.unanswerable,
                "released": one.released,
                "success": _number(one.success),
            }
            for one in each.strategies
        },
        "not_answered_because": dict(each.refusals),
        "latency_ms": {"p50": round(each.p50_ms, 1), "p95": round(each.p95_ms, 1)},
    }


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else nan


def _mean_of(values: Sequence[float]) -> float:
    return _mean([value for value in values if isfinite(value)])


def _number(value: float) -> float | None:
    return round(value, 4) if isfinite(value) else None
