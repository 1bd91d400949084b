"""The span tree of each path, over the real race in virtual time."""

from dataclasses import replace

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from grading.faults import GraderUnavailable
from grading.grade import Grade, Verdict
from retrieval.faults import RetrievalUnavailable
from retrieval.passage import Passage
from retrieval.ports import Query
from retrieval.sources import house
from streaming.answer import Parts
from streaming.budget import Limits
from streaming.events import Path
from streaming.faults import AnswerIncomplete, GeneratorOverloaded
from streaming.ports import Decision, Stopped, StopReason, Text, Usage
from streaming.speculate import Always, Never
from tests.support.fakes import DraftScript, FakeGenerator, FakeGrader, FakeRetriever, MemoryGaps, passages
from tests.support.span_trees import Observed, ask, attributes, begun, ended, observe

BACKENDS = ("asyncio", "trio")
GOOD = Grade(Verdict.SUFFICIENT, relevant=(1, 2), grader="judge", p_sufficient=0.9)
PARTIAL = Grade(Verdict.PARTIAL, missing="the price", relevant=(1,), grader="judge")
BAD = Grade(Verdict.INSUFFICIENT, grader="judge")
END = Stopped(StopReason.END, Usage(120, 30))
ANSWER = DraftScript(((0.4, (Text("Because "),)), (0.1, (Text("so."), END))))


class Swap:
    """A reranker that turns the set round."""

    async def rerank(self, question: str, passages: tuple[Passage, ...], k: int) -> tuple[Passage, ...]:
        return tuple(passage.scored("rerank", 1.0) for passage in reversed(passages))[:k]


def parts(
    grades: list[Grade | Exception],
    drafts: tuple[DraftScript, ...] = (ANSWER,),
    grade_s: float = 0.25,
    speculator: Always | Never | None = None,
) -> Parts:
    return Parts(
        sources=house(FakeRetriever([(0.02, passages(2, "first")), (0.02, passages(3, "second"))])),
        reranker=Swap(),
        grader=FakeGrader([(grade_s, grade) for grade in grades]),
        generator=FakeGenerator(list(drafts)),
        speculator=speculator or Always(),
        gaps=MemoryGaps(),
    )


def tree_of(observed: Observed, path: Path | None) -> str:
    observed.recording.assert_sound()
    assert observed.path is path
    return observed.recording.tree()


def one(observed: Observed, name: str) -> ReadableSpan:
    (span,) = observed.recording.named(name)
    return span


pytestmark = pytest.mark.parametrize("backend", BACKENDS)


def test_a_clean_answer_is_one_attempt_under_the_agent_under_the_request(backend: str) -> None:
    observed = observe(backend, parts([GOOD]), Limits())

    assert tree_of(observed, Path.CLEAN) == (
        "POST /v1/answers released\n"
        "  invoke_agent gateway released\n"
        "    attempt released\n"
        "      retrieval docs ok\n"
        "      chat judge ok\n"
        "      chat writer released"
    )


def test_a_recovered_answer_keeps_its_discarded_attempt_and_has_a_failure_path(backend: str) -> None:
    observed = observe(backend, parts([PARTIAL, GOOD]), Limits())

    assert tree_of(observed, Path.RECOVERED) == (
        "POST /v1/answers released\n"
        "  invoke_agent gateway released\n"
        "    attempt discarded\n"
        "      retrieval docs ok\n"
        "      chat judge ok\n"
        "      chat writer discarded\n"
        "    attempt released\n"
        "      retrieval docs ok\n"
        "      chat judge ok\n"
        "      chat writer released\n"
        "  failure_path released"
    )
    assert {span.status.status_code for span in observed.recording.spans} == {StatusCode.UNSET}


def test_a_refused_answer_reranks_its_wider_search_and_is_no_error(backend: str) -> None:
    observed = observe(backend, parts([BAD]), Limits())

    assert tree_of(observed, Path.REFUSED) == (
        "POST /v1/answers refused\n"
        "  invoke_agent gateway refused\n"
        "    attempt discarded\n"
        "      retrieval docs ok\n"
        "      chat judge ok\n"
        "      chat writer discarded\n"
        "    attempt refused\n"
        "      retrieval docs ok\n"
        "      rerank ok\n"
        "      chat judge ok\n"
        "      chat writer discarded\n"
        "  failure_path refused"
    )
    assert {span.status.status_code for span in observed.recording.spans} == {StatusCode.UNSET}
    assert attributes(one(observed, "failure_path"))["gateway.reason"] == "insufficient_evidence"


def test_never_speculating_shows_no_draft_of_a_refused_set(backend: str) -> None:
    observed = observe(backend, parts([BAD], speculator=Never()), Limits(max_retries=0))

    assert "chat writer" not in tree_of(observed, Path.REFUSED)
    assert attributes(one(observed, "attempt"))["gateway.speculate.decision"] == "never"


def test_an_empty_retrieval_shows_neither_grade_nor_draft(backend: str) -> None:
    empty = replace(parts([GOOD]), sources=house(FakeRetriever([(0.0, ())])))
    observed = observe(backend, empty, Limits(max_retries=0))

    assert tree_of(observed, Path.REFUSED).splitlines()[2:4] == ["    attempt refused", "      retrieval docs ok"]
    assert "chat" not in observed.recording.tree()


def test_a_draft_that_breaks_after_its_release_fails_the_request(backend: str) -> None:
    cut = DraftScript(((0.4, (Text("Beca"),)),), fault=AnswerIncomplete("cut"))
    observed = observe(backend, parts([GOOD], (cut,)), Limits())

    assert tree_of(observed, Path.FAILED) == (
        "POST /v1/answers failed\n"
        "  invoke_agent gateway failed\n"
        "    attempt failed\n"
        "      retrieval docs ok\n"
        "      chat judge ok\n"
        "      chat writer failed\n"
        "  failure_path failed"
    )
    for name in ("POST /v1/answers", "invoke_agent gateway", "attempt", "chat writer", "failure_path"):
        assert one(observed, name).status.status_code is StatusCode.ERROR
        assert attributes(one(observed, name))["error.type"] == "answer_incomplete"


def test_a_search_that_fails_is_the_error_of_the_request(backend: str) -> None:
    broken = replace(parts([GOOD]), sources=house(FakeRetriever([(0.1, RetrievalUnavailable("gone"))])))
    observed = observe(backend, broken, Limits())

    assert tree_of(observed, Path.FAILED) == (
        "POST /v1/answers failed\n"
        "  invoke_agent gateway failed\n"
        "    attempt failed\n"
        "      retrieval docs failed\n"
        "  failure_path failed"
    )
    assert attributes(one(observed, "retrieval docs"))["error.type"] == "retrieval_unavailable"


def test_a_foreign_error_is_named_by_its_class_and_never_by_its_message(backend: str) -> None:
    observed = observe(backend, parts([KeyError("secret")]), Limits(max_retries=0))

    grading = one(observed, "chat judge")
    assert attributes(grading)["error.type"] == "KeyError"
    assert "secret" not in "".join(span.to_json() for span in observed.recording.spans)


def test_an_unseen_redraft_is_two_drafts_of_one_attempt(backend: str) -> None:
    busy = DraftScript((), open_s=0.01, fault=GeneratorOverloaded("busy"))
    observed = observe(backend, parts([GOOD], (busy, ANSWER)), Limits())

    assert tree_of(observed, Path.CLEAN) == (
        "POST /v1/answers released\n"
        "  invoke_agent gateway released\n"
        "    attempt released\n"
        "      retrieval docs ok\n"
        "      chat judge ok\n"
        "      chat writer failed\n"
        "      chat writer released"
    )
    failed, released = observed.recording.named("chat writer")
    assert attributes(failed)["error.type"] == "generator_overloaded"
    assert (attributes(failed)["gateway.draft"], attributes(released)["gateway.draft"]) == (1, 2)


def test_a_grader_over_its_limit_is_a_timeout_and_an_error_of_the_grader_alone(backend: str) -> None:
    observed = observe(backend, parts([GOOD], grade_s=60), Limits(grade_timeout_s=2))

    tree_of(observed, Path.REFUSED)
    grading = one(observed, "chat judge")
    assert attributes(grading)["gateway.outcome"] == "timeout"
    assert (grading.status.status_code, attributes(grading)["error.type"]) == (StatusCode.ERROR, "grader_unavailable")
    assert attributes(one(observed, "attempt"))["gateway.grader.fault"] == "grader_unavailable"
    assert one(observed, "POST /v1/answers").status.status_code is StatusCode.UNSET


class Ahead(Always):
    """Drafts at once, and looks ahead."""

    def decide(self, question: str, passages: tuple[Passage, ...]) -> Decision:
        return replace(super().decide(question, passages), looks_ahead=True)


def test_a_grader_over_its_limit_is_not_taken_for_the_one_that_judged_the_wider_set(backend: str) -> None:
    both = replace(parts([], speculator=Ahead()), grader=FakeGrader([(60, GOOD), (0.25, GOOD)]))
    observed = observe(backend, both, Limits(grade_timeout_s=2))

    tree_of(observed, Path.REFUSED)
    first, wider = sorted(observed.recording.named("chat judge"), key=begun)
    assert attributes(first)["error.type"] == "grader_unavailable"
    assert [attributes(span)["gateway.outcome"] for span in (first, wider)] == ["timeout", "ok"]


def test_a_grader_that_fails_leaves_a_refusal_without_a_verdict(backend: str) -> None:
    observed = observe(backend, parts([GraderUnavailable("nonsense")]), Limits())

    tree_of(observed, Path.REFUSED)
    assert attributes(one(observed, "chat judge"))["gateway.outcome"] == "failed"
    assert attributes(one(observed, "failure_path"))["gateway.reason"] == "grader_unavailable"
    assert "gateway.verdict" not in attributes(one(observed, "attempt"))


def test_the_deadline_ends_what_runs_as_timed_out_and_not_as_an_error(backend: str) -> None:
    observed = observe(backend, parts([GOOD], grade_s=60), Limits(grade_timeout_s=90, deadline_s=3))

    assert tree_of(observed, Path.REFUSED) == (
        "POST /v1/answers refused\n"
        "  invoke_agent gateway refused\n"
        "    attempt timeout\n"
        "      retrieval docs ok\n"
        "      chat judge timeout\n"
        "      chat writer timeout\n"
        "  failure_path refused"
    )
    assert {span.status.status_code for span in observed.recording.spans} == {StatusCode.UNSET}


@pytest.mark.parametrize("leave_after_s", [0.0, 0.01, 0.02, 0.021, 0.1, 0.27, 0.3, 0.42, 0.421, 0.45, 0.5])
def test_a_client_that_leaves_ends_every_span_as_gone_and_none_as_an_error(backend: str, leave_after_s: float) -> None:
    observed = observe(backend, parts([PARTIAL, GOOD]), Limits(), leave_after_s=leave_after_s)

    tree_of(observed, None)
    root, agent = one(observed, "POST /v1/answers"), one(observed, "invoke_agent gateway")
    assert attributes(root)["gateway.outcome"] == attributes(agent)["gateway.outcome"] == "client_gone"
    assert attributes(one(observed, "failure_path"))["gateway.path"] == "abandoned"
    assert {span.status.status_code for span in observed.recording.spans} == {StatusCode.UNSET}


def test_a_released_draft_that_the_client_left_is_gone_and_not_discarded(backend: str) -> None:
    observed = observe(backend, parts([GOOD]), Limits(), leave_after_s=0.45)

    assert tree_of(observed, None) == (
        "POST /v1/answers client_gone\n"
        "  invoke_agent gateway client_gone\n"
        "    attempt client_gone\n"
        "      retrieval docs ok\n"
        "      chat judge ok\n"
        "      chat writer client_gone\n"
        "  failure_path client_gone"
    )


def test_a_discarded_draft_that_is_slow_to_close_ends_after_its_attempt_under_it(backend: str) -> None:
    slow = replace(ANSWER, close_s=1.0, hangs=True)
    observed = observe(backend, parts([PARTIAL, GOOD], (slow, ANSWER)), Limits())

    tree_of(observed, Path.RECOVERED)
    attempt, draft = observed.recording.named("attempt")[0], observed.recording.named("chat writer")[0]
    assert ended(draft) > ended(attempt)
    assert draft.parent is not None
    assert attempt.context is not None
    assert draft.parent.span_id == attempt.context.span_id
    assert attributes(draft)["gateway.draft.close_s"] == pytest.approx(1.0)


def test_the_failure_path_covers_the_whole_request(backend: str) -> None:
    observed = observe(backend, parts([PARTIAL, GOOD]), Limits())

    path, root = one(observed, "failure_path"), one(observed, "POST /v1/answers")
    assert path.kind is SpanKind.INTERNAL
    assert begun(path) == begun(root)
    assert ended(path) >= ended(one(observed, "invoke_agent gateway"))
    assert attributes(path)["gateway.path"] == "recovered"


def test_spans_say_what_the_conventions_have_names_for(backend: str) -> None:
    observed = observe(backend, parts([PARTIAL, GOOD]), Limits(output_tokens=64))

    root, agent = one(observed, "POST /v1/answers"), one(observed, "invoke_agent gateway")
    assert (root.kind, agent.kind) == (SpanKind.SERVER, SpanKind.INTERNAL)
    assert (
        attributes(root).items()
        >= {
            "http.request.method": "POST",
            "http.route": "/v1/answers",
            "http.response.status_code": 200,
            "url.path": "/v1/answers",
            "gateway.path": "recovered",
            "gateway.attempts": 2,
        }.items()
    )
    discarded, released = observed.recording.named("chat writer")
    assert released.kind is SpanKind.CLIENT
    assert (
        attributes(released).items()
        >= {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "scripted",
            "gen_ai.request.model": "writer",
            "gen_ai.request.max_tokens": 64,
            "gen_ai.request.stream": True,
            "gen_ai.usage.input_tokens": 120,
            "gen_ai.usage.output_tokens": 30,
            "gen_ai.response.finish_reasons": ("stop",),
            "gateway.draft.discarded_tokens": 0,
            "gateway.usage.exact": True,
        }.items()
    )
    assert "gen_ai.response.time_to_first_chunk" in attributes(released)
    assert "gen_ai.response.time_to_first_chunk" not in attributes(discarded)  # its verdict came first
    first, second = observed.recording.named("attempt")
    assert (
        attributes(first).items()
        >= {
            "gateway.attempt": 1,
            "gateway.verdict": "partial",
            "gateway.missing.present": True,
            "gateway.relevant": 1,
            "gateway.passages": 2,
            "gateway.speculate.decision": "always",
        }.items()
    )
    assert (
        attributes(second).items()
        >= {
            "gateway.attempt": 2,
            "gateway.correction": "gap_query",
            "gateway.verdict": "sufficient",
            "gateway.missing.present": False,
            "gateway.held_bytes": 0,
        }.items()
    )
    retrieval = observed.recording.named("retrieval docs")[1]
    assert (
        attributes(retrieval).items()
        >= {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.data_source.id": "docs",
            "gateway.search.mode": "hybrid",
            "gateway.search.k": 8,
            "gateway.passages": 3,
        }.items()
    )


def test_discarded_tokens_are_counted_on_the_draft_the_attempt_and_the_answer(backend: str) -> None:
    wordy = DraftScript(((0.01, (Text("x" * 400), Usage(50, 100))),), hangs=True)
    observed = observe(backend, parts([BAD, GOOD], (wordy, ANSWER)), Limits())

    tree_of(observed, Path.RECOVERED)
    for span in (
        observed.recording.named("chat writer")[0],
        observed.recording.named("attempt")[0],
        one(observed, "invoke_agent gateway"),
    ):
        assert attributes(span)["gateway.draft.discarded_tokens"] == 100
    assert attributes(one(observed, "invoke_agent gateway"))["gen_ai.usage.output_tokens"] == 130


def test_an_upstream_token_that_no_client_saw_is_no_time_to_first_token(backend: str) -> None:
    wordy = DraftScript(((0.01, (Text("x" * 400), END)),))
    observed = observe(backend, parts([BAD], (wordy,)), Limits())

    tree_of(observed, Path.REFUSED)
    assert all("gen_ai.response.time_to_first_chunk" in attributes(s) for s in observed.recording.named("chat writer"))
    assert not any("gateway.ttft_delivered_s" in attributes(span) for span in observed.recording.spans)


def test_no_text_of_a_question_a_passage_or_an_answer_is_on_any_span(backend: str) -> None:
    secret = tuple(Passage(id=f"{n}", document_id="d", title="SECRET", text="SECRET", url="SECRET") for n in range(2))
    grade = replace(PARTIAL, missing="SECRET", conflicts="SECRET")
    observed = observe(
        backend,
        replace(
            parts([grade], (DraftScript(((0.01, (Text("SECRET"), END)),)),)),
            sources=house(FakeRetriever([(0, secret)])),
        ),
        Limits(),
        question=ask("SECRET \ud83d" * 1000),
    )

    tree_of(observed, Path.REFUSED)
    assert "SECRET" not in "".join(span.to_json() for span in observed.recording.spans)


def test_no_span_is_ever_current_so_that_nothing_foreign_becomes_a_child(backend: str) -> None:
    seen: list[otel.Span] = []

    class Looking(FakeRetriever):
        async def retrieve(self, query: Query) -> tuple[Passage, ...]:
            seen.append(otel.get_current_span())
            return await FakeRetriever.retrieve(self, query)

    class LookingGenerator(FakeGenerator):
        async def draft(self, prompt):  # type: ignore[no-untyped-def]
            seen.append(otel.get_current_span())
            return await FakeGenerator.draft(self, prompt)

    watched = replace(
        parts([GOOD]),
        sources=house(Looking([(0.02, passages(2))])),
        generator=LookingGenerator([ANSWER]),
    )
    observe(backend, watched, Limits())

    assert seen == [otel.INVALID_SPAN, otel.INVALID_SPAN]
