"""The moments of one answer: at which stage it is, what waits for a verdict and for how long."""

from collections.abc import Callable

from gateway.metric_names import Stage
from streaming.facts import AttemptBegan, AttemptEnded, DraftClosed, Ended, Fact, Judged, Released, Retrieved, Verified


class Moments:
    """Folds facts (streaming.ports.Observer); `clock` in seconds. Facts of an answer come from one thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
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
            case Judged():
                self._judged_at, self._asked_at = self._clock(), None
            case Released():
                self.stage = Stage.GENERATING
                self.is_released, self.held_bytes = True, 0
                if self._judged_at is not None:
                    self.releases_s.append(self._clock() - self._judged_at)
            case DraftClosed(outcome="released"):
                self.stage = Stage.VERIFYING
            case DraftClosed():
                self.held_bytes = 0
            case Verified() | AttemptEnded():
                pass
            case Ended():
                self._asked_at, self.held_bytes = None, 0
            case _:
                pass
