"""`gateway eval answers` around its asking: sets or questions in, figures out as a table, JSON or a picture."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.cleaning import clean
from gateway.evaluation.answering import AnswerFigures, answer_figures, answers_json
from gateway.evaluation.asking import Place, Told, drawn, told
from gateway.evaluation.bars import Bar, Group, terminal_bars
from gateway.evaluation.bars import told as with_interval
from gateway.evaluation.measuring import bar
from gateway.evaluation.questions import Asked, read_folder, read_questions
from gateway.evaluation.rows import LabelsUnreadable
from gateway.evaluation.shelf import TENANT, collection_of, shelve
from gateway.evaluation.shown import aligned
from gateway.house import House
from gateway.problems import InvalidRequest
from gateway.request import Options
from gateway.settings import Settings
from gateway.wiring import Library, wired
from retrieval.faults import DatabaseMissing

HEADLINES = {
    "answerable_answered": "answerable, answered",
    "unanswerable_released": "unanswerable, answered",
    "correction_rate": "corrected",
    "recovery_rate": "recovered of the corrected",
}
TABLE = {
    **HEADLINES,
    "wrongly_recovered": "corrected, then wrongly answered",
    "mean_retries": "corrections per question",
    "abstention_on_answerable": "answerable, refused",
    "abstention_on_unanswerable": "unanswerable, refused",
    "released": "answered in all",
    "released_answerable": "answerable among the answered",
    "says_the_answer": "says an expected answer",
    "evidence_at_first": "all evidence in the first set",
    "evidence_at_last": "all evidence in the last set",
    "duplicates": "repeats among found passages",
    "conflicts": "a conflict was named",
    "failed": "failed",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command was asked for. `collection`: ask this stored one instead of each folder's corpus."""

    paths: tuple[Path, ...]
    questions: int | None = None
    seed: int = 0
    collection: str | None = None


@dataclass(frozen=True, slots=True)
class AnswersReport:
    """The figures of every set, and the single outcomes behind them."""

    sets: tuple[AnswerFigures, ...]
    outcomes: tuple[Told, ...]
    asked_with: Mapping[str, Any]
    seed: int

    def as_json(self) -> dict[str, Any]:
        return answers_json(self.sets, self.seed, self.asked_with)

    def groups(self) -> list[Group]:
        """What the picture shows."""
        return [
            Group(
                f"{each.name}: {each.answerable} answerable, {each.unanswerable} not",
                tuple(Bar(words, each.figures[name]) for name, words in HEADLINES.items()),
            )
            for each in self.sets
        ]


async def measured(settings: Settings, wanted: Wanted) -> AnswersReport:
    """Asks every question of the house that the settings describe; a bar on standard error shows how far it is.

    Raises LabelsUnreadable, InvalidRequest for a collection that is not there, and what a house that cannot start or a corpus that cannot
    be stored raises.
    """
    chosen = [(path, _drawn(path, wanted)) for path in wanted.paths]
    async with wired(settings) as built:
        if built.library is None:
            raise DatabaseMissing("answers are measured over stored documents: unset GATEWAY_RETRIEVER")
        if wanted.collection is not None:
            await _require(wanted.collection, built.library)
        outcomes: list[Told] = []
        for path, asked in chosen:
            place = await _place(path, wanted, built.library)
            with bar(f"{path.resolve().name}: asking") as show:
                outcomes += await told(_name(path), asked, place, _parts(built.house, place), built.house.limits, show)
        asked_with = {
            "grader": built.house.parts.grader.name,
            "generator": built.house.parts.generator.name,
            "max_retries": built.house.limits.max_retries,
        }
    return AnswersReport(tuple(answer_figures(outcomes, wanted.seed)), tuple(outcomes), asked_with, wanted.seed)


def table(report: AnswersReport) -> str:
    """A line for each figure, a column for each set, with intervals; then the strategies and the picture."""
    lines: list[tuple[str, ...]] = [("", *(each.name for each in report.sets))]
    lines.append(("questions, answerable / not", *(f"{each.answerable} / {each.unanswerable}" for each in report.sets)))
    for name, words in TABLE.items():
        lines.append((words, *(with_interval(each.figures[name]) for each in report.sets)))
    lines.append(("a whole answer, p50 / p95", *(f"{each.p50_ms:.0f} / {each.p95_ms:.0f} ms" for each in report.sets)))
    tried = [f"{each.name}, by the last correction\n{_strategies(each)}" for each in report.sets if each.strategies]
    return "\n\n".join([aligned(lines), *tried, terminal_bars(report.groups())])


def _strategies(found: AnswerFigures) -> str:
    lines: list[tuple[str, ...]] = [("", "answerable, answered", "unanswerable, answered")]
    lines += [
        (each.name, f"{each.answered} of {each.answerable}", f"{each.released} of {each.unanswerable}")
        for each in found.strategies
    ]
    return aligned(lines)


def _drawn(path: Path, wanted: Wanted) -> list[Asked]:
    questions = read_questions(path) if wanted.collection is not None else read_folder(path).questions
    asked = drawn(questions, wanted.questions, wanted.seed)
    if not asked:
        raise LabelsUnreadable(f"{path}: no question says whether it is answerable (`answerable`: true or false)")
    return asked


async def _require(collection: str, books: Library) -> None:
    if not await books.store.check(books.embedder, collection):
        names = ", ".join(await books.store.collections()) or "none"
        raise InvalidRequest(f'no collection "{clean(collection)}"; there are: {names}')


async def _place(path: Path, wanted: Wanted, books: Library) -> Place:
    """Where the questions of `path` are asked; a corpus is stored first, once."""
    if wanted.collection is not None:
        return Place(wanted.collection, "default")
    questions = read_folder(path)
    with bar(f"{questions.name}: embedding") as show:
        await shelve(questions, books.store, books.embedder, show)
    return Place(collection_of(questions), TENANT)


def _parts(house: House, place: Place) -> Any:
    return house.parts_for(Options(), place.collection)


def _name(path: Path) -> str:
    resolved = path.resolve()
    return resolved.name if path.is_dir() else resolved.stem if resolved.stem != "questions" else resolved.parent.name
