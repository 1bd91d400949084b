"""Logistic regression with a ridge, in plain numbers: the maximum, one step towards it, and what it is made of. Pure.

Method: Newton's, iteratively reweighted least squares (Hastie et al., The Elements of Statistical Learning, 4.4.1).
"""

from collections.abc import Sequence
from math import exp, fsum, log, sqrt

NEWTON_STEPS = 25
CONVERGED = 1e-8

Vector = list[float]
Matrix = list[Vector]


def sigmoid(value: float) -> float:
    return 1 / (1 + exp(-value)) if value >= 0 else exp(value) / (1 + exp(value))


def logit(p: float) -> float:
    kept = min(max(p, 1e-9), 1 - 1e-9)
    return log(kept / (1 - kept))


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    return fsum(x * y for x, y in zip(a, b, strict=True))


def standardised(
    values: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    means: Sequence[float],
    scales: Sequence[float],
) -> Vector:
    """In standard deviations from the mean, cut to the range that was seen: no weight is trusted beyond what it was fitted on."""
    return [
        (min(max(value, low), high) - mean) / scale
        for value, low, high, mean, scale in zip(values, lows, highs, means, scales, strict=True)
    ]


def maximum(rows: Matrix, labels: Vector, weights: Vector, found: Vector, ridge: float) -> Vector:
    for _ in range(NEWTON_STEPS):
        step = newton(rows, labels, weights, found, ridge)
        found = [a + b for a, b in zip(found, step, strict=True)]
        if max(map(abs, step)) < CONVERGED:
            break
    return found


def newton(rows: Matrix, labels: Vector, weights: Vector, found: Vector, ridge: float) -> Vector:
    """The next step: (X'WX + ridge)^-1 (X'(y - p) - ridge b). The constant is not penalised."""
    size = len(found)
    slope = [0.0] * size
    bend = [[0.0] * size for _ in range(size)]
    for row, label, weight in zip(rows, labels, weights, strict=True):
        p = sigmoid(sum(map(_times, row, found)))
        off, sharp = weight * (label - p), weight * max(p * (1 - p), 1e-6)
        for i, value in enumerate(row):
            slope[i] += off * value
            scaled = sharp * value
            line = bend[i]
            for j in range(i + 1):
                line[j] += scaled * row[j]
    for i in range(size):
        for j in range(i):
            bend[j][i] = bend[i][j]
        if i:
            bend[i][i] += ridge
            slope[i] -= ridge * found[i]
    return solved(bend, slope)


def _times(a: float, b: float) -> float:
    return a * b


def solved(matrix: Matrix, right: Vector) -> Vector:
    """x of matrix x = right, for a symmetric positive matrix, by Cholesky; a direction without any information stays at 0."""
    size = len(right)
    root = [[0.0] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            rest = matrix[i][j] - sum(root[i][k] * root[j][k] for k in range(j))
            root[i][j] = sqrt(max(rest, 1e-12)) if i == j else rest / root[j][j]
    half: Vector = []
    for i in range(size):
        half.append((right[i] - sum(root[i][k] * half[k] for k in range(i))) / root[i][i])
    found = [0.0] * size
    for i in reversed(range(size)):
        found[i] = (half[i] - sum(root[k][i] * found[k] for k in range(i + 1, size))) / root[i][i]
    return found
