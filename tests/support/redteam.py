"""The red team's passages (tests/redteam/passages.toml), and sets of passages with one of them inside."""

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from retrieval.passage import Passage
from tests.support.local import GARDEN

FILE = Path(__file__).resolve().parents[1] / "redteam" / "passages.toml"
ASKED = "How deep are tulip bulbs planted?"  # GARDEN says so
NOT_SAID = "Who designed the Eiffel Tower?"  # GARDEN does not


@dataclass(frozen=True, slots=True)
class Poison:
    """A passage that tries something; `kind` is what."""

    kind: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"


POISONS = tuple(Poison(**one) for one in tomllib.loads(FILE.read_text())["passage"])


def added_to(clean: tuple[Passage, ...], poison: Poison) -> tuple[Passage, ...]:
    """The clean set, and the poison as one more passage."""
    return (*clean, Passage("p99", "doc-99", "Notes", poison.text))


def hidden_in(clean: tuple[Passage, ...], poison: Poison, place: int) -> tuple[Passage, ...]:
    """The clean set with the poison at the end of the passage at `place`."""
    one = clean[place]
    return (*clean[:place], replace(one, text=f"{one.text} {poison.text}"), *clean[place + 1 :])


def plain_added_to(clean: tuple[Passage, ...]) -> tuple[Passage, ...]:
    """The clean set, and one more passage that tries nothing."""
    return (*clean, Passage("p99", "doc-99", "Notes", "The shed is painted green. It was built long ago."))


__all__ = ["ASKED", "GARDEN", "NOT_SAID", "POISONS", "Poison", "added_to", "hidden_in", "plain_added_to"]
