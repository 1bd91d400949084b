"""Shedding: what a server leaves out as more answers are open. Drafts before their verdict first, then looking ahead, new work last."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shedding:
    """With more than `drafts_above` answers open nothing is drafted before its verdict; with more than `looking_ahead_above` nothing is
    looked for ahead either. New questions wait, and are turned away, at a bound of their own (gateway.admission.Bounds).
    """

    drafts_above: int = 128
    looking_ahead_above: int = 192

    def sheds_drafts(self, answers: int) -> bool:
        """Whether drafts wait for their verdicts while so many are open."""
        return answers > self.drafts_above

    def sheds_looking_ahead(self, answers: int) -> bool:
        """Whether nothing is searched for, and graded, before it is known to be needed."""
        return answers > self.looking_ahead_above


def shedding(most: int, busy: int | None = None) -> Shedding:
    """The order for a server that lets `most` answers in: drafts go from `busy` on (half of them where it is not said), looking ahead
    half way between that and `most`. Where `busy` is `most` or more, neither goes before new work does."""
    drafts_above = max(1, most // 2) if busy is None else busy
    return Shedding(drafts_above, max(drafts_above, (drafts_above + most + 1) // 2))
