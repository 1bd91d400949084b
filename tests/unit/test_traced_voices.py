"""Spans of what is said in other words and of what is checked; figures of search and grade on theirs."""

from dataclasses import replace
from typing import Any

import anyio
import pytest

from grading.correct import Cause, Strategy
from grading.faults import RewriterUnavailable
from grading.grade import Grade, Verdict
from retrieval.passage import Passage
from retrieval.sources import house
from streaming.answer import Parts
from streaming.ask import Ask
from streaming.budget import Limits, Verify
from streaming.ports import Stopped, StopReason, Text, Turn
from streaming.speculate import Always
from tests.support.fakes import (
    DraftScript,
    FakeGenerator,
    FakeGrader,
    FakeRetriever,
    FakeRewriter,
    FakeVerifier,
    MemoryGaps,
    passages,
)
from tests.support.span_trees import Observed, ask, attributes, begun, ended, observe

GOOD = Grade(Verdict.SUFFICIENT, relevant=(1, 2), input_tokens=300, output_tokens=20)
BAD = Grade(Verdict.INSUFFICIENT)
TWO = "Roses need the sun. Ferns need some shade."
FOLLOW_UP = replace(ask("and why?"), history=(Turn("user", "What is a rose?"),))
OFF_TOPIC = (Verdict.INSUFFICIENT, Cause.OFF_TOPIC)


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def parts(*grades: Grade, found: tuple[Passage, ...] = passages(3), **more: Any) -> Parts:
    draft = DraftScript(((0.1, (Text(TWO),)), (0.0, (Stopped(StopReason.END),))))
    made = Parts(
        sources=house(FakeRetriever([(0.25, found)])),
        reranker=None,
        grader=FakeGrader([(1.0, grade) for grade in grades]),
        generator=FakeGenerator([draft]),
        speculator=Always(),
        gaps=MemoryGaps(),
    )
    return replace(made, **more)


def seen(backend: str, made: Parts, limits: Limits | None = None, question: Ask | None = None, **more: Any) -> Observed:
    observed = observe(backend, made, limits or Limits(), question=question, **more)
    observed.recording.assert_sound()
    return observed


def told(observed: Observed, name: str) -> list[dict[str, object]]:
    return [attributes(span) for span in observed.recording.named(name)]


def parent(observed: Observed, name: str) -> list[str]:
    by_id = {span.context.span_id: span.name for span in observed.recording.spans if span.context}
    return [by_id[span.parent.span_id] for span in observed.recording.named(name) if span.parent]


# ---------------------------------------------------------------- in other words


def test_a_question_made_to_stand_alone_is_a_span_before_the_first_attempt(backend: str) -> None:
    observed = seen(backend, parts(GOOD, rewriter=FakeRewriter(alone="Why is a rose?")), question=FOLLOW_UP)
    (span,) = told(observed, "rewrite")
    assert (span["gateway.rewrite.kind"], span["gateway.rewrite.used"], span["gateway.outcome"]) == (
        "standalone",
        True,
        "ok",
    )
    assert parent(observed, "rewrite") == ["invoke_agent gateway"]


@pytest.mark.parametrize(
    ("strategy", "kind"),
    [(Strategy.REWRITE, "rewrite"), (Strategy.DECOMPOSE, "decompose"), (Strategy.FILTERS, "filters")],
)
def test_each_way_of_saying_it_is_a_span_of_the_attempt_that_failed(
    backend: str, strategy: Strategy, kind: str
) -> None:
    class Fields:
        async def fields(self, collection: str, tenant: str) -> dict[str, tuple[int, ...]]:
            return {"year": (2024,)}

    rewriter = FakeRewriter("other words", ("one?", "two?"), asked={"year": 2024})
    made = parts(BAD, GOOD, rewriter=rewriter, policy={OFF_TOPIC: (strategy,)}, fields=Fields())
    observed = seen(backend, made)
    assert [span["gateway.rewrite.kind"] for span in told(observed, "rewrite")] == [kind]
    assert parent(observed, "rewrite") == ["attempt"]
    first, second = told(observed, "attempt")
    assert (first["gateway.strategy"], first["gateway.search.need"]) == ("hybrid", "meaning")
    assert (second["gateway.strategy"], second["gateway.correction"]) == (strategy, strategy)
    assert "gateway.search.need" not in second


def test_a_rewriter_that_fails_is_a_failed_span_of_an_answer_that_goes_on(backend: str) -> None:
    made = parts(GOOD, rewriter=FakeRewriter(fault=RewriterUnavailable("secret")))
    observed = seen(backend, made, question=FOLLOW_UP)
    (span,) = told(observed, "rewrite")
    assert (span["gateway.outcome"], span["error.type"]) == ("failed", RewriterUnavailable.type)
    assert "gateway.rewrite.used" not in span
    assert observed.path == "clean"


class Slow(FakeRewriter):
    async def standalone(self, question: str, history: Any) -> str:
        await anyio.sleep_forever()
        raise AssertionError


@pytest.mark.parametrize(("leave_after_s", "outcome"), [(1.0, "client_gone"), (None, "timeout")])
def test_a_rewrite_that_never_ends_ends_with_its_answer(
    backend: str, leave_after_s: float | None, outcome: str
) -> None:
    made = parts(GOOD, rewriter=Slow())
    observed = seen(backend, made, Limits(deadline_s=5.0), FOLLOW_UP, leave_after_s=leave_after_s)
    assert [span["gateway.outcome"] for span in told(observed, "rewrite")] == [outcome]


def test_the_similarity_of_a_query_in_other_words_is_on_its_attempt(backend: str) -> None:
    async def near(one: str, other: str) -> float:
        return 0.75

    made = parts(
        BAD, GOOD, rewriter=FakeRewriter("other words"), policy={OFF_TOPIC: (Strategy.REWRITE,)}, similarity=near
    )
    first, second = told(seen(backend, made), "attempt")
    assert "gateway.query.similarity" not in first
    assert second["gateway.query.similarity"] == 0.75


# ---------------------------------------------------------------- checked


@pytest.mark.parametrize(("mode", "calls"), [(Verify.ANNOTATE, 1), (Verify.GATE, 2)])
def test_all_checks_of_an_answer_are_one_span_of_it(backend: str, mode: Verify, calls: int) -> None:
    observed = seen(backend, parts(GOOD, verifier=FakeVerifier(delay_s=1.0)), Limits(verify=mode))
    (span,) = told(observed, "verify")
    assert parent(observed, "verify") == ["invoke_agent gateway"]
    expected = {
        "gateway.verifier": "fake",
        "gateway.verify.calls": calls,
        "gateway.attempt": 1,
        "gateway.grounded": True,
        "gateway.claims": 2,
        "gateway.claims.unsupported": 0,
        "gateway.outcome": "ok",
    }
    assert span.items() >= expected.items()
    (answer,) = told(observed, "invoke_agent gateway")
    assert (answer["gateway.grounded"], answer["gateway.claims"]) == (True, 2)


def test_what_is_unsupported_is_counted(backend: str) -> None:
    made = parts(GOOD, verifier=FakeVerifier(lie="Ferns"))
    (span,) = told(seen(backend, made, Limits(verify=Verify.ANNOTATE)), "verify")
    assert (span["gateway.grounded"], span["gateway.claims.unsupported"]) == (False, 1)


def test_each_attempt_that_was_checked_has_its_span(backend: str) -> None:
    made = parts(GOOD, verifier=FakeVerifier(lie="Roses"))
    observed = seen(backend, made, Limits(verify=Verify.GATE))
    assert observed.path == "refused"
    assert [span["gateway.attempt"] for span in told(observed, "verify")] == [1, 2]


@pytest.mark.parametrize(
    ("verifier", "outcome"),
    [(FakeVerifier(fault=ValueError("secret")), "failed"), (FakeVerifier(delay_s=9_999.0), "timeout")],
)
def test_a_verifier_that_fails_or_stalls_says_so(backend: str, verifier: FakeVerifier, outcome: str) -> None:
    observed = seen(backend, parts(GOOD, verifier=verifier), Limits(verify=Verify.ANNOTATE, grade_timeout_s=4.0))
    assert [span["gateway.outcome"] for span in told(observed, "verify")] == [outcome]
    assert observed.path == "clean"


def test_a_client_that_leaves_during_the_check_ends_it(backend: str) -> None:
    made = parts(GOOD, verifier=FakeVerifier(delay_s=9_999.0))
    observed = seen(backend, made, Limits(verify=Verify.ANNOTATE), leave_after_s=3.0)
    assert [span["gateway.outcome"] for span in told(observed, "verify")] == ["client_gone"]


# ---------------------------------------------------------------- figures


def test_search_and_grade_say_their_figures(backend: str) -> None:
    scored = tuple(replace(p, score=score) for p, score in zip(passages(3), (0.75, 0.5, 0.25), strict=True))
    observed = seen(backend, parts(GOOD, found=(*scored, replace(scored[0], id="copy", document_id="copy"))))
    (search,) = told(observed, "retrieval docs")
    assert (search["gateway.search.top_score"], search["gateway.search.last_score"]) == (0.75, 0.75)
    assert search["gateway.search.score_margin"] == 0.25
    (attempt,) = told(observed, "attempt")
    counts = ("duplicates", "outdated", "outranked", "conflicts")
    assert [attempt[f"gateway.evidence.{name}"] for name in counts] == [1, 0, 0, 0]
    assert (attempt["gateway.passages"], attempt["gateway.retrieval_s"], attempt["gateway.grade_s"]) == (3, 0.25, 1.0)
    (grade,) = told(observed, "chat judge")
    assert (grade["gen_ai.usage.input_tokens"], grade["gen_ai.usage.output_tokens"]) == (300, 20)


def test_a_whole_failure_has_no_more_than_fifteen_spans(backend: str) -> None:
    made = parts(BAD, GOOD, rewriter=FakeRewriter("other words", alone="Why?"), verifier=FakeVerifier())
    made = replace(made, policy={OFF_TOPIC: (Strategy.REWRITE,)})
    observed = seen(backend, made, Limits(verify=Verify.GATE), FOLLOW_UP)
    assert len(observed.recording.spans) <= 15
    assert all(begun(span) <= ended(span) for span in observed.recording.spans)
