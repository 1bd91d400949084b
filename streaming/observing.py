"""Observing: who is told what happens inside an answer."""

from dataclasses import dataclass

from streaming.facts import Fact
from streaming.ports import Observer, Speculator


@dataclass(frozen=True, slots=True)
class Both:
    """Tells two observers (streaming.ports.Observer)."""

    first: Observer
    second: Observer

    def note(self, fact: Fact) -> None:
        self.first.note(fact)
        self.second.note(fact)


@dataclass(frozen=True, slots=True)
class Learning:
    """Tells a speculator, which learns from it (streaming.ports.Observer)."""

    speculator: Speculator

    def note(self, fact: Fact) -> None:
        self.speculator.learn(fact)
