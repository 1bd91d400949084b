"""The slowest answers of the last hour, each with where its time went: what the page shows when no trace is exported."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

WINDOW_S = 3_600.0
KEPT = 5  # of each path


@dataclass(frozen=True, slots=True)
class Part:
    """Something that took its time, in seconds from the answer's beginning: `search`, `grade` or `draft`, and what came of it."""

    name: str
    attempt: int
    began_s: float
    ended_s: float
    outcome: str


@dataclass(frozen=True, slots=True)
class SlowAnswer:
    """One answer, by figures alone."""

    trace_id: str
    path: str
    total_s: float
    first_byte_s: float | None
    parts: tuple[Part, ...]


class SlowAnswers:
    """Keeps the slowest of each path. `clock` in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[str, list[tuple[float, SlowAnswer]]] = {}

    def add(self, answer: SlowAnswer) -> None:
        """Keeps it, if it is among the slowest of its path."""
        kept = [*self._fresh(answer.path), (self._clock(), answer)]
        kept.sort(key=lambda each: -each[1].total_s)
        self._kept[answer.path] = kept[:KEPT]

    def slowest(self) -> list[dict[str, object]]:
        """Those that are kept, slowest first, for JSON."""
        found = [answer for path in self._kept for _, answer in self._fresh(path)]
        return [asdict(answer) for answer in sorted(found, key=lambda each: -each.total_s)]

    def _fresh(self, path: str) -> list[tuple[float, SlowAnswer]]:
        since = self._clock() - WINDOW_S
        return [each for each in self._kept.get(path, []) if each[0] >= since]
