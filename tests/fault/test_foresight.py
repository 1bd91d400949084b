"""Foresight: a wider set prepared beside a first one that will hardly do. In virtual time: r = 1, g = 3, t = 4 s."""

from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import pytest

from grading.faults import GraderUnavailable
from grading.grade import Grade, Verdict
from retrieval.faults import RetrievalUnavailable
from retrieval.passage import Passage
from streaming.allowance import Allowance
from streaming.answer import answer
from streaming.ask import Ask
from streaming.budget import Limits, Verify
from streaming.events import Done, Event, Failed, Refusal, Retry, Sources, Status, Token
from streaming.facts import (
    AttemptBegan,
    AttemptEnded,
    DraftClosed,
    DraftStarted,
    Fact,
    Judged,
    Retrieved,
    SpeculationDecided,
)
from streaming.faults import GeneratorMisconfigured
from streaming.foresight import DROPPED_FROM
from streaming.halt import Halt
from streaming.pace import Pace
from streaming.ports import Decision, Stopped, StopReason, Text, Usage
from streaming.speculate import Adaptive, Lookouts, Worth, bet_on
from tests.support.clock import run_virtual
from tests.support.fakes import (
    DraftScript,
    FakeGenerator,
    FakeGrader,
    FakeRetriever,
    FakeRewriter,
    FakeVerifier,
    passages,
)
from tests.support.loop import Loop, play

R, G, T = 1.0, 3.0, 4.0
GOOD = Grade(Verdict.SUFFICIENT, relevant=(1, 2))
NONE = Grade(Verdict.INSUFFICIENT)
PART = Grade(Verdict.PARTIAL, missing="the price", relevant=(1,))


@dataclass
class Doubtful:
    """Drafts on no first set, and looks ahead; drafts on every later one at once."""

    first_delay_s: float | None = None
    later_delay_s: float | None = 0.0
    hold_tokens: int | None = None
    decisions: int = 0
    told: list[Fact] = field(default_factory=list)

    def decide(self, question: str, found: tuple[Passage, ...]) -> Decision:
        self.decisions += 1
        if self.decisions == 1:
            return Decision(self.first_delay_s, "test", looks_ahead=True)
        return Decision(self.later_delay_s, "test", hold_tokens=self.hold_tokens)

    def learn(self, fact: Fact) -> None:
        self.told.append(fact)


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def draft(text: str, read: int = 100) -> DraftScript:
    said = (T, (Text(text), Usage(read, 7)))
    return DraftScript((said, (8.0, (Text(" And so on."),)), (0.0, (Stopped(StopReason.END, Usage(read, 9)),))))


def looking(*grades: tuple[float, Any], drafts: tuple[str, ...] = ("one", "two"), **more: Any) -> Loop:
    """A loop whose first set is doubtful; `grades` are those of the first set, the wider one and the next one, in order of their start."""
    more = {"speculator": Doubtful(), **more}
    house = FakeRetriever([(R, passages(2, tag)) for tag in ("a", "b", "c")])
    return Loop(FakeGrader(list(grades)), FakeGenerator([draft(text) for text in drafts]), house, **more)


def first_token(loop: Loop) -> float:
    return loop.times(Token)[0]


def test_an_answer_from_the_wider_set_waits_for_no_second_grade(backend: str) -> None:
    loop = play(backend, looking((G, NONE), (G, GOOD)))
    assert first_token(loop) == R + R + max(G, T)  # without foresight R + G + R + max(G, T)
    assert loop.text == "one And so on."
    assert [(d.path, d.attempts) for d in loop.of(Done)] == [("recovered", 2)]
    assert [(r.attempt, r.correction) for r in loop.of(Retry)] == [(1, "broaden")]
    assert (loop.calls("search"), loop.calls("grade"), loop.calls("draft")) == (2, 2, 1)


def test_nothing_of_the_wider_set_is_sent_or_told_before_the_first_verdict(backend: str) -> None:
    loop = play(backend, looking((9.0, NONE), (1.0, GOOD)))
    assert min(*loop.times(Token), *loop.times(Sources)) == R + 9.0
    assert all(e.attempt == 1 for at, e in loop.events if isinstance(e, Status) and at < R + 9.0)
    told = [(at, fact) for at, fact in loop.facts.told if getattr(fact, "attempt", None) == 2]
    began = loop.facts.told[0][0]
    assert min(at for at, _ in told) - began == R + 9.0
    order = [type(fact) for _, fact in told]
    assert order[0] is AttemptBegan
    assert order.index(Retrieved) < order.index(DraftStarted) < order.index(Judged)


def test_a_draft_that_nobody_knew_of_is_told_with_its_age(backend: str) -> None:
    loop = play(backend, looking((G, NONE), (G, GOOD)))
    (started,) = loop.facts.of(DraftStarted)
    assert (started.attempt, started.draft, started.ago_s) == (2, 1, G - R)


def test_a_wider_set_known_to_do_comes_before_the_gap_query(backend: str) -> None:
    loop = play(backend, looking((G, PART), (1.0, GOOD)))
    assert [r.correction for r in loop.of(Retry)] == ["broaden"]
    assert first_token(loop) == R + R + T


def test_while_the_wider_set_has_no_verdict_the_gap_is_searched_for_beside_it(backend: str) -> None:
    """What is missing is known, what the wider set holds is not. The gap's set is known to do first."""
    loop = play(backend, looking((G, PART), (9.5, GOOD), (1.0, GOOD)))
    assert [r.correction for r in loop.of(Retry)] == ["gap_query"]
    assert first_token(loop) == R + G + R + T
    assert [(d.path, d.attempts) for d in loop.of(Done)] == [("recovered", 2)]
    assert loop.text == "two And so on."
    assert loop.grader.running == 0  # type: ignore[union-attr]


def test_of_two_sets_side_by_side_the_one_known_to_do_first_is_taken(backend: str) -> None:
    loop = play(backend, looking((G, PART), (4.0, GOOD), (G, GOOD)))
    assert [r.correction for r in loop.of(Retry)] == ["broaden"]
    assert first_token(loop) == R + R + T
    assert loop.text == "one And so on."
    closed = [(f.attempt, f.draft, f.outcome) for f in loop.facts.of(DraftClosed)]
    assert closed == [(1, 2 * DROPPED_FROM + 1, "discarded"), (2, 1, "released")]
    assert loop.grader.running == 0  # type: ignore[union-attr]


def test_the_gap_query_has_lost_no_time_when_the_wider_set_does_not_do(backend: str) -> None:
    loop = play(backend, looking((G, PART), (4.0, NONE), (G, GOOD)))
    assert [r.correction for r in loop.of(Retry)] == ["gap_query"]
    assert first_token(loop) == R + G + R + T
    assert loop.calls("search") == 3


@pytest.mark.parametrize("gap_s", [1.0, 9.0])
def test_where_neither_set_does_the_answer_ends_within_its_attempts(backend: str, gap_s: float) -> None:
    loop = play(backend, looking((G, PART), (4.0, NONE), (gap_s, NONE)))
    assert [r.correction for r in loop.of(Retry)] == ["gap_query"]
    assert [(d.path, d.attempts) for d in loop.of(Done)] == [("refused", 2)]
    assert loop.times(Done) == [max(R + R + 4.0, R + G + R + gap_s)]
    assert loop.calls("grade") == 3


def test_a_client_that_leaves_while_two_sets_are_raced_leaves_nothing_of_them(backend: str) -> None:
    loop = play(backend, looking((G, PART), (9.5, GOOD), (9.5, GOOD), leaves_at=R + G + R + 0.5))
    assert loop.grader.running == 0  # type: ignore[union-attr]
    assert len(loop.generator.drafts) == 2
    assert all(each.closed_at is not None for each in loop.generator.drafts)


def test_a_wider_set_that_comes_to_do_spares_a_second_correction(backend: str) -> None:
    loop = play(backend, looking((G, PART), (9.5, GOOD), (1.0, NONE), limits=Limits(max_retries=2)))
    assert [r.correction for r in loop.of(Retry)] == ["broaden"]
    assert loop.calls("search") == 3
    assert [d.path for d in loop.of(Done)] == ["recovered"]


def test_a_search_that_is_paid_for_is_not_made_ahead(backend: str) -> None:
    loop = looking((G, PART), (1.0, GOOD), limits=Limits(external_searches=2))
    parts = loop.parts
    loop.parts = lambda: replace(parts(), sources=(replace(parts().sources[0], external=True),))  # type: ignore[method-assign]
    assert [r.correction for r in play(backend, loop).of(Retry)] == ["gap_query"]
    assert loop.calls("search") == 2


@pytest.mark.parametrize("wider_s", [1.0, 4.0])
def test_a_wider_set_that_comes_next_and_does_not_do_ends_its_attempt_at_once(backend: str, wider_s: float) -> None:
    """Whichever verdict came first: a question is refused after what was tried, not after who was quicker."""
    loop = play(backend, looking((G, NONE), (wider_s, NONE), (1.0, GOOD), rewriter=FakeRewriter("other words")))
    assert [r.correction for r in loop.of(Retry)] == ["broaden"]
    assert [(d.path, d.attempts) for d in loop.of(Done)] == [("refused", 2)]
    assert loop.times(Done) == [R + max(G, R + wider_s)]
    assert loop.calls("search") == 2
    again = play(
        backend,
        looking(
            (G, NONE), (wider_s, NONE), (1.0, GOOD), rewriter=FakeRewriter("other words"), limits=Limits(max_retries=2)
        ),
    )
    assert [r.correction for r in again.of(Retry)] == ["broaden", "rewrite"]
    assert [d.path for d in again.of(Done)] == ["recovered"]


def test_a_wider_set_known_not_to_do_is_not_searched_for_again(backend: str) -> None:
    loop = play(backend, looking((G, PART), (1.0, NONE), (1.0, NONE), limits=Limits(max_retries=2)))
    assert [r.correction for r in loop.of(Retry)] == ["gap_query"]
    assert [d.path for d in loop.of(Done)] == ["refused"]
    assert loop.calls("search") == 2 + 1


def test_a_good_verdict_ends_at_once_what_was_begun_for_a_bad_one(backend: str) -> None:
    loop = play(backend, looking((G, GOOD), (9.5, GOOD)))
    began = loop.facts.told[0][0]
    closed = {
        (fact.attempt, fact.draft): (at - began, fact) for at, fact in loop.facts.told if isinstance(fact, DraftClosed)
    }
    at, dropped = closed[1, DROPPED_FROM + 1]
    assert (at, dropped.outcome) == (R + G, "discarded")
    assert [(d.path, d.attempts) for d in loop.of(Done)] == [("clean", 1)]
    assert loop.text == "two And so on."  # the draft on the first set began after its verdict
    assert loop.grader.running == 0  # type: ignore[union-attr]


def test_what_was_drafted_for_nothing_is_in_the_ledger_and_told(backend: str) -> None:
    loop = play(backend, looking((9.0, GOOD), (9.5, GOOD)))
    (done,) = loop.of(Done)
    closed = [fact for fact in loop.facts.of(DraftClosed) if fact.outcome == "discarded"]
    assert done.usage["discarded_tokens"] == sum(fact.output_tokens for fact in closed) == 7


def test_before_its_turn_a_draft_holds_no_more_than_was_set_aside_for_it(backend: str) -> None:
    """Also after its own verdict: until the first one is in, nobody knows that any of it is of use."""
    wordy = DraftScript(
        (*((0.5, (Text("four"),)) for _ in range(10)), (0.0, (Stopped(StopReason.END, Usage(100, 10)),)))
    )

    def looked(first: Grade) -> Loop:
        loop = looking((9.0, first), (1.0, GOOD), speculator=Doubtful(hold_tokens=2))
        loop.generator.scripts[0] = wordy
        return play(backend, loop)

    (dropped,) = (fact for fact in looked(GOOD).facts.of(DraftClosed) if fact.outcome == "discarded")
    assert dropped.output_tokens == 2
    taken = looked(NONE)
    assert taken.text == "four" * 10
    assert first_token(taken) == R + 9.0


@pytest.mark.parametrize(("later_delay_s", "strict_subset", "drafted"), [(None, False, 0), (0.0, True, 1)])
def test_a_good_verdict_on_the_wider_set_begins_no_draft_before_its_turn(
    backend: str, later_delay_s: float | None, strict_subset: bool, drafted: int
) -> None:
    """Nothing was set aside for it: the tenant's share may be spent, the server pressed."""
    grades = (1.0, Grade(Verdict.SUFFICIENT, relevant=(1,)))
    more: dict[str, Any] = {"limits": Limits(strict_subset=strict_subset)}
    dropped = play(backend, looking((9.0, GOOD), grades, speculator=Doubtful(None, later_delay_s), **more))
    assert [(d.path, d.attempts) for d in dropped.of(Done)] == [("clean", 1)]
    assert dropped.calls("draft") == drafted + 1
    taken = play(backend, looking((9.0, NONE), grades, speculator=Doubtful(None, later_delay_s), **more))
    assert [d.path for d in taken.of(Done)] == ["recovered"]
    assert first_token(taken) == R + 9.0 + T


@pytest.mark.parametrize(("total", "allowed"), [(150, [100]), (299, [100]), (300, [100, 100])])
def test_drafts_side_by_side_keep_to_the_tokens_of_the_answer_and_the_first_comes_first(
    backend: str, total: int, allowed: list[int]
) -> None:
    """And none is made shorter for another: it would be cut short in the answer."""
    limits = Limits(output_tokens=100, total_output_tokens=total)
    loop = play(backend, looking((9.0, GOOD), (9.5, GOOD), speculator=Doubtful(0.0), limits=limits))
    assert [prompt.max_tokens for prompt in loop.generator.prompts] == allowed
    assert [(d.path, d.attempts) for d in loop.of(Done)] == [("clean", 1)]


def test_a_wider_set_takes_no_input_tokens_that_the_first_draft_needs(backend: str) -> None:
    one = sum(len(p.title) + len(p.text) for p in passages(2, "a")) // 4
    for total, drafts in ((2 * one - 1, 1), (2 * one, 2)):
        limits = Limits(total_input_tokens=total)
        loop = looking((9.0, GOOD), (9.5, GOOD), limits=limits)
        loop.generator.scripts = [draft("one", one), draft("two", one)]
        assert play(backend, loop).calls("draft") == drafts
        assert [d.path for d in loop.of(Done)] == ["clean"]


def test_a_wider_set_whose_draft_failed_does_not_go_before_the_gap_query(backend: str) -> None:
    loop = looking((9.0, PART), (1.0, GOOD), (1.0, GOOD))
    loop.generator.scripts[0] = DraftScript((), fault=GeneratorMisconfigured("key"))
    play(backend, loop)
    assert [r.correction for r in loop.of(Retry)] == ["gap_query"]
    assert [d.path for d in loop.of(Done)] == ["recovered"]
    closed = [(f.attempt, f.draft, f.outcome) for f in loop.facts.of(DraftClosed)]
    assert closed == [(1, DROPPED_FROM + 1, "failed"), (2, 1, "released")]


def test_without_a_retry_left_nothing_is_prepared(backend: str) -> None:
    loop = play(backend, looking((G, NONE), limits=Limits(max_retries=0)))
    assert (loop.calls("search"), loop.calls("grade"), loop.calls("draft")) == (1, 1, 0)
    assert len(loop.of(Refusal)) == 1


def test_a_wider_search_that_fails_fails_where_it_is_needed_and_nowhere_else(backend: str) -> None:
    def failing(*grades: tuple[float, Any]) -> Loop:
        loop = looking(*grades)
        loop.house.sets[1] = (R, RetrievalUnavailable("no database"))
        return play(backend, loop)

    assert [d.path for d in failing((G, GOOD)).of(Done)] == ["clean"]
    assert [d.path for d in failing((G, PART), (1.0, GOOD)).of(Done)] == ["recovered"]  # by the gap query
    assert [d.path for d in failing((G, NONE)).of(Done)] == ["failed"]


def test_a_client_that_leaves_leaves_nothing_of_it(backend: str) -> None:
    loop = play(backend, looking((G, NONE), (9.5, GOOD), leaves_at=R + R + 0.5))
    assert loop.grader.running == 0  # type: ignore[union-attr]
    assert all(each.closed_at is not None for each in loop.generator.drafts)
    assert loop.written["house"].running == 0


DEAR = Worth(second=1.0, input_token=1e-2, output_token=1e-3)


def adaptive(
    p: float,
    *,
    most_ahead: int = 9,
    is_pressed: bool = False,
    are_shed: bool = False,
    allowance: Allowance | None = None,
) -> Adaptive:
    waste = allowance or Allowance(100_000, lambda: 0.0)
    return Adaptive(
        lambda *_: p, Pace(), DEAR, waste, lambda: is_pressed, Lookouts(most_ahead, are_shed=lambda: are_shed)
    )


def test_a_wider_set_is_prepared_where_that_pays(backend: str) -> None:
    found = passages(2)
    bar = bet_on(found, Pace(), DEAR).ahead_p
    assert 0 < bar < 1
    assert adaptive(bar - 0.01).decide("q", found).looks_ahead
    assert not adaptive(bar + 0.01).decide("q", found).looks_ahead
    assert not adaptive(bar - 0.01, are_shed=True).decide("q", found).looks_ahead
    assert not adaptive(bar - 0.01, most_ahead=0).decide("q", found).looks_ahead


@pytest.mark.parametrize(
    ("is_pressed", "are_shed", "expected"),
    [
        (False, False, ("likely", True, True)),
        (True, False, ("pressed", False, True)),
        (True, True, ("pressed", False, False)),
    ],
)
def test_under_load_the_draft_goes_first_and_the_wider_set_next(
    is_pressed: bool, are_shed: bool, expected: tuple[str, bool, bool]
) -> None:
    found, worth = passages(2), Worth(second=1.0, input_token=1e-3, output_token=1e-4)
    bet = bet_on(found, Pace(), worth)
    p = (bet.least_p + bet.ahead_p) / 2
    assert bet.least_p < p < bet.ahead_p
    waste, lookouts = Allowance(100_000, lambda: 0.0), Lookouts(9, are_shed=lambda: are_shed)
    decision = Adaptive(lambda *_: p, Pace(), worth, waste, lambda: is_pressed, lookouts).decide("q", found)
    assert (decision.why, decision.delay_s is not None, decision.looks_ahead) == expected
    assert (waste.used > 0) == (decision.delay_s is not None)


def test_no_more_answers_look_ahead_at_once_than_may() -> None:
    found, lookouts = passages(2), Lookouts(1)
    waste = Allowance(100_000, lambda: 0.0)
    one, two = (Adaptive(lambda *_: 0.3, Pace(), DEAR, waste, lambda: False, lookouts) for _ in range(2))

    def decided(adaptive: Adaptive) -> bool:
        decision = adaptive.decide("q", found)
        adaptive.learn(SpeculationDecided(1, decision.delay_s, decision.why, 0.3, weighed=decision.weighed))
        return decision.looks_ahead

    assert [decided(one), decided(two)] == [True, False]
    two.learn(AttemptEnded(1, "discarded"))
    assert not decided(two)
    one.learn(AttemptEnded(1, "discarded"))
    assert decided(two)


@pytest.mark.parametrize("first", [NONE, PART, GOOD])
@pytest.mark.parametrize("wider_s", [0.5, G, 9.5])
def test_everything_set_aside_for_drafts_is_given_back(backend: str, first: Grade, wider_s: float) -> None:
    allowance = Allowance(100_000, lambda: 0.0)
    loop = play(
        backend, looking((G, first), (wider_s, GOOD), (1.0, GOOD), speculator=adaptive(0.3, allowance=allowance))
    )
    assert loop.calls("search") >= 2  # it looked ahead
    discarded = sum(fact.output_tokens for fact in loop.facts.of(DraftClosed) if fact.outcome == "discarded")
    assert allowance.spent == discarded
    assert allowance.reserve(100_000 - discarded, at_least=100_000 - discarded) == 100_000 - discarded


def test_a_good_verdict_cuts_a_wider_search_that_still_runs(backend: str) -> None:
    loop = looking((G, GOOD))
    loop.house.sets[1] = (99.0, passages(2, "b"))
    running: list[int] = []
    loop.generator.on_resume = lambda _draft: running.append(loop.written["house"].running)
    assert [d.path for d in play(backend, loop).of(Done)] == ["clean"]
    assert set(running) == {0}


def test_what_ran_for_nothing_beside_a_set_without_a_verdict_is_told_as_discarded(backend: str) -> None:
    loop = play(backend, looking((9.0, GraderUnavailable("down")), (9.5, GOOD)))
    assert [refusal.reason for refusal in loop.of(Refusal)] == ["grader_unavailable"]
    closed = [(f.attempt, f.draft, f.outcome) for f in loop.facts.of(DraftClosed)]
    assert closed == [(1, DROPPED_FROM + 1, "discarded")]


def test_a_race_that_has_had_its_turn_ends_with_the_deadline(backend: str) -> None:
    deadline_s = R + G + 2.0
    loop = play(backend, looking((G, NONE), (50.0, GOOD), limits=Limits(deadline_s=deadline_s, grade_timeout_s=99.0)))
    assert loop.times(Done) == [deadline_s]
    assert [refusal.reason for refusal in loop.of(Refusal)] == ["budget_exhausted"]
    assert loop.grader.running == 0  # type: ignore[union-attr]


def test_the_next_attempt_is_announced_as_any_other(backend: str) -> None:
    loop = play(backend, looking((G, NONE), (G, GOOD)))
    stages = [(status.attempt, status.stage) for status in loop.of(Status)]
    assert stages == [
        (1, "retrieving"),
        (1, "grading"),
        (2, "correcting"),
        (2, "retrieving"),
        (2, "grading"),
        (2, "generating"),
    ]


@pytest.mark.parametrize("is_halted", [True, False])
def test_two_tasks_never_emit_at_once_when_its_turn_is_cut_short(backend: str, is_halted: bool) -> None:
    """A client that reads slowly: what the race had in hand is let go of before the last events are."""

    async def told(stops_s: float) -> list[Event]:
        loop = looking((G, NONE), (1.0, GOOD))
        limits = Limits(deadline_s=99.0 if is_halted else stops_s)
        halt, emitting, events = Halt(), [False], list[Event]()

        async def emit(these: tuple[Event, ...]) -> None:
            assert not emitting[0]
            emitting[0] = True
            try:
                events.extend(these)
                await anyio.sleep(1.0)
            finally:
                emitting[0] = False

        async def stop() -> None:
            await anyio.sleep(stops_s)
            if is_halted:
                halt.now(RetrievalUnavailable("going down"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop)
            await answer(Ask("ans_1", "0" * 32, "What is it?"), loop.parts(), limits, emit, loop.facts, halt)
        return events

    for half_seconds in range(1, 32):
        events = run_virtual(backend, told, half_seconds / 2 + 0.25)
        assert isinstance(events[-2], Failed if is_halted else Refusal)
        assert isinstance(events[-1], Done)
    assert any(isinstance(event, Token) for event in events)


def test_what_was_set_aside_for_a_draft_that_never_began_is_given_back(backend: str) -> None:
    allowance, pace = Allowance(100_000, lambda: 0.0), Pace()
    pace.graded(9.0)
    pace.drafted(0.1, None, 0)
    late = Adaptive(lambda *_: 0.3, pace, Worth(1.0, 1e-6, 0.0), allowance, lambda: False, Lookouts(1))
    loop = play(backend, looking((G, GOOD), (9.5, GOOD), speculator=late))
    assert loop.calls("search") == 2
    assert all(fact.draft < DROPPED_FROM for fact in loop.facts.of(DraftStarted))
    assert allowance.reserve(100_000, at_least=100_000) == 100_000


def test_a_wider_set_known_to_do_comes_after_an_ungrounded_answer_and_once(backend: str) -> None:
    limits = Limits(max_retries=2, verify=Verify.GATE)
    grades = ((9.0, GOOD), (1.0, GOOD), (1.0, NONE), (1.0, GOOD))
    loop = play(backend, looking(*grades, limits=limits, verifier=FakeVerifier(lie="two")))
    assert [retry.correction for retry in loop.of(Retry)] == ["broaden"]
    assert [d.path for d in loop.of(Done)] == ["refused"]
    assert loop.text == ""


def test_what_the_second_attempt_waited_for_its_search_is_told(backend: str) -> None:
    loop = looking((G, NONE), (1.0, GOOD))
    loop.house.sets[1] = (5.0, passages(2, "b"))
    play(backend, loop)
    assert [(fact.attempt, fact.took_s) for fact in loop.facts.of(Retrieved)] == [(1, R), (2, 5.0 - G)]


def test_what_was_told_as_an_attempt_is_not_told_again_when_that_failed(backend: str) -> None:
    loop = play(backend, looking((G, NONE), (9.0, NONE), limits=Limits(max_retries=2)))
    drafts: list[Any] = [*loop.facts.of(DraftStarted), *loop.facts.of(DraftClosed)]
    assert [(fact.attempt, fact.draft) for fact in drafts] == [(2, 1), (2, 1)]


def test_a_wider_set_for_whose_draft_no_tokens_are_left_is_raced_over_when_its_turn_comes(backend: str) -> None:
    limits = Limits(output_tokens=100, total_output_tokens=299)
    loop = play(backend, looking((9.0, NONE), (1.0, GOOD), speculator=Doubtful(0.0), limits=limits))
    assert [(d.path, d.attempts) for d in loop.of(Done)] == [("recovered", 2)]
    assert loop.calls("search") == 2


def test_only_the_first_attempt_looks_ahead(backend: str) -> None:
    class Eager(Doubtful):
        def decide(self, question: str, found: tuple[Passage, ...]) -> Decision:
            return Decision(0.0, "test", looks_ahead=True)

    limits = Limits(max_retries=2)
    loop = play(backend, looking((G, PART), (20.0, GOOD), (9.0, GOOD), speculator=Eager(), limits=limits))
    assert [retry.correction for retry in loop.of(Retry)] == ["gap_query"]
    assert loop.calls("search") == 3
