"""The corrective loop from end to end, in virtual time: every row of the policy, every budget, every fault of a grader.

Each test says which events come and how often each part upstream is asked.
"""

from dataclasses import replace
from typing import Any

import anyio
import pytest

from grading.cascade import Cascade, Rung
from grading.correct import DEFAULT_POLICY, Cause, Policy, Strategy
from grading.faults import GraderUnavailable, RewriterUnavailable
from grading.grade import Grade, Verdict
from grading.routing import always
from retrieval.faults import RetrievalUnavailable
from retrieval.ports import SearchMode
from streaming.budget import Limits, Verify
from streaming.events import Done, Failed, Refusal, Retry, Sources, Started, Token
from streaming.facts import AttemptBegan
from streaming.ports import Cited, Stopped, StopReason, Text, Turn, Usage
from streaming.speculate import Never
from tests.support.fakes import (
    DraftScript,
    FakeGenerator,
    FakeGrader,
    FakeRetriever,
    FakeRewriter,
    FakeVerifier,
    passages,
)
from tests.support.loop import QUESTION, Loop, play

GOOD = Grade(Verdict.SUFFICIENT, relevant=(1, 2))
BAD = Grade(Verdict.INSUFFICIENT)
GAP = Grade(Verdict.PARTIAL, missing="the price", relevant=(2,))
LIE = "It costs nothing at all."
STOP = (0.0, (Stopped(StopReason.END),))


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def says(*texts: str, **more: Any) -> FakeGenerator:
    """Draft number n says the n-th text; the last repeats."""
    return FakeGenerator([DraftScript(((0.0, (Text(text),)), STOP), **more) for text in texts])


def finds(*counts: int) -> FakeRetriever:
    """Search number n finds so many passages, a1 a2 ..., b1 b2 ..."""
    return FakeRetriever([(0.0, passages(count, tag)) for count, tag in zip(counts, "abcdef", strict=False)])


REWRITER = FakeRewriter("other words", ("part one?", "part two?"), asked={"year": 2024})


def rewriter() -> FakeRewriter:
    return replace(REWRITER, calls=[])


# ---------------------------------------------------------------- the policy

CAUSES: dict[tuple[Verdict, Cause], Grade | None] = {
    (Verdict.PARTIAL, Cause.GAP): GAP,
    (Verdict.PARTIAL, Cause.UNSTATED): Grade(Verdict.PARTIAL, relevant=(2,)),
    (Verdict.PARTIAL, Cause.CONFLICT): Grade(Verdict.PARTIAL, relevant=(2,), conflicts="1 and 2 differ"),
    (Verdict.PARTIAL, Cause.UNGROUNDED): GOOD,
    (Verdict.INSUFFICIENT, Cause.EMPTY): None,
    (Verdict.INSUFFICIENT, Cause.OFF_TOPIC): BAD,
    (Verdict.INSUFFICIENT, Cause.CONFLICT): Grade(Verdict.INSUFFICIENT, conflicts="1 and 2 differ"),
}


def failing(row: tuple[Verdict, Cause], policy: Policy, **more: Any) -> Loop:
    """An answer whose first attempt fails for the cause of `row`, and whose second does."""
    cause, grade = row[1], CAUSES[row]
    ungrounded, empty = cause is Cause.UNGROUNDED, cause is Cause.EMPTY
    return Loop(
        grader=FakeGrader([(1.0, GOOD)] if grade is None else [(1.0, grade), (1.0, GOOD)]),
        generator=says("All is well here.") if empty else says(LIE if ungrounded else "gone", "All is well here."),
        house=finds(0 if empty else 3, 3),
        web=finds(3),
        rewriter=rewriter(),
        verifier=FakeVerifier(lie=LIE),
        limits=Limits(verify=Verify.GATE if ungrounded else Verify.OFF),
        policy=policy,
        **more,
    )


def searched(strategy: Strategy, cause: Cause) -> list[str]:
    """The calls upstream by which a strategy finds its passages."""
    gap = LIE if cause is Cause.UNGROUNDED else "the price"
    return {
        Strategy.GAP_QUERY: [f"search house: {QUESTION} {gap}"],
        Strategy.REWRITE: ["search house: other words"],
        Strategy.DECOMPOSE: ["search house: part one?", "search house: part two?"],
        Strategy.HYBRID: [f"search house: {QUESTION}"],
        Strategy.FILTERS: ["fields default default", f"search house: {QUESTION}"],
        Strategy.BROADEN: [f"search house: {QUESTION}", "rerank 3 to 5"],
        Strategy.NEXT_SOURCE: [f"search web: {QUESTION}"],
    }[strategy]


EVERY = [(row, strategy) for row, strategies in DEFAULT_POLICY.items() for strategy in strategies]
EVERY += [((Verdict.INSUFFICIENT, Cause.OFF_TOPIC), Strategy.HYBRID)]


def test_the_table_of_causes_has_every_row_of_the_policy() -> None:
    assert set(CAUSES) == set(DEFAULT_POLICY)
    assert {strategy for _, strategy in EVERY} == set(Strategy)


@pytest.mark.parametrize(("row", "strategy"), EVERY, ids=lambda value: getattr(value, "value", None) or "-".join(value))
def test_every_strategy_of_every_row_recovers_the_answer(
    backend: str, row: tuple[Verdict, Cause], strategy: Strategy
) -> None:
    loop = play(backend, failing(row, {row: (strategy,)}, router=always(SearchMode.DENSE)))
    empty = row[1] is Cause.EMPTY
    (retry,) = loop.of(Retry)
    assert (retry.attempt, retry.verdict, retry.correction) == (1, row[0], strategy)
    assert loop.text == "All is well here."
    assert [(d.path, d.attempts, d.finish_reason) for d in loop.of(Done)] == [("recovered", 2, "stop")]
    found = [e for e in loop.journal[1:] if e.startswith(("search", "rerank", "fields"))]
    assert sorted(found) == sorted(searched(strategy, row[1]))
    assert (loop.calls("grade"), loop.calls("draft")) == ((1, 1) if empty else (2, 2))
    assert loop.outcomes == (["released"] if empty else ["discarded", "released"])
    assert loop.gaps.gaps == []


@pytest.mark.parametrize("row", DEFAULT_POLICY, ids="-".join)
def test_every_row_is_worked_off_in_its_order_until_the_attempts_are_spent(
    backend: str, row: tuple[Verdict, Cause]
) -> None:
    loop = failing(row, DEFAULT_POLICY)
    cause, grade = row[1], CAUSES[row]
    loop.grader = FakeGrader([(0.0, BAD if grade is None else grade)])
    loop.generator = says(LIE)
    loop.house = finds(0, 0, 0) if cause is Cause.EMPTY else finds(3, 3, 3)
    loop.limits = replace(loop.limits, max_retries=2)
    play(backend, loop)
    order = {
        Cause.GAP: ["gap_query", "decompose"],  # the same gap again is not searched for again
        Cause.UNSTATED: ["decompose", "broaden"],
        Cause.CONFLICT: ["broaden", "next_source"],
        Cause.UNGROUNDED: ["gap_query", "broaden"],
        Cause.EMPTY: ["broaden", "next_source"],
        Cause.OFF_TOPIC: ["broaden", "filters"],
    }[cause]
    assert [r.correction for r in loop.of(Retry)] == order
    reason = "ungrounded" if cause is Cause.UNGROUNDED else "insufficient_evidence"
    assert [r.reason for r in loop.of(Refusal)] == [reason]
    assert [(d.path, d.finish_reason, d.attempts) for d in loop.of(Done)] == [("refused", "refusal", 3)]
    assert loop.text == ""


def test_a_partial_set_keeps_what_was_relevant_in_front_of_what_is_found(backend: str) -> None:
    loop = play(backend, failing((Verdict.PARTIAL, Cause.GAP), DEFAULT_POLICY))
    assert [e for e in loop.journal if e.startswith("grade")] == ["grade a1 a2 a3", "grade a2 b1 b2 b3"]
    assert [p.id for _, p in loop.of(Sources)[0].passages] == ["a2", "b1"]


def test_an_insufficient_set_is_replaced(backend: str) -> None:
    loop = play(backend, failing((Verdict.INSUFFICIENT, Cause.OFF_TOPIC), DEFAULT_POLICY))
    assert [e for e in loop.journal if e.startswith("grade")] == ["grade a1 a2 a3", "grade b1 b2 b3"]
    query = loop.house.queries[1]
    assert (query.k, query.mode) == (20, SearchMode.HYBRID)


@pytest.mark.parametrize("helper", [None, FakeRewriter(), FakeRewriter(QUESTION.upper() + " "), "fails"], ids=repr)
def test_a_rewrite_that_is_missing_empty_equal_or_fails_is_passed_over(backend: str, helper: Any) -> None:
    row = (Verdict.INSUFFICIENT, Cause.OFF_TOPIC)
    loop = failing(row, {row: (Strategy.REWRITE, Strategy.DECOMPOSE, Strategy.FILTERS, Strategy.NEXT_SOURCE)})
    loop.rewriter = FakeRewriter(fault=RewriterUnavailable("down")) if helper == "fails" else helper
    play(backend, loop)
    assert [r.correction for r in loop.of(Retry)] == ["next_source"]
    assert loop.text == "All is well here."


def test_grading_and_answering_use_the_question_whatever_was_searched(backend: str) -> None:
    row = (Verdict.INSUFFICIENT, Cause.OFF_TOPIC)
    loop = play(backend, failing(row, {row: (Strategy.REWRITE,)}))
    assert loop.written["grader"].questions == [QUESTION] * 2
    assert loop.written["generator"].questions == [QUESTION] * 2
    assert [f.query for f in loop.facts.of(AttemptBegan)] == [QUESTION, "other words"]


# ---------------------------------------------------------------- budgets


def test_no_retries_left_is_a_refusal_for_want_of_evidence(backend: str) -> None:
    loop = Loop(FakeGrader([(1.0, GAP)]), says("gone"), finds(3), limits=Limits(max_retries=0))
    play(backend, loop)
    (refusal,) = loop.of(Refusal)
    assert (refusal.reason, refusal.missing, refusal.searched) == ("insufficient_evidence", "the price", (QUESTION,))
    assert [p.id for p in refusal.closest] == ["a1", "a2", "a3"]
    assert (loop.calls("search"), loop.calls("grade"), loop.calls("draft")) == (1, 1, 1)
    assert loop.names == ["Started", "Status", "Status", "Refusal", "Done"]
    assert [g.missing for g in loop.gaps.gaps] == ["the price"]


class Slow(FakeRewriter):
    """Never says another word."""

    async def rewrite(self, question: str, missing: str | None) -> str:
        await anyio.sleep_forever()
        raise AssertionError

    async def standalone(self, question: str, history: Any) -> str:
        return await self.rewrite(question, None)


OFF_TOPIC = (Verdict.INSUFFICIENT, Cause.OFF_TOPIC)
STALLS: dict[str, dict[str, Any]] = {
    "search": {"house": FakeRetriever([(9_999.0, ())])},
    "grade": {"grader": FakeGrader([(9_999.0, GOOD)]), "limits": Limits(deadline_s=5.0, grade_timeout_s=60.0)},
    "rewrite": {
        "grader": FakeGrader([(0.0, BAD)]),
        "rewriter": Slow(),
        "policy": {OFF_TOPIC: (Strategy.REWRITE,)},
    },
    "standalone": {"rewriter": Slow(), "history": (Turn("user", "What is a rose?"),)},
    "open": {"generator": FakeGenerator([DraftScript((), open_s=9_999.0)])},
    "draft": {"generator": FakeGenerator([DraftScript((), hangs=True)])},
    "check": {
        "verifier": FakeVerifier(delay_s=9_999.0),
        "limits": Limits(deadline_s=5.0, grade_timeout_s=60.0, verify=Verify.GATE),
    },
    "second search": {
        "grader": FakeGrader([(0.0, BAD)]),
        "house": FakeRetriever([(0.0, passages(2)), (9_999.0, ())]),
    },
}


@pytest.mark.parametrize("where", STALLS)
def test_the_deadline_passes_anywhere_in_one_refusal(backend: str, where: str) -> None:
    usual: dict[str, Any] = {
        "grader": FakeGrader([(0.0, GOOD)]),
        "generator": says("All is well here."),
        "house": finds(2),
        "limits": Limits(deadline_s=5.0),
    }
    loop = play(backend, Loop(**(usual | STALLS[where])))
    assert [(at, e.reason) for at, e in loop.events if isinstance(e, Refusal)] == [(5.0, "budget_exhausted")]
    assert [(d.path, d.finish_reason) for d in loop.of(Done)] == [("refused", "budget")]
    assert loop.text == ""
    assert all(part.running == 0 for part in loop.written.values())
    assert loop.verifier is None or loop.verifier.running == 0


def test_output_tokens_spent_on_a_discarded_draft_leave_none_for_another(backend: str) -> None:
    spent = FakeGenerator([DraftScript(((0.0, (Text("gone"), Usage(10, 100))),), hangs=True)])
    loop = Loop(FakeGrader([(1.0, BAD)]), spent, finds(3, 3), limits=Limits(total_output_tokens=100))
    play(backend, loop)
    assert [r.reason for r in loop.of(Refusal)] == ["budget_exhausted"]
    assert (loop.calls("search"), loop.calls("grade"), loop.calls("draft")) == (2, 1, 1)
    assert loop.of(Done)[0].usage["discarded_tokens"] == 100


def test_a_later_draft_may_say_no_more_than_what_is_left(backend: str) -> None:
    spent = DraftScript(((0.0, (Text("gone"), Usage(10, 70))),), hangs=True)
    loop = Loop(
        FakeGrader([(1.0, BAD), (1.0, GOOD)]),
        FakeGenerator([spent, DraftScript(((0.0, (Text("All is well."),)), STOP))]),
        finds(3, 3),
        limits=Limits(output_tokens=60, total_output_tokens=100),
    )
    play(backend, loop)
    assert [prompt.max_tokens for prompt in loop.generator.prompts] == [60, 30]
    assert loop.text == "All is well."


def test_input_tokens_are_counted_before_a_draft_is_asked_for(backend: str) -> None:
    long = tuple(replace(p, text=letter * 4_000) for p, letter in zip(passages(3), "xyz", strict=True))
    loop = Loop(
        FakeGrader([(1.0, GOOD)]),
        says("All is well."),
        FakeRetriever([(0.0, long)]),
        limits=Limits(total_input_tokens=2_999),
    )
    play(backend, loop)
    assert [r.reason for r in loop.of(Refusal)] == ["budget_exhausted"]
    assert (loop.calls("search"), loop.calls("grade"), loop.calls("draft")) == (1, 0, 0)
    enough = Loop(
        FakeGrader([(1.0, GOOD)]),
        says("All is well."),
        FakeRetriever([(0.0, long)]),
        limits=Limits(total_input_tokens=3_100),
    )
    assert play(backend, enough).text == "All is well."


@pytest.mark.parametrize(("allowed", "corrections"), [(0, ["broaden"]), (1, ["broaden", "next_source"])])
def test_searches_outside_the_house_are_counted_and_refused_beyond_their_budget(
    backend: str, allowed: int, corrections: list[str]
) -> None:
    loop = Loop(
        FakeGrader([(0.0, BAD)]),
        says("gone"),
        finds(3, 3),
        web=finds(3),
        policy={OFF_TOPIC: (Strategy.BROADEN, Strategy.NEXT_SOURCE)},
        limits=Limits(max_retries=2, external_searches=allowed),
    )
    play(backend, loop)
    assert [r.correction for r in loop.of(Retry)] == corrections
    assert loop.calls("search web") == allowed
    (refusal,) = loop.of(Refusal)
    assert refusal.reason == "insufficient_evidence"
    assert refusal.searched == (QUESTION, *[f"web: {QUESTION}"] * allowed)  # also where it was searched


def test_a_question_of_several_parts_is_not_sent_outside_when_they_are_more_than_allowed(backend: str) -> None:
    loop = Loop(
        FakeGrader([(0.0, BAD)]),
        says("gone"),
        finds(3),
        web=finds(3),
        rewriter=rewriter(),
        policy={OFF_TOPIC: (Strategy.NEXT_SOURCE, Strategy.DECOMPOSE)},
        limits=Limits(max_retries=2, external_searches=2),
    )
    play(backend, loop)
    assert [r.correction for r in loop.of(Retry)] == ["next_source"]  # one is spent, the parts are two
    assert loop.calls("search web") == 1


# ---------------------------------------------------------------- faults of graders and searches


@pytest.mark.parametrize("attempt", [1, 2])
@pytest.mark.parametrize(
    ("fault", "after_s"),
    [((1.0, GraderUnavailable("busy")), 1.0), ((1.0, ValueError("secret")), 1.0), ((9_999.0, GOOD), 4.0)],
    ids=["fails", "breaks", "stalls"],
)
def test_a_grader_that_gives_no_verdict_is_a_refusal_and_releases_nothing(
    backend: str, fault: Any, after_s: float, attempt: int
) -> None:
    loop = Loop(
        FakeGrader([(1.0, BAD), fault][2 - attempt :]),
        says("gone"),
        finds(3, 3),
        limits=Limits(grade_timeout_s=4.0),
    )
    play(backend, loop)
    assert [r.reason for r in loop.of(Refusal)] == ["grader_unavailable"]
    assert loop.times(Refusal) == [after_s + attempt - 1]
    assert (loop.calls("grade"), loop.calls("draft")) == (attempt, attempt)
    assert loop.text == ""
    assert "secret" not in repr(loop.events)
    assert set(loop.outcomes) == {"discarded"}


CONTRADICTIONS = {
    "something missing": (Grade(Verdict.SUFFICIENT, missing="the price", relevant=(1,)), "partial"),
    "an unknown passage": (Grade(Verdict.SUFFICIENT, relevant=(1, 9)), "partial"),
    "nothing relevant": (Grade(Verdict.SUFFICIENT), "insufficient"),
}


@pytest.mark.parametrize("said", CONTRADICTIONS)
def test_a_verdict_that_contradicts_itself_is_not_sufficient(backend: str, said: str) -> None:
    grade, verdict = CONTRADICTIONS[said]
    loop = play(backend, Loop(FakeGrader([(0.0, grade)]), says("gone"), finds(3, 3)))
    assert [r.verdict for r in loop.of(Retry)] == [verdict]
    assert [r.reason for r in loop.of(Refusal)] == ["insufficient_evidence"]
    assert (loop.calls("grade"), loop.text) == (2, "")


@pytest.mark.parametrize(
    ("first", "second", "after_s", "path"),
    [
        ((1.0, GraderUnavailable("busy")), (1.0, GOOD), 2.0, "clean"),
        ((9_999.0, GOOD), (1.0, GOOD), 3.0, "clean"),
        ((1.0, ValueError("secret")), (9_999.0, GOOD), 3.0, "refused"),
        ((1.0, replace(GOOD, p_sufficient=0.5)), (1.0, GraderUnavailable("busy")), 2.0, "refused"),
        ((1.0, replace(GOOD, p_sufficient=0.9)), (1.0, GraderUnavailable("busy")), 1.0, "clean"),
    ],
    ids=["fails", "stalls", "both fail", "unsure, then fails", "sure"],
)
def test_a_rung_that_fails_falls_to_the_next_and_then_to_a_refusal(
    backend: str, first: Any, second: Any, after_s: float, path: str
) -> None:
    rungs = [Rung(FakeGrader([first], "cheap"), 2.0, 0.3, 0.8), Rung(FakeGrader([second], "dear"), 2.0)]
    loop = play(backend, Loop(Cascade(rungs), says("All is well."), finds(3)))
    assert [d.path for d in loop.of(Done)] == [path]
    assert loop.times(Done) == [after_s]
    assert [r.reason for r in loop.of(Refusal)] == (["grader_unavailable"] if path == "refused" else [])


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_search_that_fails_is_a_failure_that_names_it(backend: str, attempt: int) -> None:
    found: list[Any] = [(0.0, passages(3)), (0.0, RetrievalUnavailable("the store does not answer"))][2 - attempt :]
    loop = play(backend, Loop(FakeGrader([(0.0, BAD)]), says("gone"), FakeRetriever(found)))
    assert [(f.type, f.retryable) for f in loop.of(Failed)] == [("retrieval_unavailable", True)]
    assert (loop.of(Done)[0].path, loop.of(Done)[0].attempts) == ("failed", attempt)
    assert loop.text == ""


# ---------------------------------------------------------------- a source searched ahead


def ahead(grader: FakeGrader, web: FakeRetriever, **more: Any) -> Loop:
    return Loop(
        grader,
        says("gone", "All is well."),
        finds(3),
        web=web,
        web_is_parallel=True,
        policy={OFF_TOPIC: (Strategy.NEXT_SOURCE,)},
        **more,
    )


def test_a_parallel_source_is_in_hand_when_the_first_set_is_found_wanting(backend: str) -> None:
    web = FakeRetriever([(2.0, passages(2, "w"))])
    loop = play(backend, ahead(FakeGrader([(3.0, BAD), (1.0, GOOD)]), web))
    assert loop.journal.count(f"search web: {QUESTION}") == 1
    assert loop.times(Token) == [4.0]  # 3 s of the first grade, 1 s of the second, none for the search
    assert [p.metadata["source"] for _, p in loop.of(Sources)[0].passages] == ["web", "web"]


def test_a_parallel_source_that_is_still_searched_is_waited_for_and_not_asked_again(backend: str) -> None:
    web = FakeRetriever([(5.0, passages(2, "w"))])
    loop = play(backend, ahead(FakeGrader([(3.0, BAD), (1.0, GOOD)]), web))
    assert (loop.calls("search web"), loop.times(Token)) == (1, [6.0])


def test_a_parallel_source_that_is_not_needed_is_let_go_with_the_answer(backend: str) -> None:
    web = FakeRetriever([(9_999.0, ())])
    loop = play(backend, ahead(FakeGrader([(1.0, GOOD)]), web))
    assert (loop.text, loop.took_s) == ("gone", 1.0)
    assert loop.written["web"].running == 0


def test_a_parallel_source_that_fails_concerns_only_an_answer_that_needs_it(backend: str) -> None:
    down = FakeRetriever([(0.5, RetrievalUnavailable("the web does not answer"))])
    assert play(backend, ahead(FakeGrader([(1.0, GOOD)]), down)).text == "gone"
    needed = play(backend, ahead(FakeGrader([(1.0, BAD)]), FakeRetriever(down.sets)))
    assert [r.reason for r in needed.of(Refusal)] == ["insufficient_evidence"]
    assert (needed.calls("grade"), needed.text) == (1, "")


def test_a_search_ahead_is_spent_and_not_spent_again(backend: str) -> None:
    web = FakeRetriever([(0.0, passages(2, "w"))])
    once = play(backend, ahead(FakeGrader([(1.0, BAD), (1.0, GOOD)]), web, limits=Limits(external_searches=1)))
    assert (once.text, once.calls("search web")) == ("All is well.", 1)
    never = play(backend, ahead(FakeGrader([(1.0, BAD)]), web, limits=Limits(external_searches=0)))
    assert never.calls("search web") == 0
    assert [r.reason for r in never.of(Refusal)] == ["insufficient_evidence"]


def test_text_from_outside_never_outranks_what_the_house_keeps(backend: str) -> None:
    loop = Loop(
        FakeGrader([(0.0, Grade(Verdict.PARTIAL, relevant=(2,))), (0.0, GOOD)]),
        says("gone", "All is well."),
        finds(3),
        web=finds(2),
        policy={(Verdict.PARTIAL, Cause.UNSTATED): (Strategy.NEXT_SOURCE,)},
    )
    web = FakeRetriever([(0.0, tuple(replace(p, score=99.0) for p in passages(2, "w")))])
    loop.web = web
    play(backend, loop)
    assert [e for e in loop.journal if e.startswith("grade")][1] == "grade a2 w1 w2"


# ---------------------------------------------------------------- the published loops


def test_without_speculation_it_is_the_published_loop_exactly(backend: str) -> None:
    """Corrective RAG, arXiv:2401.15884: retrieve, grade, correct, grade, then generate from what was graded relevant."""
    loop = Loop(
        FakeGrader([(1.0, BAD), (1.0, Grade(Verdict.SUFFICIENT, relevant=(1, 3)))]),
        says("All is well."),
        finds(3),
        web=FakeRetriever([(1.0, passages(3, "w"))]),
        speculator=Never(),
        rewriter=rewriter(),
        policy={OFF_TOPIC: (Strategy.NEXT_SOURCE,)},
    )
    play(backend, loop)
    assert loop.journal == [
        f"search house: {QUESTION}",
        "grade a1 a2 a3",
        f"search web: {QUESTION}",
        "grade w1 w2 w3",
        "draft w1 w3",
    ]
    assert [n for n, _ in loop.of(Sources)[0].passages] == [1, 3]
    assert (loop.times(Token), loop.outcomes) == ([3.0], ["released"])
    assert loop.of(Done)[0].usage["discarded_tokens"] == 0


def test_without_speculation_a_refused_question_costs_no_token(backend: str) -> None:
    loop = play(backend, Loop(FakeGrader([(1.0, BAD)]), says("gone"), finds(3, 3), speculator=Never()))
    assert (loop.calls("grade"), loop.calls("draft")) == (2, 0)
    assert loop.of(Done)[0].usage["discarded_tokens"] == 0


def test_with_a_strict_subset_what_saw_more_is_generated_again_from_the_relevant_alone(backend: str) -> None:
    loop = Loop(
        FakeGrader([(1.0, Grade(Verdict.SUFFICIENT, relevant=(2,)))]),
        FakeGenerator(
            [
                DraftScript(((0.0, (Text("saw all"),)),), hangs=True),
                DraftScript(((0.5, (Text("saw one"), Cited(2, 0, 7))), STOP)),
            ]
        ),
        finds(3),
        limits=Limits(strict_subset=True),
    )
    play(backend, loop)
    assert sorted(loop.journal[1:3]) == ["draft a1 a2 a3", "grade a1 a2 a3"]
    assert loop.journal[3:] == ["draft a2"]
    assert (loop.text, loop.times(Token), loop.outcomes) == ("saw one", [1.5], ["discarded", "released"])
    assert [n for n, _ in loop.of(Sources)[0].passages] == [2]


def test_with_a_strict_subset_a_set_that_is_wholly_relevant_costs_nothing_more(backend: str) -> None:
    grade = Grade(Verdict.SUFFICIENT, relevant=(1, 2, 3))
    loop = Loop(FakeGrader([(1.0, grade)]), says("saw all"), finds(3), limits=Limits(strict_subset=True))
    play(backend, loop)
    assert (loop.text, loop.times(Token), loop.calls("draft")) == ("saw all", [1.0], 1)


# ---------------------------------------------------------------- conversations

HISTORY = (Turn("user", "How are roses pruned?"), Turn("assistant", "In March."))


def test_the_stand_alone_question_is_searched_graded_answered_checked_and_kept_as_a_gap(backend: str) -> None:
    alone = "Why are roses pruned?"
    loop = Loop(
        FakeGrader([(0.0, GOOD)]),
        says(LIE),
        finds(3),
        rewriter=FakeRewriter(alone=alone),
        verifier=FakeVerifier(lie=LIE),
        limits=Limits(verify=Verify.GATE, max_retries=0),
        question="And why?",
        history=HISTORY,
    )
    play(backend, loop)
    assert loop.of(Started)[0].question == "And why?"
    assert loop.journal[0] == f"search house: {alone}"
    assert loop.written["grader"].questions + loop.written["generator"].questions == [alone, alone]
    assert [g.question for g in loop.gaps.gaps] == [alone]
    assert [p.history for p in loop.generator.prompts] == [HISTORY]
    assert loop.rewriter.calls == ["standalone"]


@pytest.mark.parametrize("helper", [None, FakeRewriter(alone=""), FakeRewriter(fault=RewriterUnavailable("down"))])
def test_a_question_that_nobody_can_make_stand_alone_is_answered_as_it_was_asked(backend: str, helper: Any) -> None:
    loop = Loop(FakeGrader([(0.0, GOOD)]), says("ok"), finds(3), rewriter=helper, question="And why?", history=HISTORY)
    play(backend, loop)
    assert loop.journal[0] == "search house: And why?"
    assert loop.of(Done)[0].path == "clean"


def test_a_first_question_is_not_rewritten(backend: str) -> None:
    helper = FakeRewriter(alone="something else")
    loop = play(backend, Loop(FakeGrader([(0.0, GOOD)]), says("ok"), finds(3), rewriter=helper))
    assert (helper.calls, loop.journal[0]) == ([], f"search house: {QUESTION}")
