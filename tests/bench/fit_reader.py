"""Fits the constants of gateway/providers/local/judgement.py on the labelled development sets. Run by hand, after reader_features.py:

    PYTHONPATH=. .venv/bin/python tests/bench/fit_reader.py features.jsonl

Prints, for several choices of signals, the area under the curve of `sufficient` against the rest, out of fold (5 folds by
question), then what the reader's margin alone releases at the thresholds of several cost ratios, out of fold and with each
set left out of the fit, and the constants. Each set weighs the same.

The reader was tuned on a part of these questions, which the files do not mark, so every set but rgb_en flatters it. rgb_en is
only looked at, never fitted on: its licence forbids commercial use, and it shows what to expect on documents of another kind.
"""

import json
import math
import sys
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway.providers.local.judgement import JUNK_COST, Reading

Array = NDArray[np.float64]
Case = dict[str, Any]
FOLDS = 5
RIDGE = 1.0  # on standardised signals; nothing printed moves between 0.1 and 10
NO_SECOND = -11.0  # the cross-encoder's lowest logit, for sets of one passage
CHOICES: dict[str, tuple[str, ...]] = {
    "margin": ("margin",),
    "cross-encoder": ("best",),
    "cover": ("cover",),
    "margin, span, cross": ("margin", "span", "best"),
    "all": ("margin", "partial", "insufficient", "span", "relevance", "best", "second", "cover"),
}
CHOSEN = CHOICES["margin"]
VERDICTS = ("sufficient", "partial", "insufficient")
LOOKED_AT = "rgb"
COSTS = (2.0, 3.0, JUNK_COST)


def loaded(path: Path) -> list[Case]:
    return [with_signals(json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def with_signals(case: Case) -> Case:
    """The case with its named signals; the four mtrag sets count as one."""
    reading = Reading(**case["reader"])
    best, second, *_ = [*sorted(case["logits"], reverse=True), NO_SECOND]
    signals = {**case["reader"], "margin": reading.margin, "best": best, "second": second, "cover": case["cover"]}
    return {**case, "set": case["set"].split("_")[0], "signals": signals}


def matrix(cases: list[Case], names: tuple[str, ...]) -> Array:
    return np.array([[case["signals"][name] for name in names] for case in cases])


def fitted(x: Array, y: Array, weight: Array) -> Array:
    """Weights (the constant last) of a ridge logistic regression, by Newton's method."""
    mean, scale = x.mean(0), x.std(0) + 1e-9
    design = np.hstack([(x - mean) / scale, np.ones((len(x), 1))])
    ridge = np.diag([RIDGE] * x.shape[1] + [0.0])
    beta = np.zeros(design.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-design @ beta))
        gradient = design.T @ (weight * (y - p)) - ridge @ beta
        hessian = (design * (weight * p * (1 - p))[:, None]).T @ design + ridge
        beta += np.linalg.solve(hessian, gradient)
    slopes = beta[:-1] / scale
    return np.append(slopes, beta[-1] - slopes @ mean)


def predicted(cases: list[Case], names: tuple[str, ...], parts: NDArray[Any]) -> Array:
    """p(sufficient) of every case, fitted on the cases of all other parts."""
    x, y, weight = matrix(cases, names), labels(cases), weights(cases)
    p = np.zeros(len(cases))
    usable = np.array([case["set"] != LOOKED_AT for case in cases])
    for part in np.unique(parts):
        others = (parts != part) & usable
        beta = fitted(x[others], y[others], weight[others])
        p[parts == part] = 1 / (1 + np.exp(-(x[parts == part] @ beta[:-1] + beta[-1])))
    return p


def folds(cases: list[Case]) -> NDArray[Any]:
    return np.array([int(sha256(case["question_id"].encode()).hexdigest(), 16) % FOLDS for case in cases])


def labels(cases: list[Case]) -> Array:
    return np.array([float(case["verdict"] == "sufficient") for case in cases])


def weights(cases: list[Case]) -> Array:
    """Each set weighs the same, whatever its size; their mean is 1."""
    sizes = Counter(case["set"] for case in cases)
    return np.array([len(cases) / len(sizes) / sizes[case["set"]] for case in cases])


def area(scores: Array, y: Array) -> float:
    """The chance that a sufficient set scores above another one (ties count half)."""
    difference = scores[y == 1][:, None] - scores[y == 0][None, :]
    return float((difference > 0).mean() + 0.5 * (difference == 0).mean())


def row(name: str, values: list[float]) -> str:
    return f"{name:26}" + "".join(f"{value:10.2f}" for value in values)


def decisions(cases: list[Case], p: Array, where: dict[str, NDArray[Any]], cost: float) -> None:
    """What is released when an answer on junk costs `cost` refusals, by set and label."""
    verdicts, released = np.array([case["verdict"] for case in cases]), p >= cost / (1 + cost)
    print(f"cost {cost:g}, released at p >= {cost / (1 + cost):.3f}")
    for verdict in VERDICTS:
        of_label = [released[mask & (verdicts == verdict)] for mask in where.values()]
        print(row(f"  of {verdict}", [float(each.mean()) if len(each) else math.nan for each in of_label]))
    junk = [verdicts[mask & released] != "sufficient" for mask in where.values()]
    print(row("  junk among released", [float(each.mean()) if len(each) else math.nan for each in junk]))


def passages(cases: list[Case]) -> None:
    """How the cross-encoder's logit tells evidence from the other passages of the same cases."""
    print("\npassages: share with a logit of at least ...")
    named = [case for case in cases if case["evidence"] and any(case["evidence"])]
    for kind in (True, False):
        logits = np.array(
            [
                logit
                for case in named
                for logit, told in zip(case["logits"], case["evidence"], strict=True)
                if told is kind
            ]
        )
        shares = {at: round(float((logits >= at).mean()), 2) for at in (-8, -6, -5, -4, -3, -2, 0, 2)}
        print(f"{'evidence' if kind else 'other':10}{len(logits):6} {shares}")


def main(path: Path) -> None:
    cases = loaded(path)
    y, of_set = labels(cases), np.array([case["set"] for case in cases])
    where = {name: of_set == name for name in sorted(set(of_set))}
    print(f"{len(cases)} cases\n{'AUC, out of fold':26}" + "".join(f"{name:>10}" for name in where))
    for choice, names in CHOICES.items():
        p = predicted(cases, names, folds(cases))
        print(row(choice, [area(p[mask], y[mask]) for mask in where.values()]))
    for title, parts in (("5 folds by question", folds(cases)), ("each set left out of the fit", of_set)):
        p = predicted(cases, CHOSEN, parts)
        print(f"\nthe margin alone, {title}")
        print(row("Brier score", [float(((p[mask] - y[mask]) ** 2).mean()) for mask in where.values()]))
        for cost in COSTS:
            decisions(cases, p, where, cost)
    used = [case for case in cases if case["set"] != LOOKED_AT]
    weight, constant = fitted(matrix(used, CHOSEN), labels(used), weights(used))
    print(f"\nMARGIN_WEIGHT = {weight:.2f}\nMARGIN_CONSTANT = {constant:.2f}")
    passages(cases)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
