"""A request has about 15 spans at most: what is too much is folded, and nothing of it is lost."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

from gateway.observing import outgoing
from gateway.observing.answer_trace import SPANS
from gateway.traced import SEARCH
from grading.cascade import Cascade, Rung
from grading.grade import Grade, Verdict
from grading.ports import Claim
from retrieval.faults import RetrievalUnavailable
from retrieval.passage import Passage
from retrieval.ports import Query
from retrieval.sources import HOUSE, Source
from streaming.answer import Parts
from streaming.budget import Limits, Verify
from tests.support.fakes import FakeGenerator, FakeGrader, FakeRetriever, MemoryGaps, passages
from tests.support.span_trees import Observed, attributes, begun, ended, observe
from tests.unit.test_telemetry_trees import ANSWER, Ahead

BACKENDS = ("asyncio", "trio")
GOOD = Grade(Verdict.SUFFICIENT, relevant=(1, 2), grader="judge", p_sufficient=0.9)
PARTIAL = Grade(Verdict.PARTIAL, missing="the price", relevant=(1,), grader="judge", p_sufficient=0.4)
ANOTHER_GAP = replace(PARTIAL, missing="the year")
UNSURE = replace(PARTIAL, grader="first", p_sufficient=0.5)

pytestmark = pytest.mark.parametrize("backend", BACKENDS)


class Stored(FakeRetriever):
    """A search in a database, as the traced pool runs it."""

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        statement = SEARCH.get()
        assert statement is not None
        with statement():
            return await FakeRetriever.retrieve(self, query)


class Asked(FakeRetriever):
    """A search that another service makes, which is told of the trace."""

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        assert outgoing.headers()
        return await FakeRetriever.retrieve(self, query)


class Swap:
    """A reranker that turns the set round."""

    async def rerank(self, question: str, passages: tuple[Passage, ...], k: int) -> tuple[Passage, ...]:
        return tuple(reversed(passages))[:k]


class Agreeing:
    """A verifier that everything is well with."""

    name = "agreeing"

    async def supported(self, question: str, claims: tuple[Claim, ...]) -> tuple[bool, ...]:
        return tuple(True for _ in claims)


def parts(*, web: FakeRetriever, grader: FakeGrader | Cascade) -> Parts:
    """Everything that makes spans: two sources side by side, look-ahead, reranking, checks."""
    found = [(0.02, passages(5, tag)) for tag in ("first", "wider", "third", "fourth")]
    return Parts(
        sources=(Source(HOUSE, Stored(list(found))), Source("web", web, external=True, parallel=True)),
        reranker=Swap(),
        grader=grader,
        generator=FakeGenerator([ANSWER]),
        speculator=Ahead(),
        gaps=MemoryGaps(),
        verifier=Agreeing(),
    )


def busiest(backend: str, web: FakeRetriever, grader: FakeGrader | Cascade) -> Observed:
    """An answer of three attempts."""
    observed = observe(backend, parts(web=web, grader=grader), Limits(max_retries=2, verify=Verify.ANNOTATE))
    observed.recording.assert_sound()
    assert len(observed.recording.named("attempt")) == 3
    return observed


def grades() -> FakeGrader:
    """Of the first set, of the wider one beside it, which is known not to do before, and of two more."""
    return FakeGrader([(0.25, PARTIAL), (0.1, PARTIAL), (0.25, ANOTHER_GAP), (0.25, GOOD)])


def web() -> FakeRetriever:
    return FakeRetriever([(0.3, passages(3, "web"))])


def told(spans: Sequence[ReadableSpan]) -> list[str]:
    """What was folded, by name."""
    return sorted(event.name for span in spans for event in span.events)


def test_three_attempts_with_look_ahead_and_a_source_beside_have_the_spans_of_their_core(backend: str) -> None:
    observed = busiest(backend, web(), grades())

    spans = observed.recording.spans
    assert len(spans) == SPANS + 2  # the checks, and the draft that was begun beside the first one: both ask a model
    assert Counter(span.name.split()[0] for span in spans) == {
        "POST": 1,
        "invoke_agent": 1,
        "attempt": 3,
        "retrieval": 3,
        "chat": 7,
        "verify": 1,
        "failure_path": 1,
    }
    assert told(spans) == 4 * ["SELECT passage"] + ["chat judge", "rerank", "retrieval docs", "retrieval docs"]


def test_what_is_folded_says_what_its_span_would_have_said(backend: str) -> None:
    observed = busiest(backend, web(), grades())

    search = min(observed.recording.named("retrieval docs"), key=begun)
    (statement,) = search.events
    assert begun(search) <= statement.timestamp <= ended(search)
    assert dict(statement.attributes or {}).items() >= {"db.system.name": "postgresql", "gateway.outcome": "ok"}.items()
    first = min(observed.recording.named("attempt"), key=begun)
    (grade,) = [event for event in first.events if event.name == "chat judge"]
    assert dict(grade.attributes or {})["gateway.verdict"] == "partial", "of the wider set"
    assert all("gateway.duration_s" in (event.attributes or {}) for event in first.events)


def test_a_request_to_another_service_stays_a_span_because_that_goes_on_under_it(backend: str) -> None:
    observed = busiest(backend, Asked([(0.3, passages(3, "web"))]), grades())

    assert len(observed.recording.spans) == SPANS + 3
    assert len(observed.recording.named("retrieval docs")) == 4


def test_the_grade_that_counts_stays_and_what_the_one_before_it_was_unsure_of_is_folded(backend: str) -> None:
    sure = FakeGrader([(0.2, PARTIAL), (0.05, PARTIAL), (0.2, ANOTHER_GAP), (0.2, GOOD)], name="second")
    cascade = Cascade([Rung(FakeGrader([(0.05, UNSURE)], name="first"), 1, low=0.1, high=0.9), Rung(sure, 1)])
    observed = busiest(backend, web(), cascade)

    assert len(observed.recording.spans) == SPANS + 2
    assert observed.recording.named("chat first") == []
    assert {attributes(span)["gateway.verdict"] for span in observed.recording.named("chat second")} == {
        "partial",
        "sufficient",
    }


def test_a_fault_is_told_where_it_was_folded_to(backend: str) -> None:
    observed = busiest(backend, FakeRetriever([(0.3, RetrievalUnavailable("gone"))]), grades())

    first = min(observed.recording.named("attempt"), key=begun)
    assert "retrieval_unavailable" in {(event.attributes or {}).get("error.type") for event in first.events}
    assert first.status.status_code is StatusCode.UNSET


def test_an_answer_of_few_spans_has_every_one(backend: str) -> None:
    observed = observe(backend, parts(web=web(), grader=FakeGrader([(0.25, GOOD)])), Limits())

    spans = observed.recording.spans
    assert told(spans) == []
    assert len(observed.recording.named("SELECT passage")) >= 1
    assert len(spans) <= SPANS
