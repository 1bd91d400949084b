"""Observing: who is told what happens inside an answer."""

from dataclasses import dataclass

from streaming.facts import Fact
from streaming.ports import Observer, Speculator


@dataclass(frozen=True, slots=True)
class Both:
    """Tells an observer, and the speculator, which learns from it (streaming.ports.Observer)."""

    observer: Observer
    speculator: Speculator

    def note(self, fact: Fact) -> None:
        self.observer.note(fact)
        self.speculator.learn(fact)
