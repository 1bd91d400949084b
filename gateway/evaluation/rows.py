"""Rows of labelled files: the objects of JSON Lines, asked for their fields by kind. What is wrong is said with file, line and field."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from retrieval.faults import GatewayFault

E = TypeVar("E", bound=StrEnum)

SHOWN_CHARACTERS = 40  # of a value that is not what it should be


class LabelsUnreadable(GatewayFault):
    """Raised when a labelled file is not what it should be; the message names the file, the line, the field and what is wrong."""

    type = "labels_unreadable"


@dataclass(frozen=True, slots=True)
class Row:
    """One object. `place` is `file:line`; `inside` where in the line's object this one stands (`passages[0].`), empty for the line's own.

    Each field that is asked for and is not of its kind raises LabelsUnreadable.
    """

    place: str
    values: Mapping[str, Any]
    inside: str = ""

    def text(self, name: str) -> str:
        """A text, or the digits of a number."""
        value = self._required(name)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.wrong(name, value, "a text")
        return str(value)

    def text_or(self, name: str, other: str) -> str:
        """`other` for a field that is missing, null or empty."""
        return other if self.values.get(name) in (None, "") else self.text(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; none where the field is missing or null."""
        listed = Row(self.place, {f"{name}[{n}]": value for n, value in enumerate(self._listed(name))}, self.inside)
        return tuple(map(listed.text, listed.values))

    def truth(self, name: str) -> bool:
        value = self._required(name)
        if not isinstance(value, bool):
            raise self.wrong(name, value, "true or false")
        return value

    def one_of(self, name: str, kinds: type[E]) -> E:
        value = self._required(name)
        if value not in list(kinds):
            *others, last = kinds
            raise self.wrong(name, value, f"{', '.join(others)} or {last}")
        return kinds(value)

    def row(self, name: str) -> "Row":
        """An object; an empty one where the field is missing or null."""
        return self._within(name, self.values.get(name) or {})

    def rows(self, name: str) -> "tuple[Row, ...]":
        """A list of objects; none where the field is missing or null."""
        return tuple(self._within(f"{name}[{n}]", value) for n, value in enumerate(self._listed(name)))

    def needed(self, name: str) -> None:
        """Returns when the field is there."""
        self._required(name)

    def wrong(self, name: str, value: object, wanted: str) -> LabelsUnreadable:
        """The complaint about a field."""
        told = json.dumps(value, ensure_ascii=False)
        told = told if len(told) <= SHOWN_CHARACTERS else told[:SHOWN_CHARACTERS] + "..."
        return LabelsUnreadable(f"{self.place}: `{self.inside}{name}` is {told}; it must be {wanted}")

    def _required(self, name: str) -> Any:
        if name not in self.values:
            raise LabelsUnreadable(f"{self.place}: `{self.inside}{name}` is missing")
        return self.values[name]

    def _listed(self, name: str) -> Sequence[Any]:
        value = self.values.get(name)
        if value is not None and not isinstance(value, list):
            raise self.wrong(name, value, "a list")
        return value or []

    def _within(self, name: str, value: object) -> "Row":
        if not isinstance(value, dict):
            raise self.wrong(name, value, "an object")
        return Row(self.place, value, f"{self.inside}{name}.")


def rows(path: Path, file_name: str) -> Iterator[Row]:
    """A row for each line that is not blank; a folder means the file of this name in it. Raises LabelsUnreadable."""
    file = path / file_name if path.is_dir() else path
    try:
        lines = file.read_text(encoding="utf-8").split("\n")  # splitlines would break a string at U+2028
    except OSError as error:
        raise LabelsUnreadable(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise LabelsUnreadable(f"{file} cannot be read: it is no UTF-8") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise LabelsUnreadable(f"{file}:{number}: not JSON ({error.msg})") from error
        if not isinstance(value, dict):
            raise LabelsUnreadable(f"{file}:{number}: not an object")
        yield Row(f"{file}:{number}", value)
