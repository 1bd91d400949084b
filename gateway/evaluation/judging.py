"""From measured cases to judged ones: by the shipped calibration, by one in a file, or out of fold by one fitted on the cases."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.evaluation.cases import Case
from gateway.evaluation.sufficiency import Judged
from gateway.providers.local.judgement import Reading
from grading.calibrate import Calibration, Example, cross_validated
from grading.evidence import piece
from grading.grade import Verdict
from grading.score import FREE_SIGNALS, measured_freely
from grading.signals import ALL_SIGNALS, EVIDENCE_SIGNALS, Margins, Measured, signals

MANY_CASES = 1000
# Signals that may only speak for a set: more of it never makes a set worse.
RISING_SIGNALS = frozenset({*EVIDENCE_SIGNALS, *FREE_SIGNALS})


@dataclass(frozen=True, slots=True)
class Seen:
    """A case with what the models said of it (None: an empty set)."""

    case: Case
    measured: Measured | None


def seen(cases: Sequence[Case], measured: Sequence[Measured | None]) -> list[Seen]:
    return [Seen(*each) for each in zip(cases, measured, strict=True)]


def freely(cases: Sequence[Case]) -> list[Seen]:
    """The cases with what is known of them without a model."""
    return [Seen(case, measured_freely(case.passages) if case.passages else None) for case in cases]


def examples(found: Sequence[Seen], names: Sequence[str]) -> list[Example]:
    """What a fit learns from: the cases whose set is not empty."""
    return [
        Example(_values(each.case, each.measured, names), each.case.sufficient, each.case.group, each.case.origin)
        for each in found
        if each.measured is not None
    ]


def judged_by(calibration: Calibration, found: Sequence[Seen]) -> list[Judged]:
    """What the calibration says; an empty set is insufficient."""
    probabilities = [
        0.0 if each.measured is None else calibration.estimate(_values(each.case, each.measured, calibration.names)).p
        for each in found
    ]
    return _judged(found, probabilities, calibration.threshold)


def signals_for(cases: Sequence[Case], grader: str) -> tuple[str, ...]:
    """What a fit on these cases weighs: fewer signals for fewer cases, what kind of set it is only where there are several."""
    if grader == "score":
        return FREE_SIGNALS
    is_broad = len(cases) >= MANY_CASES and len({case.origin for case in cases}) > 1
    return ALL_SIGNALS if is_broad else EVIDENCE_SIGNALS


def judged_out_of_fold(found: Sequence[Seen], names: Sequence[str], threshold: float) -> list[Judged]:
    """What models over the signals called `names` say, each fitted on the other questions of these very cases."""
    held_out = iter(cross_validated(examples(found, names), names, rising=RISING_SIGNALS))
    probabilities = [0.0 if each.measured is None else next(held_out) for each in found]
    return _judged(found, probabilities, threshold)


def judged_by_reader(found: Sequence[Seen], threshold: float) -> list[Judged]:
    """What the reader alone says, by its own curve."""
    probabilities = [0.0 if each.measured is None else reading_of(each.measured.whole).p_sufficient for each in found]
    return _judged(found, probabilities, threshold)


def reading_of(margins: Margins) -> Reading:
    return Reading(
        margins.relevance,
        margins.insufficient,
        margins.partial,
        margins.sufficient,
        margins.support,
        margins.span,
    )


def _judged(found: Sequence[Seen], probabilities: Sequence[float], threshold: float) -> list[Judged]:
    return [
        Judged(each.case.origin, each.case.group, p, each.case.verdict.value, _verdict(each, p, threshold).value)
        for each, p in zip(found, probabilities, strict=True)
    ]


def _verdict(each: Seen, p: float, threshold: float) -> Verdict:
    if p >= threshold:
        return Verdict.SUFFICIENT
    whole = None if each.measured is None else each.measured.whole
    return Verdict.PARTIAL if whole is not None and whole.partial > whole.insufficient else Verdict.INSUFFICIENT


def _values(case: Case, measured: Measured, names: Sequence[str]) -> tuple[float, ...]:
    pieces = [piece(each.title, each.text) for each in case.passages]
    return signals(case.question, pieces, measured).values(names)
