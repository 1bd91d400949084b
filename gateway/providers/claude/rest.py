"""Rest: for how long a draft that speaks is left unread, so that tokens which come close together cost one look at them.

A token that is read, framed and sent alone costs 100 to 200 microseconds of the event loop that all streams share; four that are read
together cost hardly more than one, and so do the next draft's in the same turn: most of the price is to wake up for them. While few
drafts speak nothing is gained by that, and each token is passed on as it comes.
"""

import math

FREE_DRAFTS = 4
DRAFT_S = 0.006
LONGEST_S = 0.08  # a dozen looks a second: an eye takes for a flow what comes more often than ten times
STEPS = 4  # a rest is so many quarters of the longest, or fewer: drafts of one moment rest alike, though others came and went between
FEW_DRAFTS = 16  # are looked at all together: that is a millisecond, which another one's first byte seldom meets
TOGETHER = 4  # of more, so many: there is always somebody's first byte or bad verdict that waits for a look to end


class Rest:
    """The drafts that are open now, of all models of one client, and the rest each of them takes, of `longest_s` at most."""

    def __init__(self, longest_s: float = LONGEST_S) -> None:
        self._longest_s = longest_s
        self._open = 0

    def begin(self) -> None:
        """One more is open."""
        self._open += 1

    def end(self) -> None:
        """One fewer is."""
        self._open -= 1

    @property
    def whole_s(self) -> float:
        """From one look at a draft to the next one: 0 for up to FREE_DRAFTS drafts, then longer the more there are."""
        wanted_s = min(self._longest_s, (self._open - FREE_DRAFTS) * DRAFT_S)
        step_s = self._longest_s / STEPS
        return math.ceil(wanted_s / step_s) * step_s if wanted_s > 0 else 0.0

    def until(self, now_s: float) -> float:
        """The rest of a draft that is looked at now, in seconds, `now_s` by any clock that all share: until one of the moments at which
        drafts are looked at together, the last one within a whole rest.
        """
        whole_s = self.whole_s
        if not whole_s:
            return 0.0
        apart_s = whole_s / self._groups
        left_s = whole_s - now_s % apart_s
        return left_s if left_s > whole_s / STEPS else left_s + apart_s  # a timer may be early by 1 ms

    @property
    def _groups(self) -> int:
        """In how many groups the open drafts are looked at within a whole rest."""
        return 1 if self._open <= FEW_DRAFTS else math.ceil(self._open / TOGETHER)
