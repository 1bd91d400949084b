"""`gateway eval`: a figure on standard output for a person or (--json) a program; what goes on meanwhile on standard error."""

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from gateway.destination import write
from gateway.evaluation.answer_measuring import measure_answers
from gateway.evaluation.answered import read_answers
from gateway.evaluation.bars import png_bars
from gateway.evaluation.cases import read_cases
from gateway.evaluation.figures import reliability
from gateway.evaluation.grounding import Verified, check_enough, fitted, grounding_figures, out_of_fold, verified
from gateway.evaluation.judging import Seen, freely, judged_by, judged_by_reader, judged_out_of_fold, signals_for
from gateway.evaluation.measuring import measure_cases
from gateway.evaluation.picture import png_curve
from gateway.evaluation.searching import RERANK_TOP, measured, pictured, shown
from gateway.evaluation.shown import grounding_json, grounding_table, sufficiency_table
from gateway.evaluation.sufficiency import Judged, SufficiencyReport, report
from grading.calibrate import Calibration, CalibrationInvalid, default_calibration
from grading.support import SupportModel

T = TypeVar("T")

OUT_OF_FOLD = "out of fold (refitted on these cases, by question and passages)"

evaluation = typer.Typer(
    name="eval",
    help="Measure against labelled files: figures with 95 % intervals. Same inputs, same figures.",
    no_args_is_help=True,
)

Paths = Annotated[list[Path], typer.Argument(help="Labelled JSON Lines files, or folders that hold them.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Seed = Annotated[int, typer.Option(help="Of the bootstrap that gives the intervals.")]
Cache = Annotated[
    Path | None, typer.Option(help="Remember what the models measured here; measured once, fitted and evaluated often.")
]
Picture = Annotated[Path | None, typer.Option(help="Also draw the figures: a PNG, written here.")]
Judge = Literal["calibrated", "reader", "score"]


@evaluation.command(
    epilog="Examples: `gateway eval sufficiency labelled.jsonl`, `gateway eval sufficiency data/squad2 --cross-validate --json`"
)
def sufficiency(
    paths: Paths,
    as_json: AsJson = False,
    seed: Seed = 0,
    grader: Annotated[Judge, typer.Option(help="Which local judge.")] = "calibrated",
    calibration: Annotated[
        Path | None, typer.Option(help="A calibration made by `gateway calibrate --out`; default: the shipped one.")
    ] = None,
    cross_validate: Annotated[
        bool | None,
        typer.Option(
            "--cross-validate/--as-fitted",
            help="Refit on these very cases, each judged by a model that saw no case of its question or passages. "
            "Default: only where the calibration was fitted on the same file.",
        ),
    ] = None,
    cost_ratio: Annotated[
        float | None, typer.Option(help="How many refusals one answer on junk costs; sets the threshold.", min=0.01)
    ] = None,
    cache: Cache = None,
    picture: Picture = None,
) -> None:
    """How well the judge tells a sufficient set of passages from the others."""
    from gateway.cli import files_or_exit, run_or_exit

    files_or_exit(cache, picture)
    outcome = run_or_exit(partial(_sufficiency, paths, grader, calibration, cross_validate, cost_ratio, seed, cache))
    draw(picture, lambda: png_curve(reliability([each.scored for each in outcome.judged])))
    if as_json:
        print(json.dumps(outcome.as_json()))
    else:
        print(sufficiency_table(outcome.report, outcome.mode))


@evaluation.command(
    epilog="Examples: `gateway eval retrieval data/multihop`, `gateway eval retrieval data/mtrag_* --rerank 0 --json`"
)
def retrieval(
    folders: Annotated[list[Path], typer.Argument(help="Folders that hold corpus.jsonl and questions.jsonl.")],
    as_json: AsJson = False,
    seed: Seed = 0,
    rerank: Annotated[
        int,
        typer.Option(help="How many of the best the local cross-encoder reads again, as a strategy of its own.", min=0),
    ] = RERANK_TOP,
    picture: Picture = None,
) -> None:
    """How well each way to search finds the evidence. The corpus becomes a collection of the database, embedded once."""
    from gateway.cli import files_or_exit, run_or_exit, settings_or_exit

    settings = settings_or_exit()
    files_or_exit(picture)
    reports = run_or_exit(partial(measured, settings, folders, seed, rerank))
    draw(picture, lambda: png_bars(pictured(reports)))
    print(shown(reports, as_json))


@evaluation.command(
    epilog="Examples: `gateway eval grounding judged.jsonl`, `gateway eval grounding data/ragtruth_qa --json --cache m.jsonl`"
)
def grounding(
    paths: Paths,
    as_json: AsJson = False,
    seed: Seed = 0,
    model: Annotated[
        Path | None,
        typer.Option(help="A model of support written by --fit; default: refit on these very answers, by question."),
    ] = None,
    fit_to: Annotated[
        Path | None,
        typer.Option("--fit", help="Also fit a model of support on all of these answers, and write it here."),
    ] = None,
    cache: Cache = None,
    picture: Picture = None,
) -> None:
    """How well answers that their passages do not support are told from those that they do."""
    from gateway.cli import files_or_exit, run_or_exit

    files_or_exit(cache, fit_to, picture)
    judged, mode = run_or_exit(partial(_grounding, paths, model, fit_to, cache))
    figures = grounding_figures(judged, seed)
    draw(picture, lambda: png_curve(reliability([each.scored for each in judged])))
    if as_json:
        print(json.dumps({"kind": "grounding", "mode": mode, **grounding_json(figures)}))
    else:
        print(grounding_table(figures, mode))


@evaluation.command(
    epilog="Examples: `gateway eval answers data/squad2 --questions 300`, "
    "`gateway eval answers questions.jsonl --collection handbook --json`"
)
def answers(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Folders that hold corpus.jsonl and questions.jsonl; with --collection files of questions alone."
        ),
    ],
    as_json: AsJson = False,
    questions: Annotated[
        int | None,
        typer.Option(help="Ask so many of each set, half of them unanswerable as far as there are.", min=1),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the draw of --questions, and of the bootstrap.")] = 0,
    collection: Annotated[
        str | None, typer.Option(help="Ask this stored collection instead of the corpus beside the questions.")
    ] = None,
    picture: Picture = None,
) -> None:
    """How the whole loop does, as a server would run it: what is answered, refused, corrected and recovered.

    The corpus becomes a collection of the database, embedded once. Nothing is remembered: no cache, no coverage gaps.
    """
    from gateway.cli import files_or_exit, run_or_exit, settings_or_exit
    from gateway.evaluation.answers import Wanted, table
    from gateway.evaluation.answers import measured as asked

    settings = settings_or_exit()
    files_or_exit(picture)
    report = run_or_exit(partial(asked, settings, Wanted(tuple(paths), questions, seed, collection)))
    draw(picture, lambda: png_bars(report.groups()))
    print(json.dumps(report.as_json()) if as_json else table(report))


async def _grounding(
    paths: Sequence[Path], file: Path | None, fit_to: Path | None, cache: Path | None
) -> tuple[list[Verified], str]:
    model = None if file is None else _read(file, SupportModel.from_json)
    cases = read_answers(paths)
    refit = model is None or model.answer.was_fitted_on(case.id for case in cases)
    if fit_to is not None or refit:
        check_enough(cases, in_folds=refit)
    found = await measure_answers(cases, cache)
    if fit_to is not None:
        write(fit_to, fitted(found).to_json())
        note(f"Written to {fit_to}")
    if model is None or refit:
        return out_of_fold(found), "out of fold (refitted on these answers, by question)"
    return [verified(model, each) for each in found], "as fitted"


class Outcome:
    """A report, what it is made of, and how it came about."""

    def __init__(
        self, found: SufficiencyReport, judged: Sequence[Judged], mode: str, grader: str, calibration: Calibration
    ) -> None:
        self.report, self.judged, self.mode, self.grader, self.calibration = found, judged, mode, grader, calibration

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": "sufficiency",
            "grader": self.grader,
            "mode": self.mode,
            "calibration": self.calibration.version,
            **self.report.as_json(),
        }


async def _sufficiency(
    paths: Sequence[Path],
    grader: Judge,
    file: Path | None,
    cross_validate: bool | None,
    cost_ratio: float | None,
    seed: int,
    cache: Path | None,
) -> Outcome:
    cases = read_cases(paths)
    chosen = (
        read_calibration(file)
        if file is not None
        else default_calibration("score" if grader == "score" else "calibrated")
    )
    if cost_ratio is not None:
        chosen = chosen.at_cost(cost_ratio)
    found = freely(cases) if grader == "score" else await measure_cases(cases, cache)
    refit = chosen.was_fitted_on(case.id for case in cases) if cross_validate is None else cross_validate
    judged, mode = _judge(grader, chosen, found, refit)
    return Outcome(report(judged, chosen.threshold, chosen.cost_ratio, seed), judged, mode, grader, chosen)


def _judge(grader: Judge, chosen: Calibration, found: Sequence[Seen], refit: bool) -> tuple[list[Any], str]:
    if grader == "reader":
        return judged_by_reader(found, chosen.threshold), "as shipped"
    if refit:
        return judged_out_of_fold(
            found, signals_for([each.case for each in found], grader), chosen.threshold
        ), OUT_OF_FOLD
    return judged_by(chosen, found), "as fitted"


def read_calibration(file: Path) -> Calibration:
    """Raises CalibrationInvalid, which names the file."""
    return _read(file, Calibration.from_json)


def _read(file: Path, parse: Callable[[str], T]) -> T:
    try:
        return parse(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CalibrationInvalid(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CalibrationInvalid(f"{file} cannot be read: it is no UTF-8") from error
    except CalibrationInvalid as error:
        raise CalibrationInvalid(f"{file}: {error}") from error


def draw(file: Path | None, picture: Callable[[], bytes]) -> None:
    """Writes the picture where one is wanted; a place that cannot be written ends the program."""
    from gateway.cli import write_or_exit

    write_or_exit(file, picture)
    if file is not None:
        note(f"Picture: {file}")


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
