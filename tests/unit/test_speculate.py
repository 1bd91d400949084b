"""Speculation: when a draft before the verdict pays, when it starts, and that waste is bounded over every minute."""

from dataclasses import dataclass, field

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grading.grade import Grade, Verdict
from retrieval.passage import Passage
from streaming.allowance import WINDOW_S, Allowance
from streaming.budget import Limits
from streaming.facts import AttemptEnded, DraftClosed, DraftStarted, Judged, SpeculationDecided
from streaming.faults import GeneratorOverloaded
from streaming.pace import Pace
from streaming.ports import Stopped, StopReason, Text
from streaming.speculate import DRAFTS, LEAST_HELD_TOKENS, Adaptive, Odds, Worth, bet_on
from tests.support.clock import run_virtual
from tests.support.fakes import DraftScript, FakeGenerator, FakeGrader, FakeRetriever, passages
from tests.support.loop import Loop

FREE = Worth(second=1.0, input_token=0.0, output_token=0.0)
GOOD, BAD = Grade(Verdict.SUFFICIENT, None, (1,)), Grade(Verdict.INSUFFICIENT, "everything", ())


def paced(grade_s: float, first_text_s: float, tokens_per_s: float = 80.0) -> Pace:
    pace = Pace()
    pace.graded(grade_s)
    pace.drafted(first_text_s, 1.0, round(tokens_per_s) + 1)
    return pace


def no_odds(question: str, found: tuple[Passage, ...]) -> float:
    raise AssertionError("the odds were asked for, and cannot matter")


def sure(p: float) -> Odds:
    return lambda *_: p


def test_where_the_model_is_slower_than_the_grader_a_draft_starts_at_once() -> None:
    assert bet_on(passages(1), paced(0.25, 0.4), FREE).delay_s == 0.0


def test_where_the_grader_is_slower_the_first_token_meets_the_verdict() -> None:
    bet = bet_on(passages(1), paced(0.8, 0.3), FREE)
    assert bet.delay_s == pytest.approx(0.8 - 0.3 - FREE.lead_s)


def test_the_bar_is_where_what_is_gained_equals_what_is_lost() -> None:
    found = (Passage("a", "d", "", "x" * 4_000),)  # 1,000 tokens
    worth = Worth(second=0.1, input_token=1e-5, output_token=0.0)
    bar = bet_on(found, paced(0.2, 0.5), worth).least_p
    assert bar * 0.2 * 0.1 == pytest.approx((1 - bar) * 0.01)


def test_what_costs_nothing_pays_at_any_odds_and_nobody_is_asked_for_them() -> None:
    decision = Adaptive(no_odds, Pace(), FREE, Allowance(1_000, lambda: 0.0), lambda: False).decide("q", passages(2))
    assert (decision.delay_s, decision.why, decision.p_sufficient) == (0.0, "cheap", None)


@pytest.mark.parametrize(("p", "why"), [(0.95, "likely"), (0.05, "unlikely")])
def test_what_costs_something_is_bet_on_when_it_is_likely(p: float, why: str) -> None:
    worth = Worth(second=0.01, input_token=1e-3, output_token=1e-3)
    decision = Adaptive(sure(p), Pace(), worth, Allowance(1_000, lambda: 0.0), lambda: False).decide("q", passages(2))
    assert (decision.why, decision.p_sufficient) == (why, p)
    assert (decision.delay_s is None) == (why == "unlikely")


def test_nothing_is_drafted_under_pressure() -> None:
    decision = Adaptive(no_odds, Pace(), FREE, Allowance(1_000, lambda: 0.0), lambda: True).decide("q", passages(2))
    assert (decision.delay_s, decision.why) == (None, "pressed")


def test_nothing_is_drafted_when_the_tenants_share_is_spent() -> None:
    waste = Allowance(100, lambda: 0.0)
    waste.settle(0, 90)
    decision = Adaptive(no_odds, Pace(), FREE, waste, lambda: False).decide("q", passages(2))
    assert (decision.delay_s, decision.why) == (None, "spent")


def test_a_draft_that_never_began_gives_back_what_was_kept_for_it() -> None:
    waste = Allowance(DRAFTS * LEAST_HELD_TOKENS, lambda: 0.0)
    adaptive = Adaptive(no_odds, paced(0.001, 1.0), FREE, waste, lambda: False)
    for attempt in (1, 2, 3):
        assert adaptive.decide("q", passages(2)).why == "cheap"
        adaptive.learn(SpeculationDecided(attempt, 0.0, "cheap", None))
        assert adaptive.decide("q", passages(2)).why == "spent"
        adaptive.learn(AttemptEnded(attempt, "discarded"))


def test_what_a_draft_discarded_counts_for_a_minute_and_what_it_released_does_not() -> None:
    now = [100.0]
    waste = Allowance(1_000, lambda: now[0])
    adaptive = Adaptive(no_odds, Pace(), FREE, waste, lambda: False)
    for attempt, outcome in ((1, "released"), (2, "discarded")):
        adaptive.decide("q", passages(2))
        adaptive.learn(SpeculationDecided(attempt, 0.0, "cheap", None))
        adaptive.learn(DraftStarted(attempt, 1))
        adaptive.learn(AttemptEnded(attempt, outcome))
        adaptive.learn(DraftClosed(attempt, 1, outcome, 10, 25, True, 0.0))
    assert waste.spent == 25
    now[0] += WINDOW_S + 1
    assert waste.spent == 0


def test_what_is_set_aside_stays_so_until_the_draft_is_closed_and_is_given_back_once() -> None:
    waste = Allowance(DRAFTS * LEAST_HELD_TOKENS, lambda: 0.0)
    adaptive = Adaptive(no_odds, paced(0.001, 1.0), FREE, waste, lambda: False)
    adaptive.decide("q", passages(2))
    adaptive.learn(SpeculationDecided(1, 0.0, "cheap", None))
    adaptive.learn(DraftStarted(1, 1))
    adaptive.learn(AttemptEnded(1, "discarded"))
    assert waste.reserve(1, at_least=1) == 0
    adaptive.learn(DraftClosed(1, 1, "discarded", 10, 5, True, 0.0))
    adaptive.learn(DraftClosed(1, 2, "discarded", 10, 5, True, 0.0))
    assert waste.reserve(1_000, at_least=1) == DRAFTS * LEAST_HELD_TOKENS - 10


@pytest.mark.parametrize("is_slow_to_close", [False, True])
def test_a_draft_that_failed_leaves_its_successor_what_it_may_hold(is_slow_to_close: bool) -> None:
    """A fault that nobody saw: the second draft over the set is as speculative as the first."""
    waste = Allowance(1_000, lambda: 0.0)
    adaptive = Adaptive(no_odds, paced(0.001, 1.0), FREE, waste, lambda: False)
    hold = adaptive.decide("q", passages(2)).hold_tokens
    assert hold is not None
    adaptive.learn(SpeculationDecided(1, 0.0, "cheap", None))
    adaptive.learn(DraftStarted(1, 1))
    failed = DraftClosed(1, 1, "failed", 10, hold, True, 0.0)
    if is_slow_to_close:
        adaptive.learn(DraftStarted(1, 2))
        adaptive.learn(failed)
    else:
        adaptive.learn(failed)
        adaptive.learn(DraftStarted(1, 2))
    assert waste.spent == hold
    assert waste.reserve(1_000, at_least=1) == 1_000 - DRAFTS * hold
    adaptive.learn(AttemptEnded(1, "discarded"))
    adaptive.learn(DraftClosed(1, 2, "discarded", 10, hold, True, 0.0))
    assert waste.spent == DRAFTS * hold


def test_a_draft_that_failed_and_has_no_successor_gives_back_the_rest_with_its_attempt() -> None:
    waste = Allowance(1_000, lambda: 0.0)
    adaptive = Adaptive(no_odds, paced(0.001, 1.0), FREE, waste, lambda: False)
    adaptive.decide("q", passages(2))
    adaptive.learn(SpeculationDecided(1, 0.0, "cheap", None))
    adaptive.learn(DraftStarted(1, 1))
    adaptive.learn(DraftClosed(1, 1, "failed", 10, 7, True, 0.0))
    adaptive.learn(AttemptEnded(1, "failed"))
    assert waste.reserve(2_000, at_least=1) == 1_000 - 7


def test_tokens_that_come_before_the_verdict_are_part_of_what_is_lost() -> None:
    """Of a draft that starts at once, a grade takes 0.5 s longer than the first token less what is waited for: 40 tokens at 80 a second."""
    worth = Worth(second=1.0, input_token=0.0, output_token=0.01, lead_s=0.5)
    bet = bet_on((), paced(0.8, 0.3), worth)
    assert bet.delay_s == 0.0
    assert bet.least_p == pytest.approx(0.4 / (0.3 + 0.4))


@pytest.mark.parametrize(("beside", "why"), [(0.99, "unlikely"), (1.01, "likely")])
def test_a_draft_is_bet_on_above_the_bar_alone(beside: float, why: str) -> None:
    worth, found = Worth(second=0.01, input_token=1e-3, output_token=0.0), passages(2)
    bar = bet_on(found, Pace(), worth).least_p
    adaptive = Adaptive(sure(bar * beside), Pace(), worth, Allowance(1_000, lambda: 0.0), lambda: False)
    assert adaptive.decide("q", found).why == why


def test_a_minute_is_a_whole_one_whenever_in_its_first_second_it_began() -> None:
    now = [100.9]
    allowance = Allowance(10, lambda: now[0])
    for _ in range(5):
        allowance.settle(0, 1)
    allowance.settle(0, 0)
    allowance.settle(0, -3)
    assert (allowance.spent, len(allowance._slots)) == (5, 1)
    now[0] = 160.8
    assert allowance.spent == 5
    now[0] = 161.0
    assert allowance.spent == 0


@pytest.mark.parametrize("tokens", [0, 1])
def test_a_draft_of_one_token_says_nothing_of_the_pace_between_two(tokens: int) -> None:
    pace = Pace()
    pace.drafted(0.0, 0.3, tokens)
    assert pace.tokens_per_s == pytest.approx(60.0)


def test_the_pace_is_learnt_and_a_fault_teaches_nothing() -> None:
    pace = Pace()
    adaptive = Adaptive(no_odds, pace, FREE, Allowance(1_000, lambda: 0.0), lambda: False)
    adaptive.learn(Judged(1, None, 10.0, "grader_unavailable"))
    assert pace.grade_s == pytest.approx(0.5)
    for _ in range(60):
        adaptive.learn(Judged(1, GOOD, 0.25))
        adaptive.learn(DraftClosed(1, 1, "released", 10, 41, True, 0.0, first_text_s=0.4, text_s=0.5))
    assert (pace.grade_s, pace.first_text_s, pace.tokens_per_s) == pytest.approx((0.25, 0.4, 80.0))


@dataclass
class Spending:
    """What was discarded when, beside a Allowance that has to allow it."""

    limit: int
    now: float = 1_000.0
    open: list[int] = field(default_factory=list)
    discarded: list[tuple[float, int]] = field(default_factory=list)

    def worst_window(self) -> int:
        return max(
            (
                sum(tokens for at, tokens in self.discarded if begin - WINDOW_S < at <= begin)
                for begin, _ in self.discarded
            ),
            default=0,
        )


steps = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.floats(0.0, 40.0)),
        st.tuples(st.just("draft"), st.integers(1, 200)),
        st.tuples(st.just("close"), st.floats(0.0, 1.0)),
    ),
    max_size=60,
)


@given(st.integers(0, 400), steps)
def test_no_minute_ever_holds_more_discarded_tokens_than_the_tenant_may_cause(
    limit: int, taken: list[tuple[str, float]]
) -> None:
    spending = Spending(limit)
    waste = Allowance(limit, lambda: spending.now)
    for step, size in taken:
        if step == "wait":
            spending.now += size
        elif step == "draft":
            reserved = waste.reserve(int(size), at_least=1)
            assert 0 <= reserved <= size
            if reserved:
                spending.open.append(reserved)
        elif spending.open:
            reserved = spending.open.pop(0)
            discarded = round(reserved * size)
            waste.settle(reserved, discarded)
            spending.discarded.append((spending.now, discarded))
        assert spending.worst_window() <= limit


@pytest.mark.parametrize("fault", [None, GeneratorOverloaded("busy")])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_answers_in_a_row_stop_drafting_early_when_their_minute_is_spent(
    backend: str, fault: GeneratorOverloaded | None
) -> None:
    """Every verdict is bad and late, every draft fast and long: what is held back is what the tenant may waste. Also where each draft fails
    before its verdict, when it holds nearly all that it may, and is begun again."""
    stream = [(0.01, (Text("four" * 10),))] * (300 if fault is None else 6)
    text = DraftScript((*stream, (0.0, (Stopped(StopReason.END),))) if fault is None else tuple(stream), fault=fault)

    async def play(limit: int) -> tuple[list[int], list[str]]:
        waste, pace = Allowance(limit, anyio.current_time), paced(0.5, 0.01, 1_000.0)
        discarded, why = list[int](), list[str]()
        for _ in range(6):
            loop = Loop(
                grader=FakeGrader([(2.0, BAD)]),
                generator=FakeGenerator([text]),
                house=FakeRetriever([(0.0, passages(2))]),
                speculator=Adaptive(no_odds, pace, FREE, waste, lambda: False),
                limits=Limits(max_retries=0),
            )
            await loop.play()
            discarded.append(sum(fact.output_tokens for fact in loop.facts.of(DraftClosed)))
            why += [fact.why for fact in loop.facts.of(SpeculationDecided)]
        return discarded, why

    for limit in (500, 560, 620):
        discarded, why = run_virtual(backend, play, limit)
        assert sum(discarded) <= limit
        assert discarded[0] > (0 if fault is None else 60)  # of two drafts
        assert why[-1] == "spent"
        assert discarded[-1] == 0
