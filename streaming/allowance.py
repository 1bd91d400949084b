"""Allowance: so much in any minute, of tokens or of requests. A bound over every window of time, not on average."""

import math
from collections import deque
from collections.abc import Callable

WINDOW_S = 60.0


class Allowance:
    """At most `limit` units in any WINDOW_S seconds, those counted that are set aside for what has begun.

    A sliding window of one-second slots, on the safe side by up to a second: a token bucket of the same rate allows twice as much in
    its first window. `now` is a clock in seconds that never goes back.
    """

    def __init__(self, limit: int, now: Callable[[], float]) -> None:
        self._limit, self._now = limit, now
        self._reserved = 0
        self._slots: deque[tuple[int, int]] = deque()  # (second, units)
        self._spent = 0

    @property
    def spent(self) -> int:
        """Units spent within the last window."""
        self._forget()
        return self._spent

    def reserve(self, units: int, at_least: int) -> int:
        """Sets up to `units` aside and says how many; 0, and none, where `at_least` are not left."""
        self._forget()
        left = self._limit - self._spent - self._reserved
        if left < at_least:
            return 0
        taken = min(units, left)
        self._reserved += taken
        return taken

    def settle(self, reserved: int, spent: int) -> None:
        """Gives back what was reserved, and enters what was spent of it or without it."""
        self._reserved -= reserved
        if spent <= 0:
            return
        self._spent += spent
        second = math.floor(self._now())
        before = self._slots.pop()[1] if self._slots and self._slots[-1][0] == second else 0
        self._slots.append((second, before + spent))

    def opens_in_s(self) -> float:
        """Seconds until something is left again; 0 where something is."""
        self._forget()
        now_s, used = self._now(), self._spent + self._reserved
        opens_s = now_s
        for second, units in self._slots:
            if used < self._limit:
                break
            opens_s, used = second + 1 + WINDOW_S, used - units
        return opens_s - now_s

    def _forget(self) -> None:
        oldest = math.floor(self._now() - WINDOW_S)
        while self._slots and self._slots[0][0] < oldest:
            self._spent -= self._slots.popleft()[1]
