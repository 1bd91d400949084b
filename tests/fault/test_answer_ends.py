"""The ends of an answer that were once loose: refused turns, spent tokens, a halt while checking, quotes in the hold, blanks."""

from typing import Any

import anyio
import pytest

from grading.grade import Grade, Verdict
from retrieval.faults import GatewayFault
from streaming.allowance import Allowance
from streaming.answer import answer
from streaming.ask import Ask
from streaming.budget import Limits, Verify
from streaming.drafting import CLOSE_LIMIT_S, TOKEN_LIMIT_BYTES
from streaming.events import Done, Event, Failed, Refusal, Token
from streaming.facts import AttemptEnded, DraftClosed, Released
from streaming.faults import GeneratorUnavailable
from streaming.halt import Halt
from streaming.pace import Pace
from streaming.ports import Cited, Decision, Kept, Stopped, StopReason, Text, Turn, Usage
from streaming.recall import events_of
from streaming.speculate import Adaptive, Worth
from tests.support.clock import run_virtual
from tests.support.fakes import DraftScript, FakeGenerator, FakeGrader, FakeRetriever, FakeVerifier, passages
from tests.support.loop import QUESTION, Loop, play

GOOD = Grade(Verdict.SUFFICIENT, relevant=(1, 2))
STOP = (0.0, (Stopped(StopReason.END),))


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def answering(*drafts: DraftScript, **more: Any) -> Loop:
    grader = FakeGrader([(1.0, GOOD)])
    return Loop(grader, FakeGenerator(list(drafts)), FakeRetriever([(0.0, passages(2, "a"))]), **more)


WELL = DraftScript(((0.0, (Text("All is well here."),)), STOP))


def test_a_refused_turn_and_a_blank_one_do_not_reach_the_generator(backend: str) -> None:
    kept = (Turn("user", "How are roses pruned?"), Turn("assistant", "In March."))
    refused = (
        Turn("user", "What is the price of the moon?"),
        Turn("assistant", "I searched, and what I found does not answer this."),
        Turn("assistant", "  "),
    )
    loop = play(backend, answering(WELL, history=(*kept, *refused)))
    assert [prompt.history for prompt in loop.generator.prompts] == [kept]


def test_a_draft_is_not_drafted_again_with_no_tokens_left(backend: str) -> None:
    broken = DraftScript(((0.0, (Text("gone"), Usage(10, 60))),), fault=GeneratorUnavailable("away"))
    loop = play(backend, answering(broken, WELL, limits=Limits(output_tokens=60, total_output_tokens=60)))
    assert loop.calls("draft") == 1
    assert [r.reason for r in loop.of(Refusal)] == ["budget_exhausted"]
    assert ([d.path for d in loop.of(Done)], loop.text) == (["refused"], "")


def test_a_draft_that_fails_with_tokens_left_is_drafted_again(backend: str) -> None:
    broken = DraftScript(((0.0, (Text("gone"), Usage(10, 59))),), fault=GeneratorUnavailable("away"))
    loop = play(backend, answering(broken, WELL, limits=Limits(output_tokens=60, total_output_tokens=60)))
    assert [prompt.max_tokens for prompt in loop.generator.prompts] == [60, 1]
    assert loop.text == "All is well here."


def test_a_halt_ends_an_answer_that_is_being_checked(backend: str) -> None:
    """A server that drains waits for no verifier."""
    halt, told, began = Halt(), list[tuple[float, Event]](), 0.0
    verifier = FakeVerifier(delay_s=9_999.0)
    loop = answering(WELL, verifier=verifier, limits=Limits(verify=Verify.ANNOTATE, grade_timeout_s=60.0))

    async def emit(events: tuple[Event, ...]) -> None:
        told.extend((anyio.current_time() - began, event) for event in events)

    async def halted() -> None:
        nonlocal began
        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            ask = Ask("a", "t", QUESTION)
            tasks.start_soon(lambda: answer(ask, loop.parts(), loop.limits, emit, loop.facts, halt))
            await anyio.sleep(5)
            halt.now(GatewayFault("the server stops"))

    run_virtual(backend, halted)
    assert [event.text for _, event in told if isinstance(event, Token)] == ["All is well here."]
    assert [(at, event.message) for at, event in told if isinstance(event, Failed)] == [(5.0, "the server stops")]
    assert [(at, event.path) for at, event in told if isinstance(event, Done)] == [(5.0, "failed")]
    assert verifier.running == 0


def test_the_draft_of_a_client_that_left_is_cut_before_anything_is_cancelled(backend: str) -> None:
    """In the turn of the event loop in which that is known; what follows is one draft that its client left."""
    halt, cut = Halt(), list[float | None]()
    long = DraftScript(((0.0, (Text("Well"),)), (9_999.0, (Text("."),)), STOP))
    loop = Loop(
        FakeGrader([(9_999.0, GOOD)]),
        FakeGenerator([long]),
        FakeRetriever([(0.0, passages(2, "a"))]),
        limits=Limits(silence_s=99_999, grade_timeout_s=99_999, deadline_s=99_999),
    )

    async def emit(events: tuple[Event, ...]) -> None: ...

    async def left() -> None:
        halt.cut()  # there is nothing to cut yet
        async with anyio.create_task_group() as tasks:
            ask = Ask("a", "t", QUESTION)
            tasks.start_soon(lambda: answer(ask, loop.parts(), loop.limits, emit, loop.facts, halt))
            await anyio.sleep(5)
            draft = loop.generator.drafts[0]
            cut.append(draft.cut_at)
            halt.cut()
            cut.append(draft.cut_at)
            tasks.cancel_scope.cancel()
        halt.cut()  # nothing is left to cut

    run_virtual(backend, left)
    assert cut[0] is None
    assert cut[1] is not None
    assert [fact.outcome for fact in loop.facts.of(DraftClosed)] == ["client_gone"]


def test_quotes_count_in_what_is_held(backend: str) -> None:
    """Twelve quotes of 8 KiB are more than a hold of 64 KiB: reading stops until the verdict, and nothing is lost."""
    cited = tuple((0.0, (Text("x"), Cited(1, at, at + 1, "q" * 8_000))) for at in range(12))
    read_at: list[float] = []
    loop = answering(DraftScript((*cited, STOP)), limits=Limits(hold_bytes=65_536))
    loop.generator.on_resume = lambda _draft: read_at.append(anyio.current_time())
    play(backend, loop)
    assert [at < 1.0 for at in read_at] == [True] * 8 + [False] * 5  # the last is the end
    assert loop.text == "x" * 12
    assert loop.of(Done)[0].path == "clean"


@pytest.mark.parametrize("quote", ["q" * 8_000, "q" * 100_000, "…" * 8_000])
def test_citations_that_are_dropped_give_their_room_back(backend: str, quote: str) -> None:
    cited = tuple((0.0, (Text("x"), Cited(2, at, at + 1, quote))) for at in range(40))
    loop = answering(DraftScript((*cited, STOP)), limits=Limits(hold_bytes=65_536))
    loop.grader = FakeGrader([(1.0, Grade(Verdict.SUFFICIENT, relevant=(1,)))])
    play(backend, loop)
    assert (loop.text, loop.of(Done)[0].path) == ("x" * 40, "clean")


class Narrow:
    """Drafts at once, and lets a draft hold eight tokens before its verdict (streaming.ports.Speculator)."""

    def decide(self, question: str, passages: object) -> Decision:
        return Decision(0.0, "likely", 0.9, hold_tokens=8)

    def learn(self, fact: object) -> None: ...


def test_quotes_do_not_count_as_tokens_that_may_be_wasted(backend: str) -> None:
    """Eight tokens are 32 bytes of text: a citation's quote, for which no model was paid, takes nothing from them."""
    cited = tuple((0.0, (Text("four"), Cited(1, at * 4, at * 4 + 4, "q" * 500))) for at in range(12))
    read_at: list[float] = []
    loop = answering(DraftScript((*cited, STOP)), speculator=Narrow())
    loop.generator.on_resume = lambda _draft: read_at.append(anyio.current_time())
    play(backend, loop)
    assert [at < 1.0 for at in read_at] == [True] * 8 + [False] * 5
    assert loop.text == "four" * 12


@pytest.mark.parametrize("fault", [None, GeneratorUnavailable("away")])
@pytest.mark.parametrize("verify", [Verify.OFF, Verify.GATE])
def test_two_drafts_never_mix_also_when_the_first_has_said_a_blank_alone(
    backend: str, fault: Exception | None, verify: Verify
) -> None:
    blank = DraftScript(((2.0, (Text("\n\n"),)), *((STOP,) if fault is None else ())), fault=fault)
    verifier = FakeVerifier() if verify is Verify.GATE else None
    loop = play(backend, answering(blank, WELL, verifier=verifier, limits=Limits(verify=verify)))
    assert loop.text in {"", "\n\n", "All is well here."}
    assert len(loop.of(Done)) == 1


def test_a_draft_whose_answer_is_whole_reads_the_rest_of_its_response(backend: str) -> None:
    """So that its connection serves again; the answer's end is told before."""
    loop = answering(DraftScript(((0.0, (Text("All is well here."),)), STOP, (0.5, ()))))
    play(backend, loop)
    assert (loop.times(Done), loop.took_s) == ([1.0], 1.0)  # the rest came while it was held
    late = answering(DraftScript(((2.0, (Text("All is well here."),)), STOP, (0.5, ()))))
    play(backend, late)
    assert (late.times(Done), late.took_s) == ([2.0], 2.5)
    endless = answering(DraftScript(((2.0, (Text("All is well here."),)), STOP), hangs=True))
    play(backend, endless)
    assert (endless.times(Done), endless.took_s) == ([2.0], 2.0 + CLOSE_LIMIT_S)
    assert [each.outcomes for each in (loop, late, endless)] == [["released"]] * 3


@pytest.mark.parametrize("ending", ["the client leaves", "a fault", "the deadline"])
def test_what_was_sent_of_a_draft_is_no_waste_however_it_ended(backend: str, ending: str) -> None:
    """Else whoever presses stop would be left without speculation for a minute."""
    fault = GeneratorUnavailable("away") if ending == "a fault" else None

    async def played() -> tuple[int, int]:
        waste = Allowance(1_000, anyio.current_time)
        speculator = Adaptive(lambda *_: 1.0, Pace(), Worth(1.0, 0.0, 0.0), waste, lambda: False)
        draft = DraftScript(((1.5, (Text("said " * 20),)), (0.5, ())), fault=fault, hangs=fault is None)
        leaves_at = 3.0 if ending == "the client leaves" else None
        loop = answering(draft, limits=Limits(deadline_s=5.0), speculator=speculator, leaves_at=leaves_at)
        await loop.play()
        assert loop.text == "said " * 20
        return waste.spent, waste.reserve(1_000, at_least=1)

    assert run_virtual(backend, played) == (0, 1_000)


def test_a_released_draft_may_hold_as_much_as_any_whatever_it_might_have_wasted(backend: str) -> None:
    """Eight tokens were all it might hold before the verdict; after it a client that does not read is no reason to stop so early."""
    read_at: list[float] = []
    loop = answering(DraftScript((*((0.0, (Text("four"),)),) * 100, STOP)), speculator=Narrow())
    loop.generator.on_resume = lambda _draft: read_at.append(anyio.current_time() - began)
    began = 0.0

    async def emit(events: tuple[Event, ...]) -> None:
        if any(isinstance(event, Token) for event in events):
            await anyio.sleep(10.0)

    async def played() -> None:
        nonlocal began
        began = anyio.current_time()
        await answer(Ask("a", "t", QUESTION), loop.parts(), Limits(), emit, loop.facts)

    run_virtual(backend, played)
    assert len(read_at) == 101
    assert [sum(at < 1.0 for at in read_at), sum(1.0 <= at < 11.0 for at in read_at)] == [8, 93]


def test_a_draft_that_is_drafted_again_before_its_verdict_may_waste_no_more_than_the_first(backend: str) -> None:
    read_at: list[float] = []
    broken = DraftScript(((0.0, (Text("four"),)),), fault=GeneratorUnavailable("away"))
    loop = answering(broken, DraftScript((*((0.0, (Text("four"),)),) * 100, STOP)), speculator=Narrow())
    loop.generator.on_resume = lambda draft: (
        read_at.append(anyio.current_time()) if draft.script.fault is None else None
    )
    play(backend, loop)
    assert sum(at < 1.0 for at in read_at) == 8
    assert loop.text == "four" * 100


@pytest.mark.parametrize("said_at", [0.5, 1.5])
def test_a_draft_that_was_released_and_is_over_was_released_also_when_its_client_leaves_then(
    backend: str, said_at: float
) -> None:
    """It ends before its verdict, or after it; the client takes what there is and no more."""
    loop = answering(DraftScript(((said_at, (Text("All is"),)), (0.1, (Text(" well here."),)), STOP)))

    async def emit(events: tuple[Event, ...]) -> None:
        if any(isinstance(event, Token) for event in events):
            await anyio.sleep(10.0)

    async def played() -> None:
        with anyio.move_on_after(5.0):
            await answer(Ask("a", "t", QUESTION), loop.parts(), Limits(), emit, loop.facts)

    run_virtual(backend, played)
    assert loop.outcomes == ["released"]


def test_a_draft_that_was_sent_up_to_an_unsupported_sentence_was_released(backend: str) -> None:
    text = "Roses need the sun. Moss needs a telephone. "
    verifier = FakeVerifier(lie="telephone")
    draft = DraftScript(((0.5, (Text(text),)), (1.0, (Text("And more of it."),))), hangs=True)
    loop = play(backend, answering(draft, verifier=verifier, limits=Limits(verify=Verify.GATE)))
    assert [r.reason for r in loop.of(Refusal)] == ["ungrounded"]
    assert (loop.text, loop.outcomes) == ("Roses need the sun. ", ["released"])


def test_a_text_that_is_longer_than_all_that_may_be_held_comes_in_parts(backend: str) -> None:
    loop = answering(DraftScript(((0.0, (Text("é" * 1_000),)), STOP)), limits=Limits(hold_bytes=64))
    play(backend, loop)
    assert [fact.held_bytes for fact in loop.facts.of(Released)] == [64]
    assert (loop.text, loop.of(Done)[0].path) == ("é" * 1_000, "clean")


def test_a_model_that_falls_silent_after_a_wait_of_our_own_is_left(backend: str) -> None:
    """Its draft is held back by a full buffer until the verdict; from there on it is the model that keeps the answer waiting."""
    draft = DraftScript((*((0.0, (Text("x" * 50),)),) * 2,), hangs=True)
    loop = answering(draft, limits=Limits(hold_bytes=64, silence_s=5.0, grade_timeout_s=50.0))
    loop.grader = FakeGrader([(30.0, GOOD)])
    play(backend, loop)
    assert [fault.type for fault in loop.of(Failed)] == ["generator_unavailable"]
    assert 34.5 <= loop.times(Failed)[0] <= 35.0


def test_how_long_a_draft_took_to_speak_and_spoke_is_told(backend: str) -> None:
    loop = answering(DraftScript(((0.5, (Text("All is"),)), (1.5, (Text(" well."),)), (9.0, STOP[1]))))
    play(backend, loop)
    assert [(fact.first_text_s, fact.text_s) for fact in loop.facts.of(DraftClosed)] == [(0.5, 1.5)]


def test_a_long_conflict_is_said_in_tokens_of_at_most_8_kib(backend: str) -> None:
    words = "one says é, the other è; " * 500
    loop = answering(WELL)
    loop.grader = FakeGrader([(1.0, Grade(Verdict.SUFFICIENT, relevant=(1, 2), conflicts=words))])
    play(backend, loop)
    assert loop.text == f"All is well here.\n\nThe sources disagree: {words}"
    assert max(len(token.text.encode()) for token in loop.of(Token)) <= TOKEN_LIMIT_BYTES


def test_a_long_answer_is_recalled_in_tokens_of_at_most_8_kib() -> None:
    tokens = [event.text for event in events_of(Kept("é" * 10_000, (), ())) if isinstance(event, Token)]
    assert "".join(tokens) == "é" * 10_000
    assert max(len(token.encode()) for token in tokens) <= TOKEN_LIMIT_BYTES


def test_an_attempt_that_the_deadline_ends_is_told_as_that(backend: str) -> None:
    loop = answering(WELL, limits=Limits(deadline_s=0.5))
    play(backend, loop)
    assert [fact.outcome for fact in loop.facts.of(AttemptEnded)] == ["timeout"]
    assert [r.reason for r in loop.of(Refusal)] == ["budget_exhausted"]
