"""Labelled cases from JSON Lines files in the schema of the evaluation data: sufficiency.jsonl, or anyone's file with the same fields."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gateway.evaluation.rows import LabelsUnreadable, Row, rows
from grading.grade import Verdict
from grading.standalone import standalone
from retrieval.passage import Passage

SUFFICIENCY_FILE = "sufficiency.jsonl"


@dataclass(frozen=True, slots=True)
class Turn:
    """One earlier turn of a conversation (grading.standalone.Said)."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Case:
    """A set judged by someone. `question` stands alone; `group` is shared by all cases that have a question or a passage in common."""

    id: str
    origin: str
    group: str
    question: str
    passages: tuple[Passage, ...]
    verdict: Verdict

    @property
    def sufficient(self) -> bool:
        return self.verdict is Verdict.SUFFICIENT


def read_cases(paths: Iterable[Path]) -> list[Case]:
    """The cases of all files, in order; a folder means the `sufficiency.jsonl` in it. Raises LabelsUnreadable."""
    cases = [case for path in paths for case in _cases(path)]
    if not cases:
        raise LabelsUnreadable("there is no labelled case in these files")
    return grouped(cases)


def origin_of(path: Path) -> str:
    """What a file is called in tables: its folder's name for a file of the usual name, else its own."""
    if path.is_dir():
        return path.resolve().name
    return path.resolve().parent.name if path.name in {SUFFICIENCY_FILE, "grounding.jsonl"} else path.stem


def asked(row: Row) -> str:
    """The question as it stands alone: as published with the case, else made from the history here. Raises LabelsUnreadable."""
    return row.text_or("standalone_question", "") or standalone(row.text("question"), turns_of(row))


def turns_of(row: Row) -> tuple[Turn, ...]:
    """The turns before the question. Raises LabelsUnreadable."""
    return tuple(Turn(turn.text("role"), turn.text("content")) for turn in row.rows("history"))


def passages_of(row: Row) -> tuple[Passage, ...]:
    """The set of a case, which may be empty. Raises LabelsUnreadable, also where the field is missing."""
    row.needed("passages")
    return tuple(
        Passage(each.text("id"), each.text("id"), each.text_or("title", ""), each.text("text"))
        for each in row.rows("passages")
    )


def grouped(cases: list[Case]) -> list[Case]:
    """The cases with groups joined where they share a passage: what is fitted on one must not be tested on the other."""
    first: dict[str, str] = {}

    def root(name: str) -> str:
        first.setdefault(name, name)
        while first[name] != name:
            first[name] = first[first[name]]
            name = first[name]
        return name

    for case in cases:
        for passage in case.passages:
            a, b = root(f"question {case.group}"), root(f"passage {passage.id}")
            first[max(a, b)] = min(a, b)
    return [replace(case, group=root(f"question {case.group}")) for case in cases]


def _cases(path: Path) -> Iterator[Case]:
    origin = origin_of(path)
    for row in rows(path, SUFFICIENCY_FILE):
        yield Case(
            id=row.text_or("id", row.place),
            origin=origin,
            group=row.text_or("question_id", "") or row.text("question"),
            question=asked(row),
            passages=passages_of(row),
            verdict=row.one_of("verdict", Verdict),
        )
