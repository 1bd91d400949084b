"""Waste: how many tokens of discarded drafts one tenant may cause. A bound over every window of time, not on average."""

import math
from collections import deque
from collections.abc import Callable

WINDOW_S = 60.0


class Waste:
    """At most `limit` tokens in any WINDOW_S seconds, those counted that drafts in flight may yet come to discard.

    A sliding window of one-second slots, on the safe side by up to a second: a token bucket of the same rate allows twice as much in
    its first window. `now` is a clock in seconds that never goes back.
    """

    def __init__(self, limit: int, now: Callable[[], float]) -> None:
        self._limit, self._now = limit, now
        self._reserved = 0
        self._slots: deque[tuple[int, int]] = deque()  # (second, tokens)
        self._spent = 0

    @property
    def spent(self) -> int:
        """Tokens discarded within the last window."""
        self._forget()
        return self._spent

    def reserve(self, tokens: int, at_least: int) -> int:
        """Sets up to `tokens` aside and says how many; 0, and none, where `at_least` are not left."""
        self._forget()
        left = self._limit - self._spent - self._reserved
        if left < at_least:
            return 0
        taken = min(tokens, left)
        self._reserved += taken
        return taken

    def settle(self, reserved: int, discarded: int) -> None:
        """Gives back what was reserved, and enters what was discarded of it or without it."""
        self._reserved -= reserved
        if discarded <= 0:
            return
        self._spent += discarded
        second = math.floor(self._now())
        before = self._slots.pop()[1] if self._slots and self._slots[-1][0] == second else 0
        self._slots.append((second, before + discarded))

    def _forget(self) -> None:
        oldest = math.floor(self._now() - WINDOW_S)
        while self._slots and self._slots[0][0] < oldest:
            self._spent -= self._slots.popleft()[1]
