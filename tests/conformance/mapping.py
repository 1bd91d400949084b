"""A mapping: how a gateway is asked, what its events mean, and how its grader speaks to the model's service. Read from a TOML file."""

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.sse import SseEvent

QUESTION = "{question}"


class MappingInvalid(Exception):
    """Raised when a mapping file lacks something or says something that is not known; the message names it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Which events are meant: those of a name (`message` is that of an event without one), with those data, or with that field.

    `field` is a path into JSON data, `choices.0.delta.content`; an event whose data lack it, or have null or "" there, is not meant.
    """

    event: str | None = None
    data: str | None = None
    field: str | None = None

    def matches(self, event: SseEvent) -> bool:
        if self.event is not None and event.name != self.event:
            return False
        if self.data is not None and event.data != self.data:
            return False
        return self.field is None or bool(self.value(event))

    def value(self, event: SseEvent) -> str:
        """What is at `field`; "" where nothing is."""
        try:
            found: Any = json.loads(event.data)
            for step in (self.field or "").split("."):
                found = found[int(step)] if isinstance(found, list) else found[step]
        except (ValueError, KeyError, IndexError, TypeError):
            return ""
        return found if isinstance(found, str) else ("" if found is None else json.dumps(found))


@dataclass(frozen=True, slots=True)
class GraderSpeech:
    """How a request of the grader is told from one of the generator, by its `model` or a property of its output's `schema`, and what
    the scripted model answers to each verdict. Without `says` it answers as this project's own grader asks."""

    model: str | None = None
    schema: str | None = None
    says: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Mapping:
    """All of it. `body` is sent with `{question}` replaced by the question, as JSON writes it between quotes."""

    path: str
    body: str
    text: tuple[Rule, ...]
    terminal: tuple[Rule, ...]
    status: tuple[Rule, ...]
    grader: GraderSpeech
    headers: dict[str, str] = field(default_factory=dict)

    def request(self, question: str) -> bytes:
        return self.body.replace(QUESTION, json.dumps(question)[1:-1]).encode()

    def text_of(self, event: SseEvent) -> str | None:
        """The answer's text in `event`; None where it is no text."""
        return next((rule.value(event) for rule in self.text if rule.matches(event)), None)

    def is_terminal(self, event: SseEvent) -> bool:
        return any(rule.matches(event) for rule in self.terminal)

    def is_known(self, event: SseEvent) -> bool:
        return any(rule.matches(event) for rule in (*self.text, *self.terminal, *self.status))


def read_mapping(path: Path) -> Mapping:
    """The mapping in `path`. Raises MappingInvalid."""
    try:
        value = tomllib.loads(path.read_text(encoding="utf-8"))
        events = value["events"]
        mapping = Mapping(
            path=value["path"],
            body=value["body"],
            text=tuple(Rule(**rule) for rule in events["text"]),
            terminal=tuple(Rule(**rule) for rule in events["terminal"]),
            status=tuple(Rule(**rule) for rule in events.get("status", ())),
            grader=GraderSpeech(**value["grader"]),
            headers=value.get("headers", {}),
        )
    except (OSError, ValueError) as error:
        raise MappingInvalid(f"{path}: {error}") from error
    except (KeyError, TypeError) as error:
        raise MappingInvalid(f"{path}: missing or unknown: {error}") from error
    if QUESTION not in mapping.body:
        raise MappingInvalid(f"{path}: `body` has no {QUESTION}")
    if any(rule.field is None for rule in mapping.text):
        raise MappingInvalid(f"{path}: a rule for text has no `field`")
    return mapping
