"""What is logged of an answer: figures of every attempt, and not a word of it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.decision_log import COLUMNS, rows_of
from gateway.decisions import Decision, Folding, digest_of
from grading.grade import Grade, Verdict
from grading.score import FREE_SIGNALS
from retrieval.passage import Passage
from streaming.ask import Ask
from streaming.budget import Limits, Verify
from streaming.events import Done
from streaming.facts import Ended, Judged
from streaming.ports import Cited, Kept, Stopped, StopReason, Text, Usage
from tests.support.fakes import DraftScript, FakeGenerator, FakeGrader, FakeRetriever, FakeVerifier, passages
from tests.support.loop import QUESTION, Loop, play

GOOD = Grade(Verdict.SUFFICIENT, relevant=(1, 2), grader="judge", p_sufficient=0.9, input_tokens=300, output_tokens=20)
GAP = Grade(Verdict.PARTIAL, missing="the secret price", relevant=(2,), grader="judge")
ASK = Ask("ans", "f" * 32, QUESTION, "shelf", tenant="acme")


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def draft(text: str, tokens: int, first_s: float) -> DraftScript:
    stop = Stopped(StopReason.END, Usage(100, tokens))
    return DraftScript(((first_s, (Text(text),)), (0.5, (stop,))), close_s=0.25)


def loop_of(*grades: Grade, **more: Any) -> Loop:
    drafts = FakeGenerator([draft("a secret answer", 7, 0.4), draft("All is well here.", 9, 0.25)])
    return Loop(
        FakeGrader([(1.0, grade) for grade in grades]),
        drafts,
        FakeRetriever([(0.5, passages(3, "a")), (0.25, passages(3, "b"))]),
        **more,
    )


def decided(loop: Loop, first_byte_s: float | None = 1.5) -> tuple[Decision, ...]:
    folding = Folding(ASK, "writer", clock=lambda: 0.0)
    for _, fact in loop.facts.told:
        folding.note(fact)
    return folding.decisions(first_byte_s)


def test_each_attempt_is_a_decision_with_what_was_known_and_what_came_of_it(backend: str) -> None:
    first, second = decided(play(backend, loop_of(GAP, GOOD)))
    assert (first.tenant, first.collection, first.trace_id, first.generator) == ("acme", "shelf", "f" * 32, "writer")
    assert [(d.attempt, d.attempts, d.path, d.reason, d.first_byte_s) for d in (first, second)] == [
        (1, 2, "recovered", None, 1.5),
        (2, 2, "recovered", None, 1.5),
    ]
    assert [(d.strategy, d.need, d.outcome) for d in (first, second)] == [
        ("hybrid", "meaning", "discarded"),
        ("gap_query", None, "released"),
    ]
    assert [(d.passages, d.duplicates, d.outdated, d.conflicts, d.retrieval_s) for d in (first, second)] == [
        (3, 0, 0, 0, 0.5),
        (4, 0, 0, 0, 0.25),
    ]
    assert [(d.grader, d.verdict, d.p_sufficient, d.grade_s) for d in (first, second)] == [
        ("judge", "partial", None, 1.0),
        ("judge", "sufficient", 0.9, 1.0),
    ]
    assert (second.grade_input_tokens, second.grade_output_tokens) == (300, 20)
    assert [(d.speculate, d.speculate_p, d.speculate_delay_s) for d in (first, second)] == [("always", None, 0.0)] * 2
    assert [(d.drafts, d.first_token_s, d.released_tokens, d.discarded_tokens) for d in (first, second)] == [
        (1, 0.4, 0, 7),
        (1, 0.25, 9, 0),
    ]
    assert first.question == second.question == digest_of(QUESTION.upper())


def test_what_was_checked_is_on_every_decision_of_the_answer(backend: str) -> None:
    checked = loop_of(GOOD, verifier=FakeVerifier(lie="secret"), limits=Limits(verify=Verify.ANNOTATE))
    (only,) = decided(play(backend, checked))
    assert (only.grounded, only.claims, only.unsupported) == (False, 1, 1)
    (unchecked,) = decided(play(backend, loop_of(GOOD)))
    assert (unchecked.grounded, unchecked.claims) == (None, None)


def test_a_refusal_names_its_reason_and_an_abandoned_answer_its_path(backend: str) -> None:
    refused = decided(play(backend, loop_of(GAP, limits=Limits(max_retries=0))))
    assert [(d.path, d.reason, d.outcome) for d in refused] == [("refused", "insufficient_evidence", "refused")]
    left = decided(play(backend, loop_of(GOOD, leaves_at=0.7)), None)
    assert [(d.path, d.verdict, d.outcome, d.first_byte_s) for d in left] == [("abandoned", None, "client_gone", None)]


def test_a_kept_answer_and_one_that_broke_before_its_search_are_decisions_without_an_attempt(backend: str) -> None:
    class Cache:
        async def find(self, question: str, collection: str, tenant: str) -> Kept:
            return Kept("Kept.", (Cited(1, 0, 5),), tuple(enumerate(passages(1), 1)))

        async def keep(self, question: str, collection: str, tenant: str, answer: Kept) -> None: ...

    loop = play(backend, loop_of(GOOD, cache=Cache()))
    assert loop.of(Done)[0].path == "clean"
    assert [(d.attempt, d.attempts, d.strategy, d.path) for d in decided(loop)] == [(0, 0, "cache", "clean")]
    broken = Folding(ASK, "writer")
    broken.note(Judged(1, GOOD, 1.0))  # of no attempt
    broken.note(Ended("failed", 0, "internal_error"))
    assert [(d.attempt, d.strategy, d.path, d.reason) for d in broken.decisions()] == [
        (0, "none", "failed", "internal_error")
    ]


def test_a_row_has_the_signals_and_no_word_of_the_answer(backend: str) -> None:
    loop = loop_of(GAP, GOOD)
    secret = tuple(
        replace(p, title="secret title", text=f"secret text {p.id}", scores={"cosine": 0.5}) for p in passages(3)
    )
    loop.house = FakeRetriever([(0.0, secret)])
    loop.question = "What is the secret?"
    rows = rows_of(decided(play(backend, loop)))
    assert "secret" not in json.dumps(rows)
    assert [set(row) for row in rows] == [{*COLUMNS, "signals"}] * 2
    assert [tuple(row["signals"]) for row in rows] == [FREE_SIGNALS] * 2
    assert rows[0]["signals"]["top_cosine"] == 0.5


def test_only_a_set_with_a_verdict_has_signals(backend: str) -> None:
    loop = loop_of(GOOD, limits=Limits(grade_timeout_s=0.5))
    (row,) = rows_of(decided(play(backend, loop)))
    assert (row["verdict"], row["grader_fault"], row["signals"]) == (None, "grader_unavailable", None)
    loop = loop_of(GOOD)
    loop.house = FakeRetriever([(0.0, ())])
    assert {row["signals"] for row in rows_of(decided(play(backend, loop)))} == {None}


def test_what_json_cannot_hold_is_left_out(backend: str) -> None:
    (decision,) = decided(play(backend, loop_of(replace(GOOD, p_sufficient=float("nan"), grader="ju\0dge"))))
    (row,) = rows_of([decision])
    assert row["p_sufficient"] is None
    assert "\0" not in row["grader"]
    assert json.loads(json.dumps(row, allow_nan=False)) == row


@pytest.mark.parametrize("same", ["what is it", "WHAT is it?!", " What  is it? "])
def test_repeats_of_a_question_have_one_digest(same: str) -> None:
    assert digest_of(same) == digest_of(QUESTION)
    assert digest_of("Who is it?") != digest_of(QUESTION)


def test_passages_that_cannot_be_measured_leave_the_rest_of_the_row(
    backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    (decision,) = decided(play(backend, loop_of(GOOD)))
    assert decision.seen is not None
    broken = Passage("x", "x", "t", None)  # type: ignore[arg-type]
    (row,) = rows_of([replace(decision, seen=replace(decision.seen, passages=(broken,)))])
    assert (row["signals"], row["verdict"]) == (None, "sufficient")
    assert "were not measured" in caplog.text
