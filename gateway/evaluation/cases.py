"""Labelled cases from JSON Lines files in the schema of the evaluation data: sufficiency.jsonl, or anyone's file with the same fields."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grading.grade import Verdict
from grading.standalone import standalone
from retrieval.faults import GatewayFault
from retrieval.passage import Passage

SUFFICIENCY_FILE = "sufficiency.jsonl"


class LabelsUnreadable(GatewayFault):
    """Raised when a file of labelled cases is not what it should be; the message names the file, the line and what is wrong."""

    type = "labels_unreadable"


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


def rows(path: Path, file_name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(`file:line`, object) for each line that is not blank. Raises LabelsUnreadable."""
    file = path / file_name if path.is_dir() else path
    try:
        lines = file.read_text(encoding="utf-8").split("\n")  # splitlines would break a string at U+2028
    except (OSError, UnicodeDecodeError) as error:
        raise LabelsUnreadable(f"{file}: cannot be read ({error.__class__.__name__})") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise LabelsUnreadable(f"{file}:{number}: not JSON ({error.msg})") from error
        if not isinstance(value, dict):
            raise LabelsUnreadable(f"{file}:{number}: not an object")
        yield f"{file}:{number}", value


def origin_of(path: Path) -> str:
    """What a file is called in tables: its folder's name for a file of the usual name, else its own."""
    if path.is_dir():
        return path.resolve().name
    return path.resolve().parent.name if path.name in {SUFFICIENCY_FILE, "grounding.jsonl"} else path.stem


def asked(row: dict[str, Any]) -> str:
    """The question as it stands alone: as published with the case, else made from the history here."""
    given = row.get("standalone_question")
    if given:
        return str(given)
    history = [Turn(str(turn["role"]), str(turn["content"])) for turn in row.get("history") or ()]
    return standalone(str(row["question"]), history)


def passages_of(row: dict[str, Any]) -> tuple[Passage, ...]:
    return tuple(
        Passage(str(each["id"]), str(each["id"]), str(each.get("title") or ""), str(each["text"]))
        for each in row["passages"]
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
    for place, row in rows(path, SUFFICIENCY_FILE):
        try:
            yield Case(
                id=str(row.get("id", place)),
                origin=origin,
                group=str(row.get("question_id") or row["question"]),
                question=asked(row),
                passages=passages_of(row),
                verdict=Verdict(row["verdict"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise LabelsUnreadable(f"{place}: not a labelled case ({error.__class__.__name__}: {error})") from error
