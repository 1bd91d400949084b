"""Whether to draft before the verdict, and when: from what retrieval knows, what it has taken before, and what a token costs."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from retrieval.passage import Passage
from streaming.allowance import Allowance
from streaming.facts import AttemptEnded, DraftClosed, DraftStarted, Fact, Judged, SpeculationDecided, Weighed
from streaming.ledger import CHARACTERS_PER_TOKEN
from streaming.pace import Pace
from streaming.ports import Decision

SURE = 0.02  # no estimate of p from cheap signals is believed below it: what pays even then is not estimated (1 ms of the event loop)
MENDED = 0.6  # of the sets that do not do, how many a wider search mends
LEAST_HELD_TOKENS = 32  # a draft that may not even hold a sentence is none
DRAFTS = 2  # of one set before its verdict: a second one where the first failed and nobody saw it (streaming.budget.Limits.redrafts)

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

    `grade_token` is one that the grader reads. `lead_s` is how long before the verdict the first token is wanted, where the draft can wait:
    for what the estimates do not know.
    """

    second: float
    input_token: float
    output_token: float
    lead_s: float = 0.02
    grade_token: float = 0.0


@dataclass(slots=True)
class Lookouts:
    """How many answers look ahead at once, in all: a wider search takes a processor longer than any other part of an answer.

    `are_shed` says whether the server has too much to do for it.
    """

    most: int
    begun: int = 0
    are_shed: Callable[[], bool] = lambda: False

    @property
    def is_full(self) -> bool:
        return self.begun >= self.most or self.are_shed()


@dataclass(slots=True)
class SetAside:
    """What is set aside of the allowance for the drafts over one set, until the last of them is closed."""

    reserved: int
    open: int = 0
    is_over: bool = False


class Adaptive:
    """Draft when p * min(g, t) * worth of a second > (1 - p) * cost of a draft, so late that the first token meets the verdict.

    g is how long a grade takes, t a first token. Never under pressure, nor when the tenant has discarded its share of tokens; looking
    ahead has a pressure of its own (Lookouts), and goes later. One answer's own: what it may discard is reserved when a draft is decided
    on, and what it did discard is entered when the draft is closed.
    """

    def __init__(
        self,
        odds: Odds,
        pace: Pace,
        worth: Worth,
        waste: Allowance,
        is_pressed: Callable[[], bool],
        lookouts: Lookouts | None = None,
    ) -> None:
        """`lookouts`: a wider set may be prepared beside one that will hardly do, while they are not full; None: never."""
        self._odds, self._pace, self._worth = odds, pace, worth
        self._waste, self._is_pressed, self._lookouts = waste, is_pressed, lookouts or Lookouts(0)
        self._ahead_of: set[int] = set()
        self._decided = 0  # tokens reserved by the decision that was just taken
        self._shares: dict[int, SetAside] = {}  # by attempt

    def decide(self, question: str, passages: tuple[Passage, ...]) -> Decision:
        """As the port says. `why`: likely, cheap (it pays whatever p is), unlikely, spent, pressed."""
        self._decided = 0
        is_pressed, may_look_ahead = self._is_pressed(), not self._lookouts.is_full
        if is_pressed and not may_look_ahead:
            return Decision(None, "pressed")
        bet = bet_on(passages, self._pace, self._worth)
        matters = bet.least_p > (0.0 if may_look_ahead else SURE)
        p = self._odds(question, passages) if matters else None
        ahead = may_look_ahead and p is not None and p < bet.ahead_p
        weighed = Weighed(self._pace.grade_s, self._pace.first_text_s, bet.least_p, bet.ahead_p, ahead)
        if is_pressed:
            return Decision(None, "pressed", p, weighed=weighed, looks_ahead=ahead)
        if p is not None and p <= bet.least_p:
            return Decision(None, "unlikely", p, weighed=weighed, looks_ahead=ahead)
        self._decided = self._waste.reserve(DRAFTS * bet.held_tokens, at_least=DRAFTS * LEAST_HELD_TOKENS)
        if not self._decided:
            return Decision(None, "spent", p, weighed=replace(weighed, looks_ahead=False))
        return Decision(bet.delay_s, "cheap" if p is None else "likely", p, self._decided // DRAFTS, weighed, ahead)

    def learn(self, fact: Fact) -> None:
        """Folds what took how long into the pace, and what was discarded into the waste."""
        match fact:
            case SpeculationDecided(attempt=attempt):
                self._shares[attempt], self._decided = SetAside(self._decided), 0
                if fact.weighed is not None and fact.weighed.looks_ahead:
                    self._ahead_of.add(attempt)
                    self._lookouts.begun += 1
            case Judged(grade=grade, took_s=took_s) if grade is not None:
                self._pace.graded(took_s)
            case DraftStarted(attempt=attempt):
                self._share(attempt).open += 1
            case DraftClosed():
                self._pace.drafted(fact.first_text_s, fact.text_s, fact.output_tokens)
                self._close(fact)
            case AttemptEnded(attempt=attempt):
                share = self._share(attempt)
                share.is_over = True
                if attempt in self._ahead_of:
                    self._ahead_of.remove(attempt)
                    self._lookouts.begun -= 1
                if not share.open:
                    self._give_back(share)
            case _:
                pass

    def _share(self, attempt: int) -> SetAside:
        return self._shares.setdefault(attempt, SetAside(0))

    def _close(self, closed: DraftClosed) -> None:
        """Enters what was discarded. What is left of the share stays set aside while another draft may use it."""
        share = self._share(closed.attempt)
        share.open -= 1
        of_it = min(closed.discarded_tokens, share.reserved)
        share.reserved -= of_it
        self._waste.settle(of_it, closed.discarded_tokens)
        if not share.open and (share.is_over or closed.outcome != "failed"):
            self._give_back(share)

    def _give_back(self, share: SetAside) -> None:
        self._waste.settle(share.reserved, 0)
        share.reserved = 0


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
    ahead_cost = cost + input_tokens * worth.grade_token  # a set like this one, graded and drafted on
    return Bet(delay_s, least_p, LEAST_HELD_TOKENS + round(held), ahead_below(ahead_cost, g_s * worth.second))


def ahead_below(cost: float, grade_gain: float) -> float:
    """The p below which a wider set pays: where this one fails and that one does, which is needed in (1 - p) * MENDED of the cases, the
    answer does not wait for a second grade. 0: never."""
    needed = cost / (grade_gain + cost) if cost > 0 else 0.0
    return max(0.0, 1 - needed / MENDED)
