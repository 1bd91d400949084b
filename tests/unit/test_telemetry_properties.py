"""Invariant 11 as a property: however an answer goes, every span ends exactly once with an outcome, in one tree."""

from dataclasses import dataclass

from anyio.lowlevel import checkpoint
from hypothesis import event, given, settings
from hypothesis import strategies as st

from gateway.observing.answer_trace import SPANS
from grading.faults import GraderUnavailable
from grading.grade import Grade, Verdict
from retrieval.faults import GatewayFault, RetrievalUnavailable
from retrieval.passage import Passage
from retrieval.sources import house
from streaming.answer import Parts, answer
from streaming.budget import Limits
from streaming.events import Done, Event
from streaming.facts import Fact
from streaming.faults import AnswerIncomplete, GeneratorMisconfigured, GeneratorOverloaded
from streaming.ports import Decision, Piece, Stopped, StopReason, Text, Usage
from tests.support.clock import run_virtual
from tests.support.fakes import DraftScript, Facts, FakeGenerator, FakeGrader, FakeRetriever, MemoryGaps, passages
from tests.support.span_trees import ask, attributes, observe

DELAYS = st.sampled_from([0.0, 0.0, 1.0, 1.0, 2.0, 3.0])  # few whole numbers, so that things often happen at once
GRADES = st.builds(
    Grade,
    verdict=st.sampled_from(list(Verdict)),
    missing=st.sampled_from([None, None, "the price"]),
    relevant=st.sampled_from([(), (1,), (1, 2)]),
)
NO_GRADE = st.sampled_from([GraderUnavailable("stalled"), ValueError("odd")])
DRAFT_FAULTS = st.sampled_from([GeneratorOverloaded("busy"), AnswerIncomplete("cut"), GeneratorMisconfigured("key")])
STOPS = st.builds(Stopped, st.sampled_from(list(StopReason)), st.sampled_from([None, Usage(9, 9)]))


@dataclass(frozen=True)
class Wait:
    delay_s: float | None
    looks_ahead: bool = False

    def decide(self, question: str, passages: tuple[Passage, ...]) -> Decision:
        return Decision(self.delay_s, "test", looks_ahead=self.looks_ahead)

    def learn(self, fact: Fact) -> None:
        """Nothing changes its mind."""


@st.composite
def drafts(draw: st.DrawFn) -> DraftScript:
    batches: list[tuple[float, tuple[Piece, ...]]] = [
        (draw(DELAYS), (Text("word "),)) for _ in range(draw(st.integers(0, 3)))
    ]
    fault, hangs = None, False
    match draw(st.sampled_from(["stop", "stop", "fault", "hang"])):
        case "stop":
            batches.append((draw(DELAYS), (draw(STOPS),)))
        case "fault":
            fault = draw(DRAFT_FAULTS)
        case _:
            hangs = True
    return DraftScript(tuple(batches), draw(DELAYS), fault, hangs, draw(st.sampled_from([0.0, 1.0, 30.0])))


@st.composite
def searches(draw: st.DrawFn) -> tuple[float, tuple[Passage, ...] | GatewayFault]:
    found = passages(draw(st.sampled_from([0, 2, 2, 3])))
    return draw(DELAYS), draw(st.sampled_from([found] * 7 + [RetrievalUnavailable("gone")]))


@dataclass(frozen=True)
class Script:
    """Everything that decides how an answer goes; `parts` plays it from the start."""

    searches: list[tuple[float, tuple[Passage, ...] | GatewayFault]]
    grades: list[tuple[float, Grade | Exception]]
    drafts: list[DraftScript]
    wait_s: float | None
    looks_ahead: bool
    limits: Limits

    def parts(self) -> Parts:
        return Parts(
            house(FakeRetriever(self.searches)),
            None,
            FakeGrader(self.grades),
            FakeGenerator(self.drafts),
            Wait(self.wait_s, self.looks_ahead),
            MemoryGaps(),
        )


SCRIPTS = st.builds(
    Script,
    st.lists(searches(), min_size=1, max_size=3),
    st.lists(st.tuples(DELAYS, GRADES | NO_GRADE), min_size=1, max_size=3),
    st.lists(drafts(), min_size=1, max_size=3),
    st.sampled_from([None, 0.0, 0.0, 1.0]),
    st.booleans(),
    st.builds(
        Limits,
        max_retries=st.integers(0, 2),
        deadline_s=st.sampled_from([3.0, 7.0, 60.0]),
        grade_timeout_s=st.sampled_from([1.0, 2.0, 10.0]),
        strict_subset=st.booleans(),
    ),
)
BACKENDS = st.sampled_from(["asyncio", "asyncio", "trio"])
LEAVING = st.none() | st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


@given(backend=BACKENDS, script=SCRIPTS, leave_after_s=LEAVING)
@settings(max_examples=150, deadline=None)
def test_every_span_ends_once_with_an_outcome_in_one_tree(
    backend: str, script: Script, leave_after_s: float | None
) -> None:
    observed = observe(backend, script.parts(), script.limits, leave_after_s=leave_after_s)

    recording = observed.recording
    recording.assert_sound()
    told = attributes(recording.named("POST /v1/answers")[0])
    event(f"{told['gateway.path']}")
    done = [
        e for e in observed.events if isinstance(e, Done)
    ]  # a client that leaves after it has everything lost nothing
    assert told["gateway.path"] == (done[0].path if done else "abandoned")
    assert len(recording.named("failure_path")) == (told["gateway.path"] != "clean")
    assert len(recording.named("attempt")) == told["gateway.attempts"]
    drafts = recording.named("chat writer")
    assert len(recording.spans) <= max(SPANS, 3 + 3 * len(recording.named("attempt")) + len(drafts)), "unfolded"
    drafts_released = [s for s in drafts if attributes(s)["gateway.outcome"] == "released"]
    assert len(drafts_released) <= 1
    if told["gateway.path"] in ("clean", "recovered"):
        assert len(drafts_released) == 1


@given(script=SCRIPTS)
@settings(max_examples=75, deadline=None)
def test_an_answer_is_the_same_with_and_without_telemetry(script: Script) -> None:
    observed = observe("asyncio", script.parts(), script.limits)  # trio breaks ties at random

    assert timeless(observed.events) == timeless(untraced(script))


def untraced(script: Script) -> list[Event]:
    events: list[Event] = []

    async def emit(batch: tuple[Event, ...]) -> None:
        await checkpoint()
        events.extend(batch)

    async def run() -> None:
        await answer(ask(), script.parts(), script.limits, emit, Facts())

    run_virtual("asyncio", run)
    return events


def timeless(events: list[Event]) -> list[Event]:
    return [e if not isinstance(e, Done) else Done(e.path, e.finish_reason, e.attempts, e.usage) for e in events]
