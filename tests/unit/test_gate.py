"""The gate's table, row by row: FIELD_REPORTS B5 (a judge trips while the other branch runs, has finished, or fails)."""

import pytest

from grading.faults import GraderUnavailable
from grading.grade import Grade, Verdict
from streaming.faults import AnswerIncomplete, GeneratorMisconfigured, GeneratorOverloaded
from streaming.gate import (
    NOTHING,
    Answered,
    Broken,
    Discarded,
    Drafted,
    DraftFailed,
    Gate,
    Graded,
    GradeFailed,
    Signal,
    State,
    Unjudged,
)
from streaming.ports import Cited, Stopped, StopReason, Text

GOOD = Grade(Verdict.SUFFICIENT, relevant=(1, 2))
PARTIAL = Grade(Verdict.PARTIAL, missing="the price", relevant=(1,))
BAD = Grade(Verdict.INSUFFICIENT)
STOP = Stopped(StopReason.END)
BUSY = GeneratorOverloaded("busy")
NO_KEY = GeneratorMisconfigured("key refused")
NO_VERDICT = GraderUnavailable("stalled")


def test_held_text_leaves_in_one_step_with_the_verdict_then_flows() -> None:
    gate = Gate(2, drafting=True)
    assert gate.step(Drafted(1, (Text("a"),))) is NOTHING
    assert gate.step(Drafted(1, (Text("b"),))) is NOTHING
    opened = gate.step(Graded(GOOD))
    assert opened.opened
    assert opened.send == (Text("a"), Text("b"))
    assert gate.step(Drafted(1, (Text("c"), STOP))).ending == Answered(GOOD, STOP)


@pytest.mark.parametrize("grade", [PARTIAL, BAD])
@pytest.mark.parametrize("draft", ["runs", "finished", "failed", "failed for good"])
def test_a_bad_verdict_discards_whatever_the_draft_did(grade: Grade, draft: str) -> None:
    gate = Gate(2, drafting=True, redrafts=0)
    gate.step(Drafted(1, (Text("a"),)))
    if draft == "finished":
        gate.step(Drafted(1, (STOP,)))
    if draft.startswith("failed"):
        gate.step(DraftFailed(1, NO_KEY if draft.endswith("good") else BUSY))
    step = gate.step(Graded(grade))
    assert step.ending == Discarded(grade)
    assert step.close
    assert step.send == ()
    assert gate.state is State.DISCARDED
    assert gate.step(Drafted(1, (Text("late"),))) is NOTHING


@pytest.mark.parametrize("finished", [False, True])
def test_no_verdict_never_releases(finished: bool) -> None:
    gate = Gate(2, drafting=True)
    gate.step(Drafted(1, (Text("a"), STOP) if finished else (Text("a"),)))
    step = gate.step(GradeFailed(NO_VERDICT))
    assert step.ending == Unjudged(NO_VERDICT)
    assert step.close
    assert step.send == ()


def test_a_finished_draft_is_answered_in_the_step_of_its_verdict() -> None:
    gate = Gate(2, drafting=True)
    gate.step(Drafted(1, (Text("a"), STOP)))
    step = gate.step(Graded(GOOD))
    assert (step.opened, step.send, step.ending) == (True, (Text("a"), STOP), Answered(GOOD, STOP))


def test_a_draft_that_fails_unseen_is_drafted_again_and_the_first_text_is_forgotten() -> None:
    gate = Gate(2, drafting=True, redrafts=1)
    gate.step(Drafted(1, (Text("old"),)))
    again = gate.step(DraftFailed(1, BUSY))
    assert (again.close, again.draft_from, gate.draft) == (True, (1, 2), 2)
    assert gate.step(Drafted(1, (Text("stale"),))) is NOTHING
    gate.step(Drafted(2, (Text("new"),)))
    assert gate.step(Graded(GOOD)).send == (Text("new"),)


def test_a_draft_that_fails_after_the_verdict_but_before_a_byte_is_drafted_again() -> None:
    gate = Gate(2, drafting=True, redrafts=1)
    gate.step(Graded(GOOD))
    assert gate.step(DraftFailed(1, AnswerIncomplete("cut"))).draft_from == (1, 2)


def test_a_draft_that_fails_after_a_byte_was_sent_is_broken_and_never_restarted() -> None:
    gate = Gate(2, drafting=True, redrafts=5)
    gate.step(Graded(GOOD))
    gate.step(Drafted(1, (Text("a"),)))
    assert gate.step(DraftFailed(1, BUSY)).ending == Broken(BUSY)


@pytest.mark.parametrize(("fault", "redrafts"), [(NO_KEY, 3), (BUSY, 0)])
def test_a_fault_that_cannot_be_mended_is_told_only_when_the_set_is_sufficient(
    fault: GeneratorOverloaded, redrafts: int
) -> None:
    gate = Gate(2, drafting=True, redrafts=redrafts)
    assert gate.step(DraftFailed(1, fault)) is NOTHING
    step = gate.step(Graded(GOOD))
    assert step.ending == Broken(fault)
    assert not step.opened


def test_without_speculation_the_draft_starts_with_the_verdict_from_the_relevant_passages_alone() -> None:
    gate = Gate(3, drafting=False)
    step = gate.step(Graded(Grade(Verdict.SUFFICIENT, relevant=(1, 3))))
    assert (step.opened, step.close, step.draft_from) == (True, False, (1, 3))
    assert gate.step(Drafted(1, (Text("a"),))).send == (Text("a"),)


def test_a_strict_subset_discards_the_draft_that_saw_more() -> None:
    gate = Gate(3, drafting=True, strict_subset=True)
    gate.step(Drafted(1, (Text("saw all"),)))
    step = gate.step(Graded(Grade(Verdict.SUFFICIENT, relevant=(2,))))
    assert (step.opened, step.close, step.draft_from, step.send) == (True, True, (2,), ())
    assert gate.step(Drafted(1, (Text("late"),))) is NOTHING


def test_a_strict_subset_keeps_the_draft_when_every_passage_is_relevant() -> None:
    gate = Gate(2, drafting=True, strict_subset=True)
    gate.step(Drafted(1, (Text("saw all"),)))
    assert gate.step(Graded(GOOD)).send == (Text("saw all"),)


def test_citations_of_passages_graded_irrelevant_are_dropped_the_text_stays() -> None:
    gate = Gate(2, drafting=True)
    kept, dropped = Cited(1, 0, 1), Cited(2, 1, 2)
    gate.step(Drafted(1, (Text("a"), kept, Text("b"), dropped)))
    step = gate.step(Graded(Grade(Verdict.SUFFICIENT, relevant=(1,))))
    assert step.send == (Text("a"), kept, Text("b"))


def test_citations_of_passages_that_were_never_given_are_dropped() -> None:
    gate = Gate(2, drafting=True)
    gate.step(Graded(GOOD))
    assert gate.step(Drafted(1, (Text("a"), Cited(7, 0, 1)))).send == (Text("a"),)


def test_a_second_verdict_changes_nothing() -> None:
    gate = Gate(2, drafting=True)
    gate.step(Graded(GOOD))
    assert gate.step(Graded(BAD)) is NOTHING
    assert gate.step(GradeFailed(NO_VERDICT)) is NOTHING
    assert gate.state is State.RELEASED


@pytest.mark.parametrize("said", [(), (Text(" "), Text("\n"))])
@pytest.mark.parametrize("verdict_first", [True, False])
@pytest.mark.parametrize("stop", [STOP, Stopped(StopReason.OTHER)])
def test_an_answer_without_a_word_is_no_answer(said: tuple[Text, ...], verdict_first: bool, stop: Stopped) -> None:
    """A blank message that counts as finished (FIELD_REPORTS H2): drafted again unseen, then broken."""
    gate = Gate(2, drafting=True, redrafts=1)
    signals: list[Signal] = [Graded(GOOD), Drafted(1, (*said, stop))]
    steps = [gate.step(signal) for signal in (signals if verdict_first else signals[::-1])]
    assert steps[-1].draft_from == (1, 2)
    assert any(step.opened for step in steps)
    broken = gate.step(Drafted(2, (STOP,))).ending
    assert isinstance(broken, Broken)
    assert broken.fault.type == "answer_incomplete"


@pytest.mark.parametrize("reason", [StopReason.REFUSAL, StopReason.LENGTH])
def test_a_model_that_declines_or_is_stopped_without_a_word_has_answered(reason: StopReason) -> None:
    gate = Gate(2, drafting=True)
    gate.step(Graded(GOOD))
    stop = Stopped(reason)
    assert gate.step(Drafted(1, (stop,))).ending == Answered(GOOD, stop)


@pytest.mark.parametrize("end", [Drafted(1, (STOP,)), DraftFailed(1, BUSY)])
def test_a_blank_that_was_sent_is_not_followed_by_another_draft(end: Signal) -> None:
    """Its text would follow that of the first one, and its citations would point beside theirs by what was sent."""
    gate = Gate(2, drafting=True, redrafts=1)
    gate.step(Graded(GOOD))
    assert gate.step(Drafted(1, (Text("\n\n"),))).send == (Text("\n\n"),)
    step = gate.step(end)
    assert step.draft_from is None
    assert isinstance(step.ending, Broken)


def test_what_is_drafted_again_rests_on_what_the_failed_draft_rested_on() -> None:
    gate = Gate(2, drafting=True, strict_subset=True, redrafts=1)
    assert gate.step(Graded(Grade(Verdict.SUFFICIENT, relevant=(2,)))).draft_from == (2,)
    assert gate.step(DraftFailed(2, BUSY)).draft_from == (2,)
