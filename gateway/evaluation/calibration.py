"""`gateway calibrate`: labelled cases in, a calibration out, with what it is worth on questions it has not seen."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from gateway.destination import write
from gateway.evaluation.cases import Case, read_cases
from gateway.evaluation.figures import Bin, reliability
from gateway.evaluation.judging import RISING_SIGNALS, examples, freely, judged_out_of_fold, signals_for
from gateway.evaluation.measuring import measure_cases
from gateway.evaluation.picture import png_curve, terminal_curve
from gateway.evaluation.shown import sufficiency_table
from gateway.evaluation.sufficiency import Judged, SufficiencyReport, report
from gateway.settings import Settings
from grading.calibrate import COST_RATIO, Calibration, Example, check_enough, fingerprints, fit

Fitted = Literal["calibrated", "score"]


@dataclass(frozen=True, slots=True)
class Fit:
    """A calibration, and what models like it said of the cases they had not seen."""

    calibration: Calibration
    held_out: list[Judged]

    def report(self, seed: int) -> SufficiencyReport:
        return report(self.held_out, self.calibration.threshold, self.calibration.cost_ratio, seed)

    def curve(self) -> list[Bin]:
        """What was said against what was true."""
        return reliability([each.scored for each in self.held_out])


async def fitted(
    paths: Sequence[Path], *, grader: Fitted, cost_ratio: float = COST_RATIO, cache: Path | None = None, seed: int = 0
) -> Fit:
    """The model of all cases in the files. Raises LabelsUnreadable, MemoryUnusable, LocalModelMissing or TooFewCases."""
    cases = read_cases(paths)
    check_enough([Example((), case.sufficient, case.group) for case in cases if case.passages])
    found = freely(cases) if grader == "score" else await measure_cases(cases, cache)
    names = signals_for(cases, grader)
    model = fit(
        examples(found, names),
        names,
        rising=RISING_SIGNALS,
        cost_ratio=cost_ratio,
        data=described(cases),
        made=datetime.now(UTC).date().isoformat(),
        seed=seed,
    )
    model = replace(model, fitted_on=fingerprints(case.id for case in cases))
    held_out = judged_out_of_fold(found, names, model.threshold)
    return Fit(with_figures(model, held_out, seed), held_out)


def described(cases: Sequence[Case]) -> str:
    """What a calibration was fitted on, in words."""
    origins = dict.fromkeys(case.origin for case in cases)
    counts = [f"{origin} ({sum(case.origin == origin for case in cases)} cases)" for origin in origins]
    return ", ".join(counts)


def with_figures(model: Calibration, held_out: Sequence[Judged], seed: int) -> Calibration:
    found = report(held_out, model.threshold, model.cost_ratio, seed)
    names = ("auc", "macro_f1", "f1_not_sufficient", "ece", "share_decided_at_95", "cost")
    return replace(model, figures={name: round(found.mean(name), 4) for name in names})


def shown(found: Fit, seed: int) -> str:
    """For people: figures, confusion matrix, reliability curve and threshold."""
    model = found.calibration
    return (
        f"{sufficiency_table(found.report(seed), 'out of fold')}\n\n"
        f"Reliability, out of fold:\n{terminal_curve(found.curve())}\n\n"
        f"Threshold: sufficient from p = {model.threshold:.3f} on: an answer on junk costs as much as {model.cost_ratio:g} refusals.\n"
        f"Borderline band of a cascade: {model.low:.3f} to {model.high:.3f}; outside it 95 % are decided rightly.\n"
        f"Version {model.version}, fitted on {model.data}."
    )


def as_json(found: Fit, grader: Fitted, seed: int) -> dict[str, Any]:
    """For programs: the same, with the borderline band as `low` and `high`."""
    model = found.calibration
    return {
        "kind": "calibration",
        "grader": grader,
        "mode": "out of fold",
        "calibration": model.version,
        "fitted_on": model.data,
        "low": model.low,
        "high": model.high,
        **found.report(seed).as_json(),
        "reliability": [
            {"count": part.count, "said": round(part.said, 4), "true": round(part.true, 4)} for part in found.curve()
        ],
    }


async def store(settings: Settings, model: Calibration, collection: str, grader: Fitted) -> None:
    """Keeps the calibration with its collection. Raises RetrievalUnavailable or what a database that cannot start raises."""
    from gateway.evaluation.calibrations import PostgresCalibrations
    from gateway.wiring import database_url
    from retrieval.pool import open_pool
    from retrieval.schema import migrate

    async with database_url(settings) as url:
        await migrate(url)
        async with open_pool(url, size=1) as pool:
            await PostgresCalibrations(pool).save(model, collection, grader=grader)


async def calibrate(
    settings: Settings,
    paths: Sequence[Path],
    options: "Options",
) -> Calibration:
    """Fits, shows on standard output, writes and stores, as the options say. Raises also CannotBeWritten."""
    if options.from_log:
        from gateway.evaluation.logged_calibration import fitted_from_log

        found = await fitted_from_log(settings, options)
    else:
        found = await fitted(
            paths, grader=options.grader, cost_ratio=options.cost_ratio, cache=options.cache, seed=options.seed
        )
    print(json.dumps(as_json(found, options.grader, options.seed)) if options.as_json else shown(found, options.seed))
    if options.picture is not None:
        write(options.picture, png_curve(found.curve()))
        note(f"Picture: {options.picture}")
    if options.out is not None:
        write(options.out, found.calibration.to_json())
        note(f"Written to {options.out}")
    if options.store:
        await store(settings, found.calibration, options.collection, options.grader)
        note(f"Stored for the collection {options.collection}; a server uses it from its next start on")
    return found.calibration


@dataclass(frozen=True, slots=True)
class Options:
    """Of the command, as given."""

    grader: Fitted = "calibrated"
    collection: str = "default"
    cost_ratio: float = COST_RATIO
    out: Path | None = None
    store: bool = False
    picture: Path | None = None
    cache: Path | None = None
    seed: int = 0
    from_log: bool = False
    as_json: bool = False


Paths = Annotated[
    list[Path] | None, typer.Argument(help="Labelled JSON Lines files, or folders that hold a sufficiency.jsonl.")
]
FromLog = Annotated[
    bool,
    typer.Option("--from-log", help="Fit on the verdicts that servers logged for the collection, instead of files."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Grader = Annotated[Fitted, typer.Option(help="Which grader to fit: over all local models, or over free scores alone.")]
Collection = Annotated[str, typer.Option(help="Whose calibration it is, with --store.")]
Cost = Annotated[float, typer.Option(help="How many refusals one answer on junk costs.", min=0.01)]
Out = Annotated[Path | None, typer.Option(help="Write the calibration here, as JSON.")]
Store = Annotated[bool, typer.Option("--store", help="Keep it in the database, for the collection.")]
Picture = Annotated[Path | None, typer.Option(help="Write the reliability curve here, as a PNG.")]
Cache = Annotated[Path | None, typer.Option(help="Remember what the models measured here, for the next fit.")]
Seed = Annotated[int, typer.Option(help="Of the bootstrap that gives the intervals and the stated error.")]


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
