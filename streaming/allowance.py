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
    def used(self) -> int:
        """Units spent within the last window, and those that are set aside now."""
        self._forget()
        return self._spent + self._reserved

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


class Share(Allowance):
    """The part of an allowance that one of several processes may use: nothing until it is `lend`ed something, and for a time only.

    What is used of a share stays within it for a whole window, so that shares which together never exceed a limit keep to it together,
    over every window, though each is counted alone. Who lends keeps them so: a share is only made smaller by `give_back`, which keeps
    what is used.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(0, now)
        self._until_s = -math.inf
        self.is_short = False
        """Whether something was refused since it was last looked at."""

    @property
    def units(self) -> int:
        """How much is lent; 0 when its time is over."""
        return self._limit if self._now() < self._until_s else 0

    @property
    def left_s(self) -> float:
        """For how many more seconds it is lent."""
        return max(0.0, self._until_s - self._now())

    def lend(self, units: int, until_s: float) -> None:
        """From now on `units` may be used, until `until_s` by this share's clock."""
        self._limit, self._until_s = units, until_s

    def give_back(self, keep: int) -> int:
        """Makes the share as small as `keep`, but not smaller than what is used; how large it is now."""
        self._limit = max(self.used, min(self._limit, keep))
        return self._limit

    def reserve(self, units: int, at_least: int) -> int:
        """See Allowance."""
        taken = super().reserve(units, at_least) if self._now() < self._until_s else 0
        self.is_short = self.is_short or taken < units
        return taken
