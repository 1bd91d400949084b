"""Answers that somebody judged, from JSON Lines files in the schema of the evaluation data (grounding.jsonl), or with the same fields."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gateway.evaluation.cases import origin_of, passages_of
from gateway.evaluation.rows import LabelsUnreadable, Row, rows
from grading.support import Span, claims
from retrieval.passage import Passage

GROUNDING_FILE = "grounding.jsonl"


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer that somebody judged. `spans` are the unsupported parts (None: the source marks none); `parts` its claims."""

    id: str
    origin: str
    group: str
    question: str
    passages: tuple[Passage, ...]
    answer: str
    supported: bool
    spans: tuple[Span, ...] | None
    parts: tuple[Span, ...]

    def texts(self) -> list[str]:
        return [self.answer[part.start : part.end] for part in self.parts]

    def labels(self) -> list[bool | None]:
        """For each claim whether it is supported; None where nobody says which part of an unsupported answer is not."""
        if self.spans is not None:
            return [not any(_overlap(part, span) for span in self.spans) for part in self.parts]
        if self.supported or len(self.parts) == 1:
            return [self.supported] * len(self.parts)
        return [None] * len(self.parts)


def read_answers(paths: Iterable[Path]) -> list[Answered]:
    """The judged answers of all files; a folder means the `grounding.jsonl` in it. Raises LabelsUnreadable."""
    found = [case for path in paths for case in _answers(path)]
    if not found:
        raise LabelsUnreadable("there is no judged answer in these files")
    return found


def _answers(path: Path) -> Iterator[Answered]:
    origin = origin_of(path)
    for row in rows(path, GROUNDING_FILE):
        answer = row.text("answer")
        yield Answered(
            id=row.text_or("id", row.place),
            origin=origin,
            group=row.text_or("question_id", "") or row.text_or("question", answer),
            question=row.text_or("question", ""),
            passages=passages_of(row),
            answer=answer,
            supported=row.truth("supported"),
            spans=_spans(row),
            parts=tuple(claims(answer)),
        )


def _spans(row: Row) -> tuple[Span, ...] | None:
    """The unsupported parts as characters of the answer; None where the source marks none."""
    name = "unsupported_spans"
    match row.values.get(name):
        case None:
            return None
        case list(found):
            return tuple(_span(row, f"{name}[{n}]", each) for n, each in enumerate(found))
        case other:
            raise row.wrong(name, other, "a list or null")


def _span(row: Row, name: str, value: object) -> Span:
    match value:
        case {"start": int(start), "end": int(end)} | [int(start), int(end)]:
            return Span(start, end)
        case _:
            raise row.wrong(name, value, "an object of start and end, or a pair of them")


def _overlap(a: Span, b: Span) -> bool:
    return min(a.end, b.end) > max(a.start, b.start)
