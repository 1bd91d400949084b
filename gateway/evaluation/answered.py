"""Answers that somebody judged, from JSON Lines files in the schema of the evaluation data (grounding.jsonl), or with the same fields."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.evaluation.cases import LabelsUnreadable, origin_of, passages_of, rows
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
    for place, row in rows(path, GROUNDING_FILE):
        try:
            answer = str(row["answer"])
            spans = row.get("unsupported_spans")
            yield Answered(
                id=str(row.get("id", place)),
                origin=origin,
                group=str(row.get("question_id") or row.get("question") or answer),
                question=str(row.get("question") or ""),
                passages=passages_of(row),
                answer=answer,
                supported=bool(row["supported"]),
                spans=None if spans is None else tuple(_span(each) for each in spans),
                parts=tuple(claims(answer)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise LabelsUnreadable(f"{place}: not a judged answer ({error.__class__.__name__}: {error})") from error


def _span(value: Any) -> Span:
    return (
        Span(int(value["start"]), int(value["end"])) if isinstance(value, dict) else Span(int(value[0]), int(value[1]))
    )


def _overlap(a: Span, b: Span) -> bool:
    return min(a.end, b.end) > max(a.start, b.start)
