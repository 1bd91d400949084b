"""Rest: for how long a draft that speaks is left unread, so that tokens which come close together cost one look at them.

A token that is read, framed and sent alone costs 100 to 200 microseconds of the event loop that all streams share; four that are read
together cost hardly more than one. While few drafts speak nothing is gained by that, and each token is passed on as it comes.
"""

FREE_DRAFTS = 4
DRAFT_S = 0.004
LONGEST_S = 0.05  # twenty looks a second, which an eye takes for a flow


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

    def seconds(self) -> float:
        """0 for up to FREE_DRAFTS drafts, then longer the more there are."""
        return min(self._longest_s, max(0, self._open - FREE_DRAFTS) * DRAFT_S)
