"""The course of one question: which attempt it is at, what was searched and found, and the race over what was found last."""

from dataclasses import dataclass, field

import anyio

from retrieval.evidence import Cleaned
from retrieval.searcher import Search
from streaming.attempt import Race
from streaming.facts import AttemptBegan, AttemptEnded
from streaming.finding import Found
from streaming.ports import Observer


@dataclass(slots=True)
class Course:
    """How far a question has come. `question` is the one that stands alone, once that is known; attempts count from 1."""

    question: str
    observer: Observer
    began: float = field(default_factory=anyio.current_time)
    attempt: int = 0
    is_open: bool = False
    searched: list[str] = field(default_factory=list)
    told: str | None = None
    """What the client is told of the next search, where its query rests on text that was withheld from it."""
    found: Cleaned = field(default_factory=lambda: Cleaned(()))
    retrieved_s: float = 0.0
    race: Race | None = None

    def begin(self, search: Search, need: str | None, source: str | None = None) -> None:
        """An attempt begins with `search`; `need` is why the first one searches as it does, `source` is where, if not in the house."""
        self.attempt += 1
        self.is_open = True
        correction, mode = None if need else search.strategy, str(search.queries[0].mode)
        query = self.told or search.text
        self.searched.append(f"{source}: {query}" if source else query)
        self.observer.note(AttemptBegan(self.attempt, correction, search.text, mode, need, search.similarity))

    def retrieved(self, found: Found) -> None:
        """What the attempt's search found."""
        self.found = found.evidence
        self.retrieved_s += found.took_s
        self.searched.extend(f"{name}: could not be searched" for name in found.passed_over)
        self.observer.note(found.fact(self.attempt))

    def end(self, outcome: str) -> None:
        """The attempt that is open, if one is, ended so."""
        if self.is_open:
            self.is_open = False
            self.observer.note(AttemptEnded(self.attempt, outcome))

    def timings(self) -> dict[str, float]:
        """Milliseconds until now: of all searches, and in all."""
        total_s = anyio.current_time() - self.began
        return {"retrieval": round(self.retrieved_s * 1000, 1), "total": round(total_s * 1000, 1)}
