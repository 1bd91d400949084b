"""A search service: how it is asked, and how its answer reads. No I/O: the retriever sends and receives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Method = Literal["GET", "POST"]


class Nonsense(ValueError):
    """Raised when a body is JSON and holds no list of results where the service's has one."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request: `parameters` are the query string of a GET and the JSON object of a POST."""

    method: Method
    url: str
    headers: Mapping[str, str]
    parameters: Mapping[str, str | int | bool]


@dataclass(frozen=True, slots=True)
class Result:
    """One result as the service words it, not cleaned yet."""

    title: str
    text: str
    url: str
    metadata: Mapping[str, str] = field(default_factory=dict)


class Service(Protocol):
    """What differs between services."""

    def request(self, text: str, count: int) -> Request:
        """The request for about `count` results; `text` is cut to what the service takes."""
        ...

    def results(self, body: Any) -> list[Result]:
        """What a decoded body holds, best first. Raises Nonsense."""
        ...

    def refuses_key(self, status: int, content: bytes) -> bool:
        """Whether this answer says that the key is missing, wrong or not good for this."""
        ...


def within(text: str, characters: int, words: int | None = None) -> str:
    """`text` with single blanks, cut after whole words to at most so many characters and words; a word longer than that is cut."""
    kept: list[str] = []
    length = -1
    for word in text.split()[:words]:
        length += 1 + len(word)
        if length > characters:
            break
        kept.append(word)
    return " ".join(kept) if kept else text.strip()[:characters]


def objects(value: Any) -> list[Mapping[str, Any]]:
    """The objects in a list; what is no object is passed over. Raises Nonsense when `value` is no list."""
    if not isinstance(value, list):
        raise Nonsense("no list of results")
    return [each for each in value if isinstance(each, dict)]


def text_of(value: Any) -> str:
    """A string, a number or a list of them as text; '' for anything else."""
    match value:
        case str():
            return value
        case bool() | None:
            return ""
        case int() | float():
            return str(value)
        case list():
            return "\n".join(part for each in value if (part := text_of(each)))
        case _:
            return ""


def joined(parts: Sequence[str]) -> str:
    """The parts that say something, each once, on lines of their own."""
    return "\n".join(dict.fromkeys(part.strip() for part in parts if part.strip()))
