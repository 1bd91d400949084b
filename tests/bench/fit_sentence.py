"""Fits the local verifier's judgement of single sentences on judged answers, and says what it is worth out of fold.

    python -m tests.bench.fit_sentence ../shared/data --cache /tmp/claims.jsonl --write grading/calibrations/sentence.json

Sentences come one by one while an answer streams, so what is known only of a whole answer (how many there are, which one this is) is no
signal here. Every set weighs the same. The threshold is the one of least cost on `ragtruth_qa`, the one set whose sentences are marked one
by one in answers as models write them: an unsupported sentence let through costs as much as five supported ones stopped.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import anyio

from gateway.evaluation.answer_measuring import measure_answers
from gateway.evaluation.answered import Answered, read_answers
from gateway.evaluation.figures import Scored, auc
from gateway.evaluation.grounding import RIDGE, Valued
from gateway.providers.local.verifier import picked
from grading.calibrate import COST_RATIO, Calibration, Example, cross_validated, fingerprints, fit

SETS = ("ragtruth_qa", "attribution", "wice", "mtrag_cloud", "mtrag_govt", "mtrag_wiki", "mtrag_fiqa")
NATURAL = "ragtruth_qa"
# Each may only speak for a sentence: without that late_mean, in company with support, speaks against it, and a sentence on another subject
# altogether is believed. So bound, lead, the covers and late interaction have no weight left beside these.
SIGNALS = ("support", "sentence_cover", "-numbers_new", "-names_new", "-words_new")
STEPS = [step / 100 for step in range(20, 96)]

Judged = list[tuple[float, bool]]


def examples(found: Sequence[Valued]) -> list[Example]:
    return [
        Example(picked(SIGNALS, row), label, each.case.group, each.case.origin)
        for each in found
        for row, label in zip(each.values, each.case.labels(), strict=True)
        if label is not None
    ]


def cost(judged: Judged, threshold: float) -> float:
    """Of letting unsupported sentences through and of stopping supported ones, for each sentence."""
    let_through = sum(p >= threshold and not supported for p, supported in judged)
    stopped = sum(p < threshold and supported for p, supported in judged)
    return (COST_RATIO * let_through + stopped) / len(judged)


def figures(judged: Judged, threshold: float) -> dict[str, float]:
    """AUC of unsupported; the shares of unsupported sentences that are caught and of supported ones that are stopped."""
    supported = [p for p, is_supported in judged if is_supported]
    unsupported = [p for p, is_supported in judged if not is_supported]
    told = {"stopped": sum(p < threshold for p in supported) / max(1, len(supported))}
    if unsupported:
        told["auc"] = auc([Scored(1 - p, not is_supported, str(n)) for n, (p, is_supported) in enumerate(judged)])
        told["caught"] = sum(p < threshold for p in unsupported) / len(unsupported)
    return {name: round(value, 3) for name, value in told.items()}


def fitted(found: Sequence[Valued]) -> Calibration:
    labelled = examples(found)
    by_set: dict[str, Judged] = {}
    for p, each in zip(cross_validated(labelled, SIGNALS, rising=SIGNALS, ridge=RIDGE), labelled, strict=True):
        by_set.setdefault(each.origin, []).append((p, each.sufficient))
    threshold = min(STEPS, key=lambda step: cost(by_set[NATURAL], step))
    counts = ", ".join(f"{name} {len(judged)}" for name, judged in by_set.items())
    data = (
        f"sentences of judged answers: {counts}; figures out of fold by question, but the reader has learnt on a part of attribution and "
        f"wice; threshold by cost on {NATURAL}"
    )
    model = fit(labelled, SIGNALS, rising=SIGNALS, ridge=RIDGE, data=data, made=datetime.now(UTC).date().isoformat())
    told = {
        f"{name}.{figure}": value
        for name, judged in by_set.items()
        for figure, value in figures(judged, threshold).items()
    }
    return replace(model.at_threshold(threshold), figures=told, fitted_on=fingerprints(each.case.id for each in found))


def known(cases: Sequence[Answered], only_measured: Path | None) -> list[Answered]:
    """The cases that a memory holds, where one alone is to be used."""
    if only_measured is None:
        return list(cases)
    from gateway.evaluation.answer_measuring import ClaimMemory

    memory = ClaimMemory(only_measured)
    return [case for case in cases if memory.get(case) is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, default=None, help="a file that remembers what was measured")
    parser.add_argument("--measured-only", action="store_true", help="use the answers in the cache alone")
    parser.add_argument("--write", type=Path, default=None)
    asked = parser.parse_args()
    cases = [case for name in SETS for case in read_answers([asked.data / name])]
    model = fitted(anyio.run(measure_answers, known(cases, asked.cache if asked.measured_only else None), asked.cache))
    print(model.data)
    print(f"threshold {model.threshold}")
    for name, value in model.figures.items():
        print(f"{name:24} {value:.3f}")
    if asked.write is not None:
        asked.write.write_text(model.to_json(), encoding="utf-8")


if __name__ == "__main__":
    main()
