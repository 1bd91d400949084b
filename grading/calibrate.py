"""From signals to a probability with a stated error: a logistic model fitted on labelled cases. Pure, and the same for the same input.

Method: ridge-penalised logistic regression on standardised signals, fitted by Newton's method (iteratively reweighted least squares,
Hastie et al., The Elements of Statistical Learning, 4.4.1); every set of cases weighs the same, whatever its size. A signal that says
"better" must not make a set worse: one whose weight comes out negative is left out, and the rest fitted anew. No signal counts for more
than it did in the cases: beyond their 2nd and 98th percentile it is cut. The logistic link is its own calibration (Platt 1999). The
error of a probability comes from the covariance of the weights over bootstrap draws of whole questions (one Newton step from the fit for
each draw), by the delta method.
"""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from importlib.resources import files
from math import fsum, isfinite, sqrt
from typing import Any

from grading.logistic import Vector, dot, logit, maximum, newton, sigmoid, standardised
from retrieval.faults import GatewayFault

FORMAT = 1
# In cases: as strong as this many cases that say nothing about a weight. Chosen by the log loss of cases held out, over fits on 40 to 280
# cases of each development set: at 40 it is .437 (with 4: .457), at 280 and above the same. A stronger one leaves few labels too timid.
RIDGE = 1.0
BOOTSTRAP_DRAWS = 40
EDGE = 0.02
FOLDS = 5
BAND_PRECISION = 0.95
MOST_FINGERPRINTS = 400
FEWEST_BEYOND_BAND = 20  # cases; a cut that rests on fewer is luck
COST_RATIO = 5.0  # an answer released on junk costs as much as refusing five that are supported


class CalibrationInvalid(GatewayFault):
    """Raised when a stored calibration cannot be read: not JSON, another format, a field missing or out of bounds."""

    type = "calibration_invalid"


class TooFewCases(GatewayFault):
    """Raised when there is nothing to fit: fewer than two groups with a sufficient and two with a not sufficient case."""

    type = "too_few_cases"


@dataclass(frozen=True, slots=True)
class Example:
    """One labelled case. `group` (the question) is never parted between folds; each `origin` (the set) weighs the same in a fit."""

    values: tuple[float, ...]
    sufficient: bool
    group: str
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A probability and its standard error (both 0..1) as far as the number of labelled cases explains it."""

    p: float
    error: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fitted model; `names` are signals in the order of `weights`.

    From `threshold` on a set is sufficient, where no other judge follows; `low` <= p < `high` is the borderline band, which a cascade
    hands to the next judge. `data` says in words what it was fitted on, `made` the day (ISO 8601).
    """

    names: tuple[str, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    constant: float
    covariance: tuple[tuple[float, ...], ...]  # of (constant, *weights)
    threshold: float
    low: float
    high: float
    cost_ratio: float = COST_RATIO
    cases: int = 0
    data: str = ""
    made: str = ""
    fitted_on: tuple[str, ...] = ()  # fingerprints of some of the cases, by which `was_fitted_on` knows them
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """Twelve hex digits that change with anything that changes a verdict."""
        told = {**asdict(self), "figures": None, "data": None, "made": None, "fitted_on": None}
        return sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]

    def estimate(self, values: Sequence[float]) -> Estimate:
        """The probability that the set is sufficient; `values` are the signals called `names`, in their order."""
        row = [1.0, *standardised(values, self.lows, self.highs, self.means, self.scales)]
        p = sigmoid(dot(row, [self.constant, *self.weights]))
        spread = dot(row, [dot(line, row) for line in self.covariance])
        return Estimate(p, p * (1 - p) * sqrt(max(spread, 0.0)))

    def at_cost(self, cost_ratio: float) -> "Calibration":
        """The same model at another price of an answer on junk."""
        return replace(self.at_threshold(cost_ratio / (1 + cost_ratio)), cost_ratio=cost_ratio)

    def at_threshold(self, threshold: float) -> "Calibration":
        """The same model with another threshold, and its band widened to hold it."""
        return replace(self, threshold=threshold, low=min(self.low, threshold), high=max(self.high, threshold))

    def where_sufficient(self, share: float, fitted: float) -> "Calibration":
        """The same model for a service in which `share` of the sets are sufficient, not `fitted` as in the cases of the fit.

        Every probability moves by the ratio of the odds; the threshold stays. Method: Saerens, Latinne and Decaestecker 2002.
        """
        moved = logit(share) - logit(fitted)
        low, high = (each if each in (0.0, 1.0) else sigmoid(logit(each) + moved) for each in (self.low, self.high))
        shifted = replace(self, constant=self.constant + moved, low=low, high=high)
        return shifted.at_threshold(self.threshold)

    def was_fitted_on(self, ids: Iterable[str]) -> bool:
        """Whether any of these cases is known to be one that this model was fitted on; of a set of many at least one is."""
        known = frozenset(self.fitted_on)
        return any(fingerprint(each) in known for each in ids)

    def to_json(self) -> str:
        return json.dumps(self.to_json_object(), indent=1) + "\n"

    def to_json_object(self) -> dict[str, Any]:
        """Everything, with the format and the version."""
        return {"format": FORMAT, "version": self.version, **asdict(self)}

    @classmethod
    def from_json(cls, text: str) -> "Calibration":
        """Raises CalibrationInvalid, also where the figures do not fit together."""
        try:
            value = json.loads(text)
            if value.pop("format") != FORMAT:
                raise CalibrationInvalid("the calibration has another format; fit it again with `gateway calibrate`")
            value.pop("version", None)
            found = cls(**{name: _frozen(each) for name, each in value.items()})
            _check(found)
        except json.JSONDecodeError as error:
            raise CalibrationInvalid("this is no calibration: it is not JSON") from error
        except (TypeError, KeyError, AttributeError) as error:
            raise CalibrationInvalid("this is no calibration: it has other fields") from error
        return found


def fit(
    examples: Sequence[Example],
    names: Sequence[str],
    *,
    rising: Collection[str] = (),
    ridge: float = RIDGE,
    cost_ratio: float = COST_RATIO,
    data: str = "",
    made: str = "",
    seed: int = 0,
) -> Calibration:
    """The model of all examples. Its threshold follows from the cost ratio, its band from out-of-fold probabilities.

    `rising` are the signals that may only speak for a set. Raises TooFewCases.
    """
    check_enough(examples)
    model = _model(examples, _rising(names, rising), ridge)
    held_out = cross_validated(examples, names, rising=rising, ridge=ridge)
    low, high = band(held_out, [each.sufficient for each in examples], equal_weights(examples))
    threshold = cost_ratio / (1 + cost_ratio)
    return Calibration(
        names=tuple(names),
        lows=model.lows,
        highs=model.highs,
        means=model.means,
        scales=model.scales,
        weights=tuple(model.weights[1:]),
        constant=model.weights[0],
        covariance=_covariance(model, examples, ridge, seed),
        threshold=threshold,
        low=min(low, threshold),
        high=max(high, threshold),
        cost_ratio=cost_ratio,
        cases=len(examples),
        data=data,
        made=made,
    )


def cross_validated(
    examples: Sequence[Example],
    names: Sequence[str],
    *,
    rising: Collection[str] = (),
    ridge: float = RIDGE,
    folds: int = FOLDS,
) -> list[float]:
    """For each example the probability by a model that saw no case of its group, in order."""
    found = [0.5] * len(examples)
    places = [fold_of(each.group, folds) for each in examples]
    for fold in range(folds):
        seen = [each for each, place in zip(examples, places, strict=True) if place != fold]
        if len({each.sufficient for each in seen}) < 2:
            continue
        model = _model(seen, _rising(names, rising), ridge)
        for place, each in enumerate(examples):
            if places[place] == fold:
                found[place] = sigmoid(dot(model.row(each.values), model.weights))
    return found


def fold_of(group: str, folds: int = FOLDS) -> int:
    """The fold of a group: by its name alone, so that it is the same in every run and in every file."""
    return int.from_bytes(sha256(group.encode()).digest()[:4], "big") % folds


def band(
    probabilities: Sequence[float], labels: Sequence[bool], weights: Sequence[float], precision: float = BAND_PRECISION
) -> tuple[float, float]:
    """(low, high): below `low` and from `high` on at least `precision` of the cases, by weight, are decided rightly.

    1.0 for `high` (0.0 for `low`) where no cut that 20 cases rest on is that sure.
    """
    ordered = sorted(zip(probabilities, labels, weights, strict=True), key=lambda each: each[0])
    low = _sure([(p, not label, weight) for p, label, weight in ordered], precision)
    high = _sure([(p, label, weight) for p, label, weight in reversed(ordered)], precision)
    return (0.0 if low is None else low, 1.0 if high is None else high)


def _rising(names: Sequence[str], rising: Collection[str]) -> list[bool]:
    return [name in rising for name in names]


def check_enough(examples: Sequence[Example]) -> None:
    """Returns when a model can be fitted on these. Raises TooFewCases, which counts them."""
    groups: dict[bool, set[str]] = {True: set(), False: set()}
    for each in examples:
        groups[each.sufficient].add(each.group)
    if min(len(found) for found in groups.values()) < 2:
        sufficient = sum(each.sufficient for each in examples)
        raise TooFewCases(
            f"{len(examples)} labelled cases are too few to fit on: {sufficient} sufficient (questions: {len(groups[True])}), "
            f"{len(examples) - sufficient} not sufficient (questions: {len(groups[False])}). At least two questions of each kind are needed"
        )


def equal_weights(examples: Sequence[Example]) -> Vector:
    """A weight for each example, 1 on average, by which every origin counts the same."""
    counts = Counter(each.origin for each in examples)
    return [len(examples) / (len(counts) * counts[each.origin]) for each in examples]


def fingerprint(case_id: str) -> str:
    return sha256(case_id.encode()).hexdigest()[:8]


def fingerprints(ids: Iterable[str], most: int = MOST_FINGERPRINTS) -> tuple[str, ...]:
    """Of all cases, or of `most` of them spread evenly."""
    found = sorted({fingerprint(each) for each in ids})
    return tuple(found[:: max(1, -(-len(found) // most))])


def default_calibration(grader: str = "calibrated") -> Calibration:
    """The one that ships with this package, for `calibrated` or `score`. How it was made is in its `data`."""
    file = files("grading").joinpath("calibrations").joinpath(f"{grader}.json")
    return Calibration.from_json(file.read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class _Model:
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: Vector  # the constant first

    def row(self, values: Sequence[float]) -> Vector:
        return [1.0, *standardised(values, self.lows, self.highs, self.means, self.scales)]


def _model(examples: Sequence[Example], rising: Sequence[bool], ridge: float) -> _Model:
    weights = equal_weights(examples)
    blank = _unfitted([each.values for each in examples], weights, len(rising))
    rows = [blank.row(each.values) for each in examples]
    labels = [float(each.sufficient) for each in examples]
    kept = list(range(len(rising) + 1))
    found = [0.0] * len(kept)
    while True:
        found = maximum([[row[i] for i in kept] for row in rows], labels, weights, found, ridge)
        falling = [(value, i) for value, i in zip(found, kept, strict=True) if i and rising[i - 1] and value < 0]
        if not falling:
            break
        worst = kept.index(min(falling)[1])
        kept.pop(worst)
        found.pop(worst)
    fitted = dict(zip(kept, found, strict=True))
    return replace(blank, weights=[fitted.get(i, 0.0) for i in range(len(rising) + 1)])


def _unfitted(values: Sequence[tuple[float, ...]], weights: Vector, size: int) -> _Model:
    columns = [sorted(column) for column in zip(*values, strict=True)] or [[0.0]] * size
    edges = [(_at(column, EDGE), _at(column, 1 - EDGE)) for column in columns]
    lows, highs = tuple(low for low, _ in edges), tuple(high for _, high in edges)
    total = fsum(weights)
    cut = [[min(max(row[i], lows[i]), highs[i]) for row in values] for i in range(size)]
    means = tuple(dot(column, weights) / total for column in cut)
    scales = tuple(
        sqrt(dot([(value - mean) ** 2 for value in column], weights) / total) or 1.0
        for column, mean in zip(cut, means, strict=True)
    )
    return _Model(lows, highs, means, scales, [0.0] * (size + 1))


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[round(share * (len(ordered) - 1))]


def _covariance(model: _Model, examples: Sequence[Example], ridge: float, seed: int) -> tuple[tuple[float, ...], ...]:
    """Of the weights over bootstrap draws of whole groups, each one Newton step away from the fit; of a signal left out 0."""
    kept = [i for i, weight in enumerate(model.weights) if not i or weight]
    groups: dict[str, list[int]] = defaultdict(list)
    for place, each in enumerate(examples):
        groups[each.group].append(place)
    named = sorted(groups)
    rows = [[row[i] for i in kept] for row in (model.row(each.values) for each in examples)]
    found = [model.weights[i] for i in kept]
    labels = [float(each.sufficient) for each in examples]
    weights = equal_weights(examples)
    random_draw = random.Random(seed)
    steps = []
    for _ in range(BOOTSTRAP_DRAWS):
        times = Counter(place for name in random_draw.choices(named, k=len(named)) for place in groups[name])
        drawn = sorted(times)
        steps.append(
            newton(
                [rows[i] for i in drawn],
                [labels[i] for i in drawn],
                [weights[i] * times[i] for i in drawn],
                found,
                ridge,
            )
        )
    centre = [fsum(column) / len(steps) for column in zip(*steps, strict=True)]

    def together(i: int, j: int) -> float:
        return fsum((step[i] - centre[i]) * (step[j] - centre[j]) for step in steps) / (len(steps) - 1)

    places = [kept.index(i) if i in kept else None for i in range(len(model.weights))]
    return tuple(tuple(0.0 if i is None or j is None else together(i, j) for j in places) for i in places)


def _sure(ordered: Sequence[tuple[float, bool, float]], precision: float) -> float | None:
    """The last probability, surest first, up to which the weighted share of right cases is at least `precision`."""
    right = total = 0.0
    cut = None
    for count, (p, is_right, weight) in enumerate(ordered, 1):
        right += weight * is_right
        total += weight
        if count >= FEWEST_BEYOND_BAND and right >= precision * total:
            cut = p
    return cut


def _frozen(value: Any) -> Any:
    return tuple(_frozen(each) for each in value) if isinstance(value, list) else value


def _check(found: Calibration) -> None:
    size = len(found.names)
    lines = (found.lows, found.highs, found.means, found.scales, found.weights)
    numbers = [found.constant, found.threshold, found.low, found.high, *(each for line in lines for each in line)]
    if any(len(line) != size for line in lines) or len(found.covariance) != size + 1:
        raise CalibrationInvalid("the calibration has more signals than weights, or fewer")
    if any(len(line) != size + 1 for line in found.covariance) or not all(isfinite(each) for each in numbers):
        raise CalibrationInvalid("the calibration holds figures that are no finite numbers, or too few")
    if not 0 <= found.low <= found.threshold <= found.high <= 1 or min(found.scales, default=1.0) <= 0:
        raise CalibrationInvalid("the calibration's threshold lies outside its band, or a scale is not positive")
