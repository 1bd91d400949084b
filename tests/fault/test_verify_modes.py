"""Checking what is said: off, after the last token, or each sentence before it is sent. In virtual time."""

from dataclasses import dataclass, replace
from typing import Any

import anyio
import pytest

from grading.grade import Grade, Verdict
from grading.ports import Claim as ClaimOfSentence
from streaming.budget import Limits, Verify
from streaming.events import Citation, Claim, Done, Refusal, Retry, Sources, Status, Token, Verification
from streaming.facts import DraftClosed
from streaming.ports import Cited, Piece, Stopped, StopReason, Text, Usage
from tests.support.fakes import DraftScript, FakeGenerator, FakeGrader, FakeRetriever, FakeVerifier, passages
from tests.support.loop import Loop, play

GOOD = Grade(Verdict.SUFFICIENT, relevant=(1, 2, 3))
STOP = (0.0, (Stopped(StopReason.END),))
ROSES = "Roses need the sun. "
FERNS = "Ferns need some shade. "
LIE = "Moss needs a telephone. "
ANSWER = ROSES + FERNS + LIE


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def drafts(*batches: tuple[float, tuple[Piece, ...]], **more: Any) -> FakeGenerator:
    return FakeGenerator([DraftScript(batches, **more)])


def at_once(*texts: str) -> FakeGenerator:
    """Draft number n says the n-th text at once, and stops."""
    return FakeGenerator([DraftScript(((0.0, (Text(text),)), STOP)) for text in texts])


def checked(verify: Verify, generator: FakeGenerator, verifier: FakeVerifier | None, **limits: Any) -> Loop:
    return Loop(
        grader=FakeGrader([(1.0, GOOD)]),
        generator=generator,
        house=FakeRetriever([(0.0, passages(3, "a")), (0.0, passages(3, "b")), (0.0, passages(3, "c"))]),
        verifier=verifier,
        limits=replace(Limits(verify=verify), **limits),
    )


# ---------------------------------------------------------------- off


@pytest.mark.parametrize("mode", Verify)
def test_without_a_verifier_nothing_is_checked(backend: str, mode: Verify) -> None:
    loop = play(backend, checked(mode, at_once(ANSWER), None))
    assert (loop.text, loop.times(Token), loop.of(Verification)) == (ANSWER, [1.0], [])


def test_off_asks_no_verifier(backend: str) -> None:
    verifier = FakeVerifier(lie=LIE.strip())
    loop = play(backend, checked(Verify.OFF, at_once(ANSWER), verifier))
    assert (loop.text, loop.of(Verification), verifier.claims) == (ANSWER, [], [])


# ---------------------------------------------------------------- annotate


def test_annotate_sends_everything_and_then_names_what_is_unsupported(backend: str) -> None:
    verifier = FakeVerifier(lie=LIE.strip(), delay_s=2.0)
    said = (Text(ROSES), Cited(2, 0, 20), Text(FERNS), Text(LIE), Cited(1, 43, 67))
    loop = play(backend, checked(Verify.ANNOTATE, drafts((0.0, said), STOP), verifier))
    assert loop.text == ANSWER
    assert (loop.times(Token), loop.times(Verification), loop.times(Done)) == ([1.0] * 2, [3.0], [3.0])
    assert loop.of(Verification) == [
        Verification(False, (Claim(0, 20, True, (2,)), Claim(20, 43, True, ()), Claim(43, 67, False, (1,))))
    ]
    assert loop.names[4:] == ["Sources", "Token", "Citation", "Token", "Citation", "Status", "Verification", "Done"]
    assert [s.stage for s in loop.of(Status)] == ["retrieving", "grading", "generating", "verifying"]
    assert (loop.of(Done)[0].path, loop.calls("draft"), len(verifier.claims)) == ("clean", 1, 3)


def test_an_answer_that_holds_is_grounded(backend: str) -> None:
    loop = play(backend, checked(Verify.ANNOTATE, at_once(ROSES + FERNS), FakeVerifier()))
    assert [(v.grounded, len(v.claims)) for v in loop.of(Verification)] == [(True, 2)]


@pytest.mark.parametrize(
    ("verifier", "after_s"), [(FakeVerifier(fault=ValueError("secret")), 1.0), (FakeVerifier(delay_s=9_999.0), 5.0)]
)
def test_a_verifier_that_fails_or_stalls_grounds_nothing_and_breaks_nothing(
    backend: str, verifier: FakeVerifier, after_s: float
) -> None:
    loop = play(backend, checked(Verify.ANNOTATE, at_once(ANSWER), verifier, grade_timeout_s=4.0))
    assert (loop.text, loop.of(Verification)) == (ANSWER, [Verification(False, ())])
    assert (loop.times(Done), loop.of(Done)[0].path) == ([after_s], "clean")
    assert "secret" not in repr(loop.events)


def test_annotating_ends_with_the_deadline(backend: str) -> None:
    loop = play(backend, checked(Verify.ANNOTATE, at_once(ANSWER), FakeVerifier(delay_s=9_999.0), deadline_s=2.0))
    assert (loop.text, loop.times(Done)) == (ANSWER, [2.0])


def test_a_refused_answer_is_not_checked(backend: str) -> None:
    verifier = FakeVerifier()
    loop = checked(Verify.ANNOTATE, at_once(ANSWER), verifier, max_retries=0)
    loop.grader = FakeGrader([(0.0, Grade(Verdict.INSUFFICIENT))])
    play(backend, loop)
    assert (loop.of(Verification), verifier.claims) == ([], [])


# ---------------------------------------------------------------- gate


def test_gate_holds_what_was_drafted_for_one_check_and_checks_side_by_side(backend: str) -> None:
    verifier = FakeVerifier(delay_s=2.0)
    loop = play(backend, checked(Verify.GATE, at_once(ANSWER), verifier))
    assert loop.text == ANSWER
    assert set(loop.times(Token)) == {3.0}  # the grade, then one check for all three
    assert loop.times(Sources) == [3.0]
    assert [(v.grounded, len(v.claims)) for v in loop.of(Verification)] == [(True, 3)]
    assert (len(verifier.claims), loop.calls("draft"), loop.of(Done)[0].path) == (3, 1, "clean")


def test_gate_lets_each_sentence_wait_for_its_own_check_alone(backend: str) -> None:
    """A sentence every 3 s, 1 s a check: each leaves 1 s after it is complete."""
    batches = ((2.0, (Text(ROSES),)), (3.0, (Text(FERNS),)), (3.0, (Text(LIE),)))
    loop = play(backend, checked(Verify.GATE, drafts(*batches, STOP), FakeVerifier(delay_s=1.0)))
    sent = dict.fromkeys(loop.times(Token), "")
    for at, event in loop.events:
        if isinstance(event, Token):
            sent[at] += event.text
    assert sent == {6.0: ROSES, 9.0: FERNS + LIE}  # complete when the next begins, at 5 and 8, or with the stop, at 8


def test_gate_never_sends_a_sentence_before_the_one_in_front_of_it(backend: str) -> None:
    class FirstIsSlow(FakeVerifier):
        async def supported(self, question: str, claims: Any) -> tuple[bool, ...]:
            await anyio.sleep(5.0 if claims[0].text == ROSES.strip() else 1.0)
            return (True,)

    loop = play(backend, checked(Verify.GATE, at_once(ANSWER), FirstIsSlow()))
    assert (loop.text, set(loop.times(Token))) == (ANSWER, {6.0})


def test_gate_waits_for_no_check_where_nothing_is_claimed(backend: str) -> None:
    preamble = (Text("These are quotes only.\n\n", is_claim=False), Text(ROSES))
    loop = play(backend, checked(Verify.GATE, drafts((0.0, preamble), STOP), FakeVerifier(delay_s=2.0)))
    assert loop.times(Token) == [1.0, 3.0]
    assert [v.claims for v in loop.of(Verification)] == [(Claim(24, 44, True, ()),)]


def test_an_unsupported_first_sentence_becomes_a_correction_and_nothing_of_it_is_sent(backend: str) -> None:
    loop = checked(Verify.GATE, at_once(LIE + ROSES, ROSES + FERNS), FakeVerifier(lie=LIE.strip(), delay_s=1.0))
    play(backend, loop)
    (retry,) = loop.of(Retry)
    assert (retry.verdict, retry.correction, retry.missing) == ("partial", "gap_query", None)
    assert LIE.strip() not in repr(loop.events)  # not as what is missing either, nor as what is searched for
    assert loop.text == ROSES + FERNS
    assert (loop.times(Retry), set(loop.times(Token))) == ([2.0], {4.0})
    assert (len(loop.of(Sources)), loop.of(Done)[0].path) == (1, "recovered")
    assert (loop.calls("search"), loop.calls("grade"), loop.calls("draft")) == (2, 2, 2)
    assert loop.outcomes == ["discarded", "released"]
    assert [v.grounded for v in loop.of(Verification)] == [True]


def test_a_refusal_after_an_unsupported_sentence_does_not_tell_it_as_what_was_searched(backend: str) -> None:
    verifier = FakeVerifier(lie=LIE.strip())
    loop = play(backend, checked(Verify.GATE, at_once(LIE + ROSES, LIE + FERNS), verifier))
    assert [r.reason for r in loop.of(Refusal)] == ["ungrounded"]
    assert LIE.strip() not in repr(loop.events)


def test_an_unsupported_first_sentence_without_a_retry_left_is_refused_as_ungrounded(backend: str) -> None:
    loop = checked(Verify.GATE, at_once(LIE + ROSES), FakeVerifier(lie=LIE.strip()), max_retries=0)
    play(backend, loop)
    assert loop.names == ["Started", "Status", "Status", "Status", "Refusal", "Done"]
    assert [s.stage for s in loop.of(Status)] == ["retrieving", "grading", "verifying"]
    assert [r.reason for r in loop.of(Refusal)] == ["ungrounded"]
    assert [(d.path, d.finish_reason) for d in loop.of(Done)] == [("refused", "refusal")]
    assert_tokens(loop, released=0, discarded=11)
    assert [g.reason for g in loop.gaps.gaps] == ["ungrounded"]


def test_an_unsupported_sentence_after_something_was_sent_ends_the_answer_there(backend: str) -> None:
    said = (Text(ROSES), Cited(2, 0, 20), Text(FERNS), Text(LIE), Text(ROSES))
    generator = drafts((0.0, said), hangs=True)
    loop = checked(Verify.GATE, generator, FakeVerifier(lie=LIE.strip(), delay_s=1.0), max_retries=2)
    play(backend, loop)
    assert loop.text == ROSES + FERNS
    assert [c.n for c in loop.of(Citation)] == [2]
    assert [r.reason for r in loop.of(Refusal)] == ["ungrounded"]
    assert (loop.of(Retry), loop.calls("search"), loop.calls("draft")) == ([], 1, 1)
    assert (loop.times(Refusal), loop.took_s) == ([2.0], 2.0)  # the draft that went on is closed
    assert loop.names[-3:] == ["Token", "Refusal", "Done"]
    assert_tokens(loop, released=11, discarded=11)  # 43 of 87 characters


def test_what_was_withheld_is_discarded_also_of_a_draft_that_was_over_before_its_checks(backend: str) -> None:
    usage = Usage(10, 30)
    counted = drafts((0.0, (Text(ROSES + LIE),)), (0.0, (Stopped(StopReason.END, usage),)))
    loop = play(backend, checked(Verify.GATE, counted, FakeVerifier(lie=LIE.strip(), delay_s=1.0)))
    assert loop.text == ROSES
    assert_tokens(loop, released=14, discarded=16)  # 20 of 44 characters
    assert loop.of(Done)[0].usage["exact"] is False


def test_an_answer_that_passes_every_check_is_released_to_its_last_counted_token(backend: str) -> None:
    counted = drafts((0.0, (Text(ROSES + FERNS),)), (0.0, (Stopped(StopReason.END, Usage(10, 30)),)))
    loop = play(backend, checked(Verify.GATE, counted, FakeVerifier(delay_s=1.0)))
    assert_tokens(loop, released=30, discarded=0)
    assert loop.of(Done)[0].usage["exact"] is True


def assert_tokens(loop: Loop, *, released: int, discarded: int) -> None:
    """The ledger of `done` and what observers are told of the draft agree."""
    usage, (closed,) = loop.of(Done)[0].usage, loop.facts.of(DraftClosed)
    assert (usage["released_tokens"], usage["discarded_tokens"]) == (released, discarded)
    assert (closed.output_tokens - closed.discarded_tokens, closed.discarded_tokens) == (released, discarded)
    assert closed.exact is usage["exact"]


@pytest.mark.parametrize(
    ("verifier", "after_s"), [(FakeVerifier(fault=ValueError("secret")), 1.0), (FakeVerifier(delay_s=9_999.0), 5.0)]
)
def test_a_verifier_that_fails_or_stalls_lets_nothing_through(
    backend: str, verifier: FakeVerifier, after_s: float
) -> None:
    loop = play(
        backend, checked(Verify.GATE, at_once(ANSWER), replace(verifier, claims=[]), grade_timeout_s=4.0, max_retries=0)
    )
    assert (loop.text, loop.of(Sources), loop.of(Verification)) == ("", [], [])
    assert [r.reason for r in loop.of(Refusal)] == ["ungrounded"]
    assert (loop.times(Refusal), loop.took_s) == ([after_s], after_s)
    assert [at for at, event in loop.events if event == Status(1, "verifying")] == [1.0]  # what the wait is for
    assert "secret" not in repr(loop.events)


@pytest.mark.parametrize("leaves_at", [1.5, 2.0, 2.5])
def test_the_client_leaving_ends_every_check(backend: str, leaves_at: float) -> None:
    verifier = FakeVerifier(delay_s=1.0)
    batches = tuple((0.5, (Text(f"This is sentence number {n}. "),)) for n in range(100))
    loop = checked(Verify.GATE, drafts(*batches, hangs=True), verifier)
    loop.leaves_at = leaves_at
    play(backend, loop)
    assert loop.took_s == leaves_at
    assert verifier.running == 0


def test_an_unsupported_sentence_ends_every_other_check_with_the_answer(backend: str) -> None:
    @dataclass(slots=True)
    class Slow(FakeVerifier):
        """Says at once what the lie is, and takes for ever with everything else."""

        async def supported(self, question: str, claims: tuple[ClaimOfSentence, ...]) -> tuple[bool, ...]:
            self.delay_s = 0.0 if self.lie in claims[0].text else 9_999.0
            return await FakeVerifier.supported(self, question, claims)

    verifier = Slow(lie=LIE.strip())
    loop = play(backend, checked(Verify.GATE, at_once(LIE + ROSES + FERNS), verifier, max_retries=0))
    assert [r.reason for r in loop.of(Refusal)] == ["ungrounded"]
    assert (loop.took_s, len(verifier.claims), verifier.running) == (1.0, 3, 0)


def test_a_small_buffer_holds_back_the_draft_and_loses_nothing(backend: str) -> None:
    text = "".join(f"This is sentence number {n}. " for n in range(60))
    batches = tuple((0.0, (Text(text[n : n + 7]),)) for n in range(0, len(text), 7))
    loop = play(backend, checked(Verify.GATE, drafts(*batches, STOP), FakeVerifier(delay_s=0.1), hold_bytes=200))
    assert loop.text == text
    assert loop.of(Done)[0].path == "clean"


def test_an_answer_without_an_end_in_it_is_checked_in_parts(backend: str) -> None:
    text = "word " * 4_000
    verifier = FakeVerifier()
    loop = play(backend, checked(Verify.GATE, at_once(text), verifier, hold_bytes=32_768))
    assert loop.text == text
    assert len(verifier.claims) == 10


def test_an_answer_cut_short_is_checked_to_its_last_word(backend: str) -> None:
    short = drafts((0.0, (Text(ROSES + "Ferns need some"),)), (0.0, (Stopped(StopReason.LENGTH),)))
    loop = play(backend, checked(Verify.GATE, short, FakeVerifier()))
    assert (loop.text, loop.of(Done)[0].finish_reason) == (ROSES + "Ferns need some", "length")
    assert len(loop.of(Verification)[0].claims) == 2
