"""How well unsupported answers are told from supported ones: a model of support fitted and judged out of fold, and its figures. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any

from gateway.evaluation.answered import Answered
from gateway.evaluation.figures import (
    Confusion,
    Interval,
    Scored,
    auc,
    calibration_error,
    confusion,
    intervals,
    share_decided,
)
from grading.calibrate import Example, TooFewCases, cross_validated, fingerprints, fit, fold_of
from grading.logistic import logit
from grading.support import (
    ANSWER_SIGNALS,
    CLAIM_SIGNALS,
    ClaimMeasured,
    Source,
    SupportModel,
    answer_values,
    claim_values,
)

FOLDS = 5
RESAMPLES = 500
RIDGE = 4.0
FEWEST = 2  # questions of each kind; see grading.calibrate.check_enough


@dataclass(frozen=True, slots=True)
class Valued:
    """A judged answer with the signals of its claims."""

    case: Answered
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Verified:
    """A judged answer with what was said of it: the probability that it is unsupported, and the threshold that this follows from."""

    case: Answered
    p_unsupported: float
    threshold: float

    @property
    def scored(self) -> Scored:
        return Scored(self.p_unsupported, not self.case.supported, self.case.group)


def check_enough(cases: Sequence[Answered], *, in_folds: bool) -> None:
    """Returns when a model of support can be fitted on these answers, `in_folds` also when any fold of the questions is held out.

    Needed are two questions with a supported and two with an unsupported answer, and as many with such claims. Raises TooFewCases.
    """
    held_out = {fold_of(each.group, FOLDS) for each in cases} if in_folds else {-1}
    for fold in held_out:
        left = [each for each in cases if not in_folds or fold_of(each.group, FOLDS) != fold]
        if any(min(_questions(left, kind), len(_marked(left, kind))) < FEWEST for kind in (True, False)):
            supported, unsupported = (sum(each.supported is kind for each in cases) for kind in (True, False))
            raise TooFewCases(
                f"{len(cases)} judged answers are too few to fit on: {supported} supported (questions: {_questions(cases, True)}), "
                f"{unsupported} unsupported (questions: {_questions(cases, False)}, with the unsupported part known: "
                f"{len(_marked(cases, False))}). At least {FEWEST} questions of each of these kinds are needed"
                + (f", also when any of {FOLDS} folds of the questions is held out" if in_folds else "")
            )


def _questions(cases: Sequence[Answered], supported: bool) -> int:
    return len({each.group for each in cases if each.supported is supported})


def _marked(cases: Sequence[Answered], supported: bool) -> set[str]:
    """The questions to which a claim is known to be supported (or not)."""
    return {each.group for each in cases if supported in each.labels()}


def valued(case: Answered, measured: Sequence[ClaimMeasured]) -> Valued:
    source = Source(case.question, [each.text for each in case.passages])
    texts = case.texts()
    values = [
        claim_values(text, number, len(texts), source, found)
        for number, (text, found) in enumerate(zip(texts, measured, strict=True))
    ]
    return Valued(case, tuple(values))


def out_of_fold(found: Sequence[Valued]) -> list[Verified]:
    """Each answer judged by models that saw no answer to its question.

    Within the other folds the claims are scored out of fold too, so that the model of answers learns from such scores as it will be
    given; its threshold is the one of the best F1 of unsupported there.
    """
    judged: dict[int, Verified] = {}
    for fold in range(FOLDS):
        seen = [each for each in found if fold_of(each.case.group, FOLDS) != fold]
        held_out = [place for place, each in enumerate(found) if fold_of(each.case.group, FOLDS) == fold]
        if not held_out:
            continue
        model = fitted(seen)
        for place in held_out:
            judged[place] = verified(model, found[place])
    return [judged[place] for place in range(len(found))]


def fitted(found: Sequence[Valued], *, data: str = "", made: str = "") -> SupportModel:
    """The model of all these answers. Raises TooFewCases."""
    labelled = [
        (each, place, label) for each in found for place, label in enumerate(each.case.labels()) if label is not None
    ]
    examples = [
        Example(each.values[place], label, each.case.group, each.case.origin) for each, place, label in labelled
    ]
    claim = fit(examples, CLAIM_SIGNALS, ridge=RIDGE, data=data, made=made)
    known = {
        (id(each), place): p
        for (each, place, _), p in zip(labelled, cross_validated(examples, CLAIM_SIGNALS, ridge=RIDGE), strict=True)
    }
    answers = [
        Example(
            answer_values(
                [logit(known.get((id(each), place)) or claim.estimate(row).p) for place, row in enumerate(each.values)]
            ),
            each.case.supported,
            each.case.group,
            each.case.origin,
        )
        for each in found
    ]
    answer = fit(answers, ANSWER_SIGNALS, rising=ANSWER_SIGNALS, data=data, made=made)
    held_out = cross_validated(answers, ANSWER_SIGNALS, rising=ANSWER_SIGNALS)
    threshold = best_threshold([(p, each.sufficient) for p, each in zip(held_out, answers, strict=True)])
    known_by = fingerprints(each.case.id for each in found)
    return SupportModel(claim, replace(answer.at_threshold(threshold), fitted_on=known_by))


def verified(model: SupportModel, found: Valued) -> Verified:
    p = model.answer_p([model.claim_p(values) for values in found.values])
    return Verified(found.case, 1 - p, 1 - model.answer.threshold)


def best_threshold(judged: Sequence[tuple[float, bool]]) -> float:
    """The probability of support below which calling an answer unsupported has the best F1."""
    ordered = sorted(judged)
    wanted = sum(not supported for _, supported in ordered)
    best, hits, cut = 0.0, 0, 0.5
    for place, (p, supported) in enumerate(ordered, 1):
        hits += not supported
        score = 2 * hits / (place + wanted)
        if score > best:
            following = ordered[place][0] if place < len(ordered) else 1.0
            best, cut = score, (p + following) / 2
    return cut


@dataclass(frozen=True, slots=True)
class GroundingFigures:
    """The figures of one set of answers; `f1_unsupported` at the thresholds that the folds chose."""

    name: str
    answers: int
    unsupported: int
    figures: dict[str, Interval]
    counts: Confusion

    def as_json(self) -> dict[str, Any]:
        return {
            "answers": self.answers,
            "unsupported": self.unsupported,
            **{name: _number(found.value) for name, found in self.figures.items()},
            "confusion": asdict(self.counts),
            "intervals": {name: [_number(found.low), _number(found.high)] for name, found in self.figures.items()},
        }


def grounding_figures(judged: Sequence[Verified], seed: int) -> list[GroundingFigures]:
    """Of each set, in the order in which they first come. A case is positive when it is unsupported."""
    return [_figures(name, [each for each in judged if each.case.origin == name], seed) for name in _origins(judged)]


def _figures(name: str, judged: Sequence[Verified], seed: int) -> GroundingFigures:
    probabilities = [each.scored for each in judged]
    # Each fold has its own threshold: what is compared is how far beyond it a case lies.
    decisions = [
        Scored(float(each.p_unsupported >= each.threshold), not each.case.supported, each.case.group) for each in judged
    ]
    found = intervals(
        probabilities, {"auc": auc, "ece": calibration_error, "share_decided_at_95": share_decided}, seed, RESAMPLES
    )
    found |= intervals(
        decisions,
        {
            "f1_unsupported": lambda cases: confusion(cases, 0.5).f1,
            "precision": lambda cases: confusion(cases, 0.5).precision,
            "recall": lambda cases: confusion(cases, 0.5).recall,
            "macro_f1": lambda cases: confusion(cases, 0.5).macro_f1,
        },
        seed,
        RESAMPLES,
    )
    return GroundingFigures(
        name, len(judged), sum(each.label for each in probabilities), found, confusion(decisions, 0.5)
    )


def _origins(judged: Sequence[Verified]) -> list[str]:
    return list(dict.fromkeys(each.case.origin for each in judged))


def _number(value: float) -> float | None:
    return round(value, 4) if isfinite(value) else None
