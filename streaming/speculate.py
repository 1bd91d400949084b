"""Whether to draft before the verdict, and when: from what retrieval knows, what it has taken before, and what a token costs."""

from collections.abc import Callable
from dataclasses import dataclass

from retrieval.passage import Passage
from streaming.allowance import Allowance
from streaming.facts import AttemptEnded, DraftClosed, DraftStarted, Fact, Judged, SpeculationDecided, Weighed
from streaming.ledger import CHARACTERS_PER_TOKEN
from streaming.pace import Pace
from streaming.ports import Decision

SURE = 0.02  # no estimate of p from cheap signals is believed below it: what pays even then is not estimated (1 ms of the event loop)
MENDED = 0.6  # of the sets that do not do, how many a wider search mends
AHEAD_CALLS = 2  # a grade and a draft over the wider set, the grade at the draft's price: more than it costs
LEAST_HELD_TOKENS = 32  # a draft that may not even hold a sentence is none

Odds = Callable[[str, tuple[Passage, ...]], float]
"""p(sufficient) of a set that is not empty, from signals that cost nothing."""


class Always:
    """Draft at once on every non-empty set."""

    def decide(self, question: str, passages: tuple[Passage, ...]) -> Decision:  # noqa: ARG002
        return Decision(delay_s=0.0, why="always")

    def learn(self, fact: Fact) -> None:
        """There is nothing to learn."""


class Never:
    """Wait for the verdict, then draft from the relevant passages: the classic sequential loop."""

    def decide(self, question: str, passages: tuple[Passage, ...]) -> Decision:  # noqa: ARG002
        return Decision(delay_s=None, why="never")

    def learn(self, fact: Fact) -> None:
        """There is nothing to learn."""


@dataclass(frozen=True, slots=True)
class Worth:
    """What a second that a user does not wait is worth, and what a token costs: any currency, one and the same.

    `lead_s` is how long before the verdict the first token is wanted, where the draft can wait: for what the estimates do not know.
    """

    second: float
    input_token: float
    output_token: float
    lead_s: float = 0.05


class Adaptive:
    """Draft when p * min(g, t) * worth of a second > (1 - p) * cost of a draft, so late that the first token meets the verdict.

    g is how long a grade takes, t a first token. Never under pressure, nor when the tenant has discarded its share of tokens. One answer's
    own: what it may discard is reserved when a draft is decided on, and what it did discard is entered when the draft is closed.
    """

    def __init__(
        self,
        odds: Odds,
        pace: Pace,
        worth: Worth,
        waste: Allowance,
        is_pressed: Callable[[], bool],
        *,
        looks_ahead: bool = False,
    ) -> None:
        """`looks_ahead`: whether a wider set may be prepared beside one that will hardly do."""
        self._odds, self._pace, self._worth = odds, pace, worth
        self._waste, self._is_pressed, self._looks_ahead = waste, is_pressed, looks_ahead
        self._decided = 0  # tokens reserved by the decision that was just taken
        self._reserved: dict[int, int] = {}  # by attempt
        self._drafting: set[int] = set()

    def decide(self, question: str, passages: tuple[Passage, ...]) -> Decision:
        """As the port says. `why`: likely, cheap (it pays whatever p is), unlikely, spent, pressed."""
        self._decided = 0
        if self._is_pressed():
            return Decision(None, "pressed")
        bet = bet_on(passages, self._pace, self._worth)
        matters = bet.least_p > (0.0 if self._looks_ahead else SURE)
        p = self._odds(question, passages) if matters else None
        weighed = Weighed(self._pace.grade_s, self._pace.first_text_s, bet.least_p)
        ahead = self._looks_ahead and p is not None and p < bet.ahead_p
        if p is not None and p <= bet.least_p:
            return Decision(None, "unlikely", p, weighed=weighed, looks_ahead=ahead)
        self._decided = self._waste.reserve(bet.held_tokens, at_least=LEAST_HELD_TOKENS)
        if not self._decided:
            return Decision(None, "spent", p, weighed=weighed)
        return Decision(bet.delay_s, "cheap" if p is None else "likely", p, self._decided, weighed, ahead)

    def learn(self, fact: Fact) -> None:
        """Folds what took how long into the pace, and what was discarded into the waste."""
        match fact:
            case SpeculationDecided(attempt=attempt):
                self._reserved[attempt], self._decided = self._decided, 0
            case Judged(grade=grade, took_s=took_s) if grade is not None:
                self._pace.graded(took_s)
            case DraftStarted(attempt=attempt):
                self._drafting.add(attempt)
            case DraftClosed(attempt=attempt):
                self._pace.drafted(fact.first_text_s, fact.text_s, fact.output_tokens)
                self._settle(attempt, 0 if fact.is_sent or fact.outcome == "released" else fact.output_tokens)
            case AttemptEnded(attempt=attempt) if attempt not in self._drafting:
                self._settle(attempt, 0)  # it had not begun yet, and will not
            case _:
                pass

    def _settle(self, attempt: int, discarded: int) -> None:
        self._waste.settle(self._reserved.pop(attempt, 0), discarded)


@dataclass(frozen=True, slots=True)
class Bet:
    """A draft before its verdict: when it starts, from which p on it pays, and how many tokens it may come to hold.

    Below `ahead_p` it pays to find a wider set, grade it and draft on it beside this one.
    """

    delay_s: float
    least_p: float
    held_tokens: int
    ahead_p: float = 0.0


def bet_on(passages: tuple[Passage, ...], pace: Pace, worth: Worth) -> Bet:
    """The bet on a set. What is gained is the shorter of the two times; what is lost are the tokens in, and those that come too early."""
    g_s, t_s = pace.grade_s, pace.first_text_s
    delay_s = max(0.0, g_s - t_s - worth.lead_s)
    early_tokens = max(0.0, g_s - delay_s - t_s) * pace.tokens_per_s
    input_tokens = sum(len(each.title) + len(each.text) for each in passages) / CHARACTERS_PER_TOKEN
    cost = input_tokens * worth.input_token + early_tokens * worth.output_token
    gain = min(g_s, t_s) * worth.second
    least_p = cost / (gain + cost) if cost > 0 else 0.0
    held = max(0.0, 2 * g_s - delay_s - t_s) * pace.tokens_per_s  # a grade that takes twice as long as usual
    return Bet(
        delay_s,
        least_p,
        LEAST_HELD_TOKENS + round(held),
        ahead_below(input_tokens * worth.input_token, g_s * worth.second),
    )


def ahead_below(set_cost: float, grade_gain: float) -> float:
    """The p below which a wider set pays: where this one fails and that one does, which is needed in (1 - p) * MENDED of the cases, the
    answer does not wait for a second grade. 0: never."""
    cost = AHEAD_CALLS * set_cost
    needed = cost / (grade_gain + cost) if cost > 0 else 0.0
    return max(0.0, 1 - needed / MENDED)
