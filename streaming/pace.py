"""Pace: running estimates of how long a grade and a first token take. Times in seconds."""

from math import exp, log

WEIGHT = 0.1  # of the newest: about the last twenty count
SHORTEST_S = 0.001


class Running:
    """A geometric mean that forgets: service times are skewed, and one of ten seconds says little about the next."""

    def __init__(self, first_guess: float) -> None:
        self._log = log(first_guess)
        self._seen = 0

    @property
    def value(self) -> float:
        return exp(self._log)

    def add(self, value: float) -> None:
        """Takes in a value above 0; the first counts fully, the next ones less and less, down to WEIGHT."""
        self._seen += 1
        weight = max(WEIGHT, 1 / self._seen)
        self._log += weight * (log(value) - self._log)


class Pace:
    """How fast one grader and one generator are. Until they have shown it, they are taken to be as fast as hosted models."""

    def __init__(self) -> None:
        self._grade, self._first_text, self._rate = Running(0.5), Running(0.5), Running(60.0)

    @property
    def grade_s(self) -> float:
        """From the question to the verdict."""
        return self._grade.value

    @property
    def first_text_s(self) -> float:
        """From the request to the first answer text."""
        return self._first_text.value

    @property
    def tokens_per_s(self) -> float:
        """Of a draft that is being written."""
        return self._rate.value

    def graded(self, took_s: float) -> None:
        """A verdict took so long."""
        self._grade.add(max(took_s, SHORTEST_S))

    def drafted(self, first_text_s: float | None, text_s: float | None, tokens: int) -> None:
        """A draft's first text took so long, its `tokens` another `text_s` from there on; None where there was no text."""
        if first_text_s is not None:
            self._first_text.add(max(first_text_s, SHORTEST_S))
        if text_s and tokens > 1:
            self._rate.add((tokens - 1) / max(text_s, SHORTEST_S))
