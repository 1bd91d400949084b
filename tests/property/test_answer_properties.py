"""The invariants of the contract as properties over interleavings, in virtual time, on asyncio and on trio.

Delays are drawn from a few whole numbers, so that a verdict, a delta, a fault, the deadline and the client's leaving often
fall on the same tick.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from grading.faults import GraderUnavailable, RewriterUnavailable
from grading.grade import Grade, Verdict
from retrieval.faults import RetrievalUnavailable
from retrieval.sources import Source
from streaming.allowance import Allowance
from streaming.answer import Parts, answer
from streaming.ask import Ask
from streaming.budget import Limits, Verify
from streaming.drafting import CLOSE_LIMIT_S
from streaming.events import Citation, Done, Event, Failed, Refusal, Retry, Sources, Started, Token, Verification
from streaming.facts import (
    AttemptBegan,
    AttemptEnded,
    DraftClosed,
    DraftStarted,
    Ended,
    Fact,
    Judged,
    Released,
)
from streaming.faults import AnswerIncomplete, GeneratorMisconfigured, GeneratorOverloaded
from streaming.foresight import DROPPED_FROM
from streaming.halt import Halt
from streaming.pace import Pace
from streaming.ports import Cited, Decision, Speculator, Stopped, StopReason, Text, Usage
from streaming.speculate import Adaptive, Lookouts, Worth
from tests.support.clock import run_virtual
from tests.support.fakes import (
    DraftScript,
    Facts,
    FakeDraft,
    FakeGenerator,
    FakeGrader,
    FakeRetriever,
    FakeRewriter,
    FakeVerifier,
    MemoryGaps,
    passages,
)

EXAMPLES = int(os.environ.get("PROPERTY_EXAMPLES", "600"))  # more by hand after a change of the race
backends = st.sampled_from(["asyncio", "asyncio", "trio"])  # servers run on the first
SCARCE = 10  # output tokens of all drafts together
ROUNDING_S = 1e-6  # of a moment that is no whole number of seconds: a just-in-time draft begins at such ones
delays = st.sampled_from([0.0, 0.0, 1.0, 1.0, 2.0, 3.0, 5.0])


@dataclass(frozen=True)
class FixedSpeculator:
    delay_s: float | None
    hold_tokens: int | None = None
    looks_ahead: bool = False

    def decide(self, question: str, passages: Any) -> Decision:
        return Decision(self.delay_s, "test", hold_tokens=self.hold_tokens, looks_ahead=self.looks_ahead)

    def learn(self, fact: Fact) -> None:
        """Nothing changes its mind."""


@dataclass
class Scenario:
    sets: list[Any]
    grades: list[Any]
    drafts: list[DraftScript]
    delay_s: float | None
    hold_tokens: int | None
    looks_ahead: bool
    limits: Limits
    leaves_at: float | None
    halts_at: float | None
    reads_every_s: float
    gap_delay_s: float
    web: Any
    web_is_external: bool
    web_is_parallel: bool
    rewriter: FakeRewriter | None
    verifier: FakeVerifier | None


@dataclass
class Witness:
    """What came out, and when; and how much was outstanding while it did."""

    scenario: Scenario
    events: list[tuple[float, Event]] = field(default_factory=list)
    most_held_bytes: int = 0
    ended_at: float = 0.0
    began_at: float = 0.0
    emitting: bool = False
    left: bool = False
    retriever: FakeRetriever = field(default_factory=lambda: FakeRetriever([]))
    web: FakeRetriever = field(default_factory=lambda: FakeRetriever([]))
    verifier: FakeVerifier | None = None
    grader: FakeGrader = field(default_factory=lambda: FakeGrader([]))
    generator: FakeGenerator = field(default_factory=lambda: FakeGenerator([]))
    facts: Facts = field(default_factory=Facts)

    def of(self, kind: Any) -> list[Any]:
        return [e for _, e in self.events if isinstance(e, kind)]

    @property
    def text(self) -> str:
        return "".join(e.text for e in self.of(Token))


sufficient = st.builds(Grade, st.just(Verdict.SUFFICIENT), relevant=st.sampled_from([(1,), (1, 2), (2,)]))
contradictory = st.sampled_from(
    [
        Grade(Verdict.SUFFICIENT, missing="the price", relevant=(1,)),
        Grade(Verdict.SUFFICIENT, relevant=(1, 9)),
        Grade(Verdict.SUFFICIENT),
    ]
)
lacking = st.sampled_from([Grade(Verdict.PARTIAL, missing="the price", relevant=(1,)), Grade(Verdict.INSUFFICIENT)])
ungraded = st.sampled_from([GraderUnavailable("stalled"), ValueError("secret")])
grades = st.sampled_from("sssssslllcu").flatmap(
    {"s": sufficient, "l": lacking, "c": contradictory, "u": ungraded}.__getitem__
)
faults = st.sampled_from(
    [GeneratorOverloaded("busy"), AnswerIncomplete("cut"), GeneratorMisconfigured("key"), ValueError("secret")]
)


@st.composite
def draft_scripts(draw: st.DrawFn, tag: str) -> DraftScript:
    batches: list[tuple[float, tuple[Any, ...]]] = []
    length = 0
    for b in range(draw(st.integers(0, 4))):
        pieces: list[Any] = []
        for p in range(draw(st.integers(1, 3))):
            text = f"<{tag}.{b}.{p}{draw(st.sampled_from(['', 'é' * 5, 'x' * 40]))}>{draw(st.sampled_from(['', '. ', chr(10)]))}"
            text = draw(st.sampled_from([text] * 7 + ["\n\n"]))
            pieces.append(Text(text))
            if draw(st.booleans()):
                pieces.append(Cited(draw(st.integers(1, 3)), length, length + len(text), "q"))
            length += len(text)
        if draw(st.booleans()):
            pieces.append(Usage(10, b))
        batches.append((draw(delays), tuple(pieces)))
    ending = draw(st.sampled_from(["stop"] * 6 + ["length", "refusal", "fault", "fault", "hang"]))
    if ending in {"stop", "length", "refusal"}:
        stop = Stopped(StopReason(ending), draw(st.sampled_from([None, Usage(10, 20)])))
        batches.append((draw(delays), (stop,)))
    return DraftScript(
        batches=tuple(batches),
        open_s=draw(delays),
        fault=draw(faults) if ending == "fault" else None,
        hangs=ending == "hang" or draw(st.booleans()),
        close_s=draw(st.sampled_from([0.0, 0.0, 1.0, 30.0])),
    )


def rewriter_of(kind: str | None) -> FakeRewriter | None:
    if kind is None:
        return None
    fault = RewriterUnavailable("down") if kind == "fault" else None
    return FakeRewriter("other words", ("part one?", "part two?"), fault=fault)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    def found(n: int) -> Any:
        fault = draw(st.sampled_from([None] * 19 + [RetrievalUnavailable("no database")]))
        return (draw(delays), fault or passages(draw(st.sampled_from([2, 2, 2, 3, 3, 0])), tag=f"s{n}-"))

    return Scenario(
        sets=[found(n) for n in range(3)],
        grades=[(draw(delays), draw(grades)) for _ in range(3)],
        drafts=[draw(draft_scripts(f"d{n}")) for n in range(draw(st.integers(1, 4)))],
        delay_s=draw(st.sampled_from([0.0, 0.0, None, 1.0, 4.0])),
        hold_tokens=draw(st.sampled_from([None, 1, 2, 4])),
        looks_ahead=draw(st.booleans()),
        limits=Limits(
            max_retries=draw(st.integers(0, 2)),
            deadline_s=draw(st.sampled_from([100.0] * 6 + [3.0, 7.0])),
            grade_timeout_s=draw(st.sampled_from([10.0, 10.0, 10.0, 4.0])),
            hold_bytes=draw(st.sampled_from([262_144, 16, 64])),
            redrafts=draw(st.integers(0, 2)),
            strict_subset=draw(st.booleans()),
            verify=draw(st.sampled_from([Verify.OFF, Verify.OFF, Verify.ANNOTATE, Verify.GATE, Verify.GATE])),
            external_searches=draw(st.integers(0, 2)),
            total_output_tokens=draw(st.sampled_from([4096, 4096, SCARCE])),
        ),
        leaves_at=draw(st.sampled_from([None] * 15 + [0.0, 1.0, 2.0, 3.0, 5.0])),
        halts_at=draw(st.sampled_from([None] * 10 + [1.0, 4.0])),
        reads_every_s=draw(st.sampled_from([0.0, 0.0, 1.0])),
        gap_delay_s=draw(st.sampled_from([0.0, 0.5, 60.0])),
        web=found(9),
        web_is_external=draw(st.booleans()),
        web_is_parallel=draw(st.booleans()),
        rewriter=draw(st.sampled_from([None, "words", "words", "fault"]).map(rewriter_of)),
        verifier=draw(st.builds(FakeVerifier, lie=st.sampled_from(["\0", "\0", "d0.1", "d"]), delay_s=delays)),
    )


async def play(scenario: Scenario, decides: Speculator | None = None) -> Witness:
    w = Witness(scenario)
    w.retriever, w.grader = FakeRetriever(scenario.sets), FakeGrader(scenario.grades)
    w.web, w.verifier = FakeRetriever([scenario.web]), scenario.verifier

    def resumed(draft: FakeDraft) -> None:
        sent = len(w.text.encode()) if draft.text.startswith(w.text) else 0
        w.most_held_bytes = max(w.most_held_bytes, draft.pulled_bytes - sent)

    w.generator = FakeGenerator(scenario.drafts, on_resume=resumed)

    async def emit(events: tuple[Event, ...]) -> None:
        assert not w.emitting, "two tasks emit at once"
        w.emitting = True
        try:
            w.events.extend((anyio.current_time(), e) for e in events)
            await anyio.sleep(scenario.reads_every_s)
        finally:
            w.emitting = False

    speculator, gaps = (
        decides or FixedSpeculator(scenario.delay_s, scenario.hold_tokens, scenario.looks_ahead),
        MemoryGaps(scenario.gap_delay_s),
    )
    house = Source("house", w.retriever)
    web = Source("web", w.web, external=scenario.web_is_external, parallel=scenario.web_is_parallel)
    parts = Parts(
        (house, web), None, w.grader, w.generator, speculator, gaps, rewriter=scenario.rewriter, verifier=w.verifier
    )
    halt = Halt()
    w.began_at = anyio.current_time()

    async def later(delay_s: float, act: Callable[[], None]) -> None:
        await anyio.sleep(delay_s)
        act()

    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as client:
            if scenario.halts_at is not None:
                tasks.start_soon(later, scenario.halts_at, lambda: halt.now(RetrievalUnavailable("shutting down")))
            if scenario.leaves_at is not None:
                tasks.start_soon(later, scenario.leaves_at, client.cancel)
            await answer(Ask("ans_1", "0" * 32, "What is it?"), parts, scenario.limits, emit, w.facts, halt)
        w.left = client.cancelled_caught
        w.ended_at = anyio.current_time()
        tasks.cancel_scope.cancel()
    return w


def nothing_ungraded_is_sent(w: Witness) -> None:
    """Invariant 1: tokens, citations and sources only after a sufficient verdict for their attempt."""
    for at, sent in w.events:
        if isinstance(sent, Token | Citation | Sources):
            judged = [(t, f) for t, f in w.facts.told if isinstance(f, Judged) and t <= at]
            grade = judged[-1][1].grade
            assert grade is not None
            assert grade.is_sufficient
            began = [f for t, f in w.facts.told if isinstance(f, AttemptBegan) and t <= at]
            assert judged[-1][1].attempt == began[-1].attempt
    assert all(not c or w.of(Sources) for c in w.of(Citation))


def what_is_sent_is_a_prefix_of_one_draft(w: Witness) -> None:
    """Invariant 2, and 7's second half: nothing is dropped, so a finished answer is the whole draft."""
    drafts = [d.text for d in w.generator.drafts]
    said = [set(d.pulled) for d in w.generator.drafts if d.text.startswith(w.text)]
    assert not w.text or said
    cited = {Cited(c.n, c.start, c.end, c.quote) for c in w.of(Citation)}
    assert not cited or any(cited <= pieces for pieces in said)
    dones = w.of(Done)
    if dones and dones[0].finish_reason in {"stop", "length"}:
        assert w.text in drafts
    for c in w.of(Citation):
        assert 0 <= c.start <= c.end <= len(w.text)


def what_is_gated_is_checked(w: Witness) -> None:
    """verify = gate: no sentence leaves that its passages do not support; a lie ends the answer."""
    if w.scenario.limits.verify is Verify.GATE and w.verifier is not None:
        assert w.verifier.lie not in w.text
        assert all(claim.supported for v in w.of(Verification) for claim in v.claims)


def one_terminal_event_ends_the_stream(w: Witness) -> None:
    """Invariant 3: Started first; Done once and last unless the client left; a refusal or a failure at most once."""
    kinds = [type(e) for _, e in w.events]
    assert kinds.count(Started) == 1
    assert kinds[0] is Started
    assert kinds.count(Refusal) + kinds.count(Failed) <= 1
    if not w.left:
        assert kinds.count(Done) == 1
        assert kinds[-1] is Done
        done = w.of(Done)[0]
        assert (done.path == "refused") == (Refusal in kinds)
        assert (done.path == "failed") == (Failed in kinds)
        assert done.attempts == max((f.attempt for f in w.facts.of(AttemptBegan)), default=0)
        assert "secret" not in repr(w.of(Failed))


def a_bad_verdict_acts_at_once(w: Witness) -> None:
    """Invariants 4 and 5: on the tick of the verdict the draft is closing and (after no wait) the next attempt begins."""
    for at, fact in w.facts.told:
        if isinstance(fact, Judged) and not (fact.grade and fact.grade.is_sufficient):
            waited = w.scenario.reads_every_s > 0
            later = [(t, f) for t, f in w.facts.told if t > at]
            started = [f for _, f in later if isinstance(f, DraftStarted) and f.attempt == fact.attempt]
            assert not [
                f for f in started if f.draft < DROPPED_FROM
            ]  # those of a wider set are told when it is dropped
            began = [t for t, f in w.facts.told if isinstance(f, AttemptBegan) and f.attempt == fact.attempt + 1]
            # Beside a wider set without a verdict the next attempt is not yet known, and its searches run already.
            is_raced = w.scenario.looks_ahead and fact.attempt == 1
            assert waited or is_raced or not began or began[0] == at
            for t, closed in later:
                if not isinstance(closed, DraftClosed) or closed.attempt != fact.attempt:
                    continue
                if closed.draft < DROPPED_FROM and closed.outcome != "failed":
                    assert t - at <= CLOSE_LIMIT_S + ROUNDING_S
    for draft in w.generator.drafts:
        assert draft.close_began_at is not None


def every_budget_holds_and_ends_in_a_refusal(w: Witness) -> None:
    """Invariant 6."""
    limits, scenario = w.scenario.limits, w.scenario
    searches = [f.query for f in w.facts.of(AttemptBegan)]
    assert len(searches) <= 1 + limits.max_retries
    assert not scenario.web_is_external or len(w.web.queries) <= limits.external_searches
    assert w.grader.calls <= 1 + limits.max_retries + (scenario.looks_ahead and limits.max_retries > 0)
    assert len(w.of(Retry)) <= limits.max_retries
    deadline = w.began_at + limits.deadline_s
    for at, told in w.events:
        if not isinstance(told, Refusal | Done | Failed):
            assert at <= deadline
    if w.of(Done):
        slack = 1.0 + 3 * scenario.reads_every_s
        assert next(t for t, e in w.events if isinstance(e, Done)) <= deadline + slack
    spent = [r for r in w.of(Refusal) if r.reason == "budget_exhausted"]
    assert not spent or w.ended_at >= deadline or limits.total_output_tokens == SCARCE


def what_is_held_is_bounded(w: Witness) -> None:
    """Invariant 7: when the reader comes back for more, what was read and is not sent fits the limit."""
    assert w.most_held_bytes <= w.scenario.limits.hold_bytes


def nothing_is_left_behind(w: Witness) -> None:
    """Invariants 5 and 9: every draft is closed, bounded, every racer has stopped, also when the client left."""
    assert w.grader.running == 0
    assert w.verifier is None or w.verifier.running == 0
    for draft in w.generator.drafts:
        assert draft.close_began_at is not None
        assert draft.closed_at is not None
        took_s = draft.closed_at - draft.close_began_at
        assert took_s <= CLOSE_LIMIT_S + ROUNDING_S
        assert not draft.close_cancelled or took_s >= CLOSE_LIMIT_S - ROUNDING_S


def every_fact_has_its_end(w: Witness) -> None:
    """Invariant 11 at its source: what begins ends exactly once, with an outcome."""
    began, ended = w.facts.of(AttemptBegan), w.facts.of(AttemptEnded)
    assert [f.attempt for f in began] == [f.attempt for f in ended]
    started, closed = w.facts.of(DraftStarted), w.facts.of(DraftClosed)
    assert sorted((f.attempt, f.draft) for f in started) == sorted((f.attempt, f.draft) for f in closed)
    assert len(w.facts.of(Ended)) == 1
    path = w.facts.of(Ended)[0].path
    assert (path == "abandoned") == (not w.of(Done)) or w.left
    assert len(w.facts.of(Released)) <= 1 or w.scenario.limits.verify is Verify.GATE
    released = [f for f in closed if f.outcome == "released"]
    assert len(released) <= 1
    if path in {"clean", "recovered"}:
        assert len(released) == 1


INVARIANTS = [
    nothing_ungraded_is_sent,
    what_is_sent_is_a_prefix_of_one_draft,
    what_is_gated_is_checked,
    one_terminal_event_ends_the_stream,
    a_bad_verdict_acts_at_once,
    every_budget_holds_and_ends_in_a_refusal,
    what_is_held_is_bounded,
    nothing_is_left_behind,
    every_fact_has_its_end,
]


@pytest.mark.timeout(240)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(backend=backends, scenario=scenarios())
def test_every_invariant_holds_over_interleavings(backend: str, scenario: Scenario) -> None:
    witness = run_virtual(backend, play, scenario)
    dones = witness.of(Done)
    event(f"path {dones[0].path}" if dones else "left")
    for invariant in INVARIANTS:
        invariant(witness)


@pytest.mark.timeout(240)
@settings(max_examples=EXAMPLES // 4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(backend=backends, scenario=scenarios(), grade_s=delays, first_text_s=delays)
def test_no_answer_keeps_what_was_set_aside_for_it(
    backend: str, scenario: Scenario, grade_s: float, first_text_s: float
) -> None:
    """However it ends: else a tenant's speculation would be off for ever after enough faults or clients that left."""
    now, tokens = [0.0], 10_000
    waste, pace = Allowance(tokens, lambda: now[0]), Pace()
    pace.graded(grade_s)
    pace.drafted(first_text_s, None, 0)
    lookouts = Lookouts(1 if scenario.looks_ahead else 0)
    speculator = Adaptive(lambda *_: 0.5, pace, Worth(1.0, 1e-6, 0.0), waste, lambda: False, lookouts)
    witness = run_virtual(backend, play, scenario, speculator)
    for invariant in INVARIANTS:
        invariant(witness)
    sent = sum(fact.output_tokens for fact in witness.facts.of(DraftClosed) if fact.outcome == "released")
    closed = sum(fact.output_tokens for fact in witness.facts.of(DraftClosed))
    assert waste.spent <= closed - sent
    now[0] += 1_000.0
    assert waste.reserve(2 * tokens, at_least=1) == tokens  # nor has anything been given back twice
    assert lookouts.begun == 0
