"""The moments of one answer: at which stage it is, what waits for a verdict and for how long."""

from collections.abc import Callable

from gateway.observing.metric_names import Stage
from gateway.observing.slow_answers import Part
from streaming.facts import (
    AttemptBegan,
    AttemptEnded,
    DraftClosed,
    DraftStarted,
    Ended,
    Fact,
    Judged,
    Released,
    Retrieved,
    Verified,
)


class Moments:
    """Folds facts (streaming.ports.Observer); `clock` in seconds. Facts of an answer come from one thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._drafts: dict[tuple[int, int], float] = {}
        self.parts: list[Part] = []
        """Where the time went, as far as it is over."""
        self._judged_at: float | None = None
        self._asked_at: float | None = None
        self.stage = Stage.QUEUED
        self.held_bytes = 0
        """Bytes of text that wait for a verdict, as far as `hold` told."""
        self.is_released = False
        self.releases_s: list[float] = []
        """Seconds from each sufficient verdict until its gate was open."""

    def hold(self, size_bytes: int) -> None:
        """So much more text came from a draft; once the gate is open nothing waits."""
        if not self.is_released:
            self.held_bytes += size_bytes

    def waiting_s(self) -> float:
        """How long the verdict that is waited for has been waited for; 0 where none is."""
        asked_at = self._asked_at
        return 0.0 if asked_at is None else self._clock() - asked_at

    def note(self, fact: Fact) -> None:
        """One fact more."""
        match fact:
            case AttemptBegan():
                self.stage = Stage.RETRIEVING if fact.correction is None else Stage.CORRECTING
                self._asked_at, self.is_released, self.held_bytes = None, False, 0
            case Retrieved():
                self.stage = Stage.GRADING
                self._asked_at = self._clock() if fact.passages else None
                self._part("search", fact.attempt, fact.took_s, f"{fact.passages} passages")
            case Judged():
                self._judged_at, self._asked_at = self._clock(), None
                verdict = "no verdict" if fact.grade is None else str(fact.grade.verdict)
                self._part("grade", fact.attempt, fact.took_s, verdict)
            case DraftStarted():
                self._drafts[fact.attempt, fact.draft] = self._clock() - fact.ago_s
            case Released():
                self.stage = Stage.GENERATING
                self.is_released, self.held_bytes = True, 0
                if self._judged_at is not None:
                    self.releases_s.append(self._clock() - self._judged_at)
            case DraftClosed():
                self._close(fact)
            case Verified() | AttemptEnded():
                pass
            case Ended():
                self._asked_at, self.held_bytes = None, 0
            case _:
                pass

    def _close(self, fact: DraftClosed) -> None:
        if fact.outcome == "released":
            self.stage = Stage.VERIFYING
        else:
            self.held_bytes = 0
        began = self._drafts.pop((fact.attempt, fact.draft), None)
        if began is not None:
            took_s = self._clock() - fact.closed_ago_s - began
            self._part("draft", fact.attempt, took_s, fact.outcome, ago_s=fact.closed_ago_s)

    def _part(self, name: str, attempt: int, took_s: float, outcome: str, ago_s: float = 0.0) -> None:
        ended_s = self._clock() - ago_s - self._began
        self.parts.append(Part(name, attempt, max(0.0, ended_s - took_s), ended_s, outcome))
