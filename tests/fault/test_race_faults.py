"""FIELD_REPORTS area (b): how structured concurrency breaks, each provoked in virtual time on asyncio and trio."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from grading.faults import GraderUnavailable
from grading.grade import Grade, Verdict
from retrieval.passage import Passage
from retrieval.sources import house
from streaming.answer import Parts, answer
from streaming.ask import Ask
from streaming.attempt import said
from streaming.budget import Limits
from streaming.drafting import TOKEN_LIMIT_BYTES, cut
from streaming.events import Citation, Done, Event, Failed, Refusal, Retry, Sources, Token
from streaming.facts import AttemptBegan, DraftClosed, Fact, Judged
from streaming.gate import text_bytes
from streaming.ports import Cited, Decision, Piece, Prompt, Stopped, StopReason, Text
from streaming.speculate import Always, Never
from tests.support.clock import run_virtual
from tests.support.fakes import (
    DraftScript,
    Facts,
    FakeDraft,
    FakeGenerator,
    FakeGrader,
    FakeRetriever,
    FakeRewriter,
    MemoryGaps,
    passages,
)

GOOD = Grade(Verdict.SUFFICIENT, relevant=(1, 2))
BAD = Grade(Verdict.INSUFFICIENT)
STOP = (0.0, (Stopped(StopReason.END),))


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@dataclass
class Stage:
    """One answer on stage: its parts, what came out and when."""

    grader: FakeGrader
    generator: FakeGenerator
    retriever: FakeRetriever = field(default_factory=lambda: FakeRetriever([(0.0, passages(2))]))
    speculator: Any = field(default_factory=Always)
    limits: Limits = field(default_factory=Limits)
    rewriter: FakeRewriter | None = None
    events: list[tuple[float, Event]] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    took_s: float = 0.0

    async def play(self) -> "Stage":
        async def emit(events: tuple[Event, ...]) -> None:
            self.events.extend((anyio.current_time(), e) for e in events)

        parts = Parts(
            house(self.retriever), None, self.grader, self.generator, self.speculator, MemoryGaps(), self.rewriter
        )
        began = anyio.current_time()
        await answer(Ask("ans_1", "0" * 32, "What is it?"), parts, self.limits, emit, self.facts)
        self.events = [(at - began, e) for at, e in self.events]
        self.took_s = anyio.current_time() - began
        return self

    def of(self, kind: Any) -> list[Any]:
        return [e for _, e in self.events if isinstance(e, kind)]

    def at(self, kind: Any) -> float:
        return next(at for at, e in self.events if isinstance(e, kind))

    @property
    def text(self) -> str:
        return "".join(t.text for t in self.of(Token))


def play(backend: str, stage: Stage) -> Stage:
    return run_virtual(backend, stage.play)


def drafts(*batches: tuple[float, tuple[Piece, ...]], **more: Any) -> FakeGenerator:
    return FakeGenerator([DraftScript(batches, **more)])


def test_a_bad_verdict_acts_while_the_model_has_not_said_a_word(backend: str) -> None:
    """B3: the judge stops the run before the first token; nothing waits for events that never come."""
    stage = play(backend, Stage(FakeGrader([(1.0, BAD)]), drafts(open_s=500.0), limits=Limits(max_retries=0)))
    assert stage.at(Refusal) == 1.0
    assert stage.generator.opening_cancelled == 1


def test_a_bad_verdict_acts_while_the_buffer_is_full(backend: str) -> None:
    """B3: the reader is stopped for want of room when the verdict comes."""
    endless = tuple((0.0, (Text("x" * 100),)) for _ in range(1000))
    stage = play(
        backend, Stage(FakeGrader([(1.0, BAD)]), drafts(*endless), limits=Limits(max_retries=0, hold_bytes=1000))
    )
    assert stage.at(Refusal) == 1.0
    assert stage.generator.drafts[0].pulled_bytes <= 1100
    assert stage.text == ""


def test_a_bad_verdict_cuts_the_request_itself_before_the_reader_runs(backend: str) -> None:
    """B3: some turns of the event loop are between a cancelled reader and its close; a draft that was read to its end is not cut."""
    generator = FakeGenerator(
        [DraftScript(((0.0, (Text("a"),)),), hangs=True), DraftScript(((0.0, (Text("b"),)), STOP))]
    )
    stage = play(backend, Stage(FakeGrader([(1.0, BAD), (1.0, GOOD)]), generator))
    assert stage.text == "b"
    assert [draft.cut_at for draft in generator.drafts] == [1.0, None]


def test_a_draft_goes_on_while_it_is_held_and_the_release_sends_it_whole(backend: str) -> None:
    """B3: no rendezvous; 29 tokens are drafted at the verdict and leave with it."""
    tokens = tuple((0.1, (Text(f"t{n} "),)) for n in range(29))
    stage = play(backend, Stage(FakeGrader([(3.0, GOOD)]), drafts(*tokens, STOP)))
    assert stage.text == "".join(f"t{n} " for n in range(29))
    assert stage.at(Token) == 3.0
    assert stage.took_s == pytest.approx(3.0)


def test_a_close_that_hangs_is_bounded_and_the_next_attempt_does_not_wait_for_it(backend: str) -> None:
    """B4: upstream takes for ever to close."""
    generator = FakeGenerator(
        [DraftScript(((0.0, (Text("a"),)),), hangs=True, close_s=9_999.0), DraftScript(((0.0, (Text("b"),)), STOP))]
    )
    stage = play(backend, Stage(FakeGrader([(1.0, BAD), (1.0, GOOD)]), generator))
    assert stage.text == "b"
    assert stage.at(Done) == 2.0
    began = [at for at, f in stage.facts.told if isinstance(f, AttemptBegan)]
    judged = [at for at, f in stage.facts.told if isinstance(f, Judged)]
    assert began[1] == judged[0]
    assert [f.outcome for f in stage.facts.of(DraftClosed)] == ["released", "discarded"]
    assert stage.took_s == pytest.approx(3.0)


@pytest.mark.parametrize("leaves_at", [0.5, 1.0])
def test_the_client_leaving_closes_the_draft_under_a_shield(backend: str, leaves_at: float) -> None:
    """B4: bad verdict and disconnect on the same tick; the close is not cut off half way."""
    generator = drafts((0.0, (Text("a"),)), hangs=True, close_s=1.5)
    stage = Stage(FakeGrader([(1.0, BAD)]), generator, limits=Limits(max_retries=0))

    async def leave() -> None:
        with anyio.move_on_after(leaves_at):
            await stage.play()

    run_virtual(backend, leave)
    draft = generator.drafts[0]
    assert draft.closed_at is not None
    assert draft.close_began_at is not None
    assert draft.closed_at - draft.close_began_at == pytest.approx(1.5)
    assert not draft.close_cancelled


def test_grader_and_draft_raising_at_once_end_in_one_refusal_without_a_trace_of_either(backend: str) -> None:
    """B7: two leaves of a group; one stable outcome, no class name, no message of a foreign error."""
    generator = drafts((1.0, (Text("a"),)), fault=RuntimeError("dsn=postgres://secret"))
    stage = play(backend, Stage(FakeGrader([(1.0, KeyError("secret"))]), generator))
    assert [r.reason for r in stage.of(Refusal)] == ["grader_unavailable"]
    assert len(stage.of(Done)) == 1
    assert "secret" not in repr(stage.events)


def test_a_foreign_error_after_release_is_one_failed_event_that_says_nothing_of_it(backend: str) -> None:
    """B7, after the first byte."""
    generator = drafts((0.0, (Text("a"),)), (1.0, (Text("b"),)), fault=RuntimeError("secret"))
    stage = play(backend, Stage(FakeGrader([(0.0, GOOD)]), generator))
    assert stage.text == "ab"
    assert [(f.type, f.retryable) for f in stage.of(Failed)] == [("internal_error", False)]
    assert "secret" not in repr(stage.events)
    assert stage.of(Done)[0].path == "failed"


def test_one_task_opens_reads_and_closes_a_draft(backend: str) -> None:
    """B9: scopes of an SDK's stream are entered and left in one task, also when the verdict cuts it."""
    tasks: list[int] = []

    class Draft(FakeDraft):
        async def aclose(self) -> None:
            tasks.append(anyio.get_current_task().id)
            await super().aclose()

    class Generator(FakeGenerator):
        async def draft(self, prompt: Prompt) -> FakeDraft:
            tasks.append(anyio.get_current_task().id)
            return Draft((await super().draft(prompt)).script, lambda _: tasks.append(anyio.get_current_task().id))

    script = DraftScript(tuple((0.1, (Text("x"),)) for _ in range(5)), hangs=True)
    play(backend, Stage(FakeGrader([(1.0, BAD)]), Generator([script]), limits=Limits(max_retries=0)))
    assert len(tasks) == 7
    assert len(set(tasks)) == 1


class BreaksOnClose(FakeGenerator):
    """Its drafts fail to close, as a connection that is gone already may."""

    async def draft(self, prompt: Prompt) -> FakeDraft:
        class Draft(FakeDraft):
            async def aclose(self) -> None:
                await super().aclose()
                raise OSError("connection reset")

        return Draft((await super().draft(prompt)).script, lambda _: None)


@pytest.mark.parametrize("close_s", [0.0, 1.0])
def test_a_draft_that_fails_to_close_takes_nothing_of_the_answer_with_it(backend: str, close_s: float) -> None:
    """B4: what cleaning up a lost draft meets is no matter of the answer that goes on."""
    scripts = [
        DraftScript(((0.1, (Text("lost"),)),), hangs=True, close_s=close_s),
        DraftScript(((0.5, (Text("a"),)), STOP)),
    ]
    stage = play(backend, Stage(FakeGrader([(0.2, BAD), (0.2, GOOD)]), BreaksOnClose(scripts)))
    assert stage.text == "a"
    assert [done.path for done in stage.of(Done)] == ["recovered"]
    assert sorted(fact.outcome for fact in stage.facts.of(DraftClosed)) == ["discarded", "released"]


def test_a_grader_that_never_answers_is_refused_at_its_own_deadline(backend: str) -> None:
    stage = play(
        backend,
        Stage(FakeGrader([(9_999.0, GOOD)]), drafts((0.0, (Text("a"),)), STOP), limits=Limits(grade_timeout_s=4.0)),
    )
    assert stage.at(Refusal) == 4.0
    assert stage.of(Refusal)[0].reason == "grader_unavailable"
    assert stage.text == ""


def test_a_grader_that_always_says_no_costs_a_fixed_number_of_calls(backend: str) -> None:
    """D2: no endless loop of grade, rewrite, retrieve."""
    limits, rewriter = Limits(max_retries=2), FakeRewriter("other words")
    stage = play(backend, Stage(FakeGrader([(0.0, BAD)]), drafts(STOP), limits=limits, rewriter=rewriter))
    assert (len(stage.retriever.queries), stage.grader.calls, len(stage.of(Retry))) == (3, 3, 2)
    assert stage.of(Refusal)[0].reason == "insufficient_evidence"


def test_a_policy_that_is_exhausted_refuses_before_the_budget_is(backend: str) -> None:
    """Correct the reason or refuse: the same search is not simply run again."""
    stage = play(backend, Stage(FakeGrader([(0.0, BAD)]), drafts(STOP), limits=Limits(max_retries=2)))
    assert [r.correction for r in stage.of(Retry)] == ["broaden"]
    assert stage.of(Refusal)[0].reason == "insufficient_evidence"


def test_an_empty_retrieval_starts_no_draft_and_asks_no_grader(backend: str) -> None:
    """D3: nothing is answered from memory."""
    stage = play(backend, Stage(FakeGrader([(0.0, GOOD)]), drafts(STOP), retriever=FakeRetriever([(0.0, ())])))
    assert (stage.generator.prompts, stage.grader.calls) == ([], 0)
    assert stage.of(Refusal)[0].reason == "insufficient_evidence"
    assert len(stage.of(Retry)) == 1


def test_a_frozen_client_stops_the_reading_of_a_released_draft(backend: str) -> None:
    """Invariant 7 after release: what is not taken is not read ahead beyond the limit."""
    endless = tuple((0.0, (Text("x" * 100),)) for _ in range(1000))
    generator = drafts(*endless)
    stage = Stage(FakeGrader([(0.0, GOOD)]), generator, limits=Limits(hold_bytes=1000))

    async def frozen() -> None:
        async def emit(events: tuple[Event, ...]) -> None:
            if any(isinstance(e, Token) for e in events):
                await anyio.sleep_forever()

        parts = Parts(house(stage.retriever), None, stage.grader, generator, Always(), MemoryGaps())
        with anyio.move_on_after(20):
            await answer(Ask("ans_1", "0" * 32, "q"), parts, stage.limits, emit, stage.facts)

    run_virtual(backend, frozen)
    assert generator.drafts[0].pulled_bytes <= 1100


def test_a_model_that_falls_silent_is_left_and_drafted_from_once_more(backend: str) -> None:
    """Before the first token and between two. A batch without pieces is no silence."""
    limits = Limits(silence_s=5.0, grade_timeout_s=50)
    for early in ((), ((0.0, (Text("a"),)),)):
        silent = DraftScript((*early, (6.0, (Text("late"),)), STOP))
        thinking = DraftScript((*((4.0, ()),) * 5, (4.0, (Text("b"),)), STOP))
        generator = FakeGenerator([silent, thinking])
        stage = play(backend, Stage(FakeGrader([(40.0, GOOD)]), generator, limits=limits))
        assert "".join(event.text for event in stage.of(Token)) == "b"
        assert generator.drafts[0].close_began_at is not None
        assert 4.5 <= generator.drafts[0].close_began_at <= 5.0


def test_two_silences_are_a_fault(backend: str) -> None:
    silent = drafts((6.0, (Text("late"),)), STOP)
    stage = play(backend, Stage(FakeGrader([(0.0, GOOD)]), silent, limits=Limits(silence_s=5.0)))
    assert [event.type for event in stage.of(Failed)] == ["generator_unavailable"]
    assert stage.at(Failed) <= 10.0


def test_a_wait_for_the_verdict_or_the_client_is_no_silence_of_the_model(backend: str) -> None:
    generator = drafts(*(((0.0, (Text("x" * 100),)),) * 20), STOP)
    limits = Limits(hold_bytes=300, silence_s=1.0, grade_timeout_s=50)
    stage = play(backend, Stage(FakeGrader([(30.0, GOOD)]), generator, limits=limits))
    assert "".join(event.text for event in stage.of(Token)) == "x" * 2000
    assert len(generator.drafts) == 1


def test_never_drafts_only_after_the_verdict_and_only_from_relevant_passages(backend: str) -> None:
    generator = drafts((1.0, (Text("a"), Cited(2, 0, 1))), STOP)
    stage = play(
        backend, Stage(FakeGrader([(2.0, Grade(Verdict.SUFFICIENT, relevant=(2,)))]), generator, speculator=Never())
    )
    assert [n for n, _ in generator.prompts[0].passages] == [2]
    assert stage.at(Token) == 3.0
    assert [c.n for c in stage.of(Citation)] == [2]
    assert [n for n, _ in stage.of(Sources)[0].passages] == [2]


@dataclass(frozen=True)
class Later:
    """Drafts `delay_s` after retrieval: just in time."""

    delay_s: float

    def decide(self, question: str, passages: Sequence[Passage]) -> Decision:
        return Decision(self.delay_s, "likely")

    def learn(self, fact: Fact) -> None:
        """Nothing changes its mind."""


def test_a_delayed_draft_starts_at_its_moment_or_with_an_early_verdict(backend: str) -> None:
    on_time = play(backend, Stage(FakeGrader([(3.0, GOOD)]), drafts((1.0, (Text("a"),)), STOP), speculator=Later(2.0)))
    assert on_time.at(Token) == 3.0
    early = play(backend, Stage(FakeGrader([(1.0, GOOD)]), drafts((1.0, (Text("a"),)), STOP), speculator=Later(50.0)))
    assert early.at(Token) == 2.0


def test_a_draft_that_waits_for_its_moment_is_never_opened_after_a_bad_verdict(backend: str) -> None:
    stage = play(
        backend, Stage(FakeGrader([(1.0, BAD)]), drafts(STOP), speculator=Later(2.0), limits=Limits(max_retries=0))
    )
    assert stage.generator.prompts == []


def test_an_answer_past_its_deadline_is_refused_as_out_of_budget(backend: str) -> None:
    stage = play(
        backend,
        Stage(FakeGrader([(0.0, GOOD)]), drafts((0.0, (Text("a"),)), hangs=True), limits=Limits(deadline_s=5.0)),
    )
    assert stage.text == "a"
    assert stage.of(Refusal)[0].reason == "budget_exhausted"
    assert (stage.at(Done), stage.of(Done)[0].finish_reason) == (5.0, "budget")
    assert [f.outcome for f in stage.facts.of(DraftClosed)] == ["timeout"]


def test_a_grader_that_is_still_at_work_at_the_deadline_is_stopped_there(backend: str) -> None:
    """Invariant 6: the answer is over at its deadline, not when the slowest racer is."""
    limits = Limits(deadline_s=5.0, grade_timeout_s=60.0)
    stage = play(backend, Stage(FakeGrader([(50.0, GOOD)]), drafts((0.0, (Text("a"),)), STOP), limits=limits))
    assert stage.of(Refusal)[0].reason == "budget_exhausted"
    assert stage.took_s == 5.0
    assert stage.grader.running == 0


def test_a_grader_fault_of_its_own_is_a_refusal_not_a_bad_grade(backend: str) -> None:
    stage = play(backend, Stage(FakeGrader([(0.0, GraderUnavailable("nonsense"))]), drafts(STOP)))
    assert stage.of(Refusal)[0].reason == "grader_unavailable"
    assert stage.of(Retry) == []


def test_long_texts_are_cut_into_tokens_of_at_most_8_kib_without_loss() -> None:
    text = "é" * 9_000 + "x" * 9_000
    parts = tuple(cut(Text(text), TOKEN_LIMIT_BYTES))
    tokens = said(parts)
    assert "".join(t.text for t in tokens if isinstance(t, Token)) == text
    assert all(text_bytes((Text(t.text),)) <= TOKEN_LIMIT_BYTES for t in tokens if isinstance(t, Token))
