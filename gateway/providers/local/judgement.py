"""From what the local judges measured to a grade. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log

from grading.grade import Grade, Verdict
from grading.relevant import lacking, relevant_numbers

JUNK_COST = (
    5.0  # an answer released on a set that does not support it costs as much as refusing five that are supported
)
# A logistic curve over the reader's margin, fitted by tests/bench/fit_reader.py on 1,553 cases of squad2, multihop, clapnq and
# mtrag, each set weighing the same. Out of fold (by question): AUC .94, .90, .93, .79; at the cost of 5 it releases .74, .55, .53,
# .32 of the sufficient sets, .06, .02, .01, .03 of the insufficient and .10 and .07 of the partial ones (multihop, mtrag). The
# cross-encoder's maximum, the answer span, the relevance and the lexical cover beside it raise no AUC. The reader has seen a part
# of these questions; on rgb_en (news), of which it saw none, its AUC is .68 and .46 of the sets labelled insufficient are released.
MARGIN_WEIGHT = 0.71
MARGIN_CONSTANT = 0.07


@dataclass(frozen=True, slots=True)
class Reading:
    """The reader's six logits for a question and a whole set."""

    relevance: float
    insufficient: float
    partial: float
    sufficient: float
    support: float
    span: float

    @property
    def margin(self) -> float:
        """How far `sufficient` leads over the two other verdicts together."""
        return self.sufficient - _log_sum(self.insufficient, self.partial)

    @property
    def p_sufficient(self) -> float:
        """The calibrated probability (0..1) that the set supports an answer."""
        return 1 / (1 + exp(-(MARGIN_WEIGHT * self.margin + MARGIN_CONSTANT)))

    def verdict(self, junk_cost: float) -> Verdict:
        """Sufficient where releasing costs less than refusing; else the reader's own choice of the two other verdicts."""
        if self.p_sufficient >= junk_cost / (1 + junk_cost):
            return Verdict.SUFFICIENT
        return Verdict.PARTIAL if self.partial > self.insufficient else Verdict.INSUFFICIENT


def judged(
    question: str,
    texts: Sequence[str],
    reading: Reading,
    logits: Sequence[float],
    junk_cost: float,
    alone: Mapping[int, Reading] | None = None,
) -> Grade:
    """The grade of a set: the reader's verdict, the passages that the cross-encoder finds relevant, the words that are missing.

    `alone` are readings of single passages, by number: a set supports what one of its passages supports. A sufficient
    or partial set has at least one relevant passage; a sufficient one misses nothing, any other says what it misses.
    """
    best = max(alone or {}, key=lambda n: (alone or {})[n].margin, default=0)
    if alone and alone[best].margin > reading.margin:
        reading = alone[best]
    else:
        best = 0
    verdict = reading.verdict(junk_cost)
    matters = verdict is not Verdict.INSUFFICIENT
    relevant = relevant_numbers(logits, at_least_one=matters and not best)
    if best and matters:
        relevant = tuple(sorted({*relevant, best}))
    missing = None if verdict is Verdict.SUFFICIENT else lacking(question, [texts[n - 1] for n in relevant])
    return Grade(verdict, missing, relevant, grader="reader", p_sufficient=reading.p_sufficient)


def _log_sum(a: float, b: float) -> float:
    """log(e^a + e^b), for any size of a and b."""
    most = max(a, b)
    return most + log(exp(a - most) + exp(b - most))
