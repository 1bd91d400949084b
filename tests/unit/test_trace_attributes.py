"""What is on the spans beyond the tree: words only by a setting, tokens by their fate, the failure path's dimensions. FIELD_REPORTS F9."""

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from gateway.observing.spans import WORDS_LIMIT
from gateway.telemetry import Telemetry
from grading.grade import Grade, Verdict
from streaming.allowance import Allowance
from streaming.ask import Ask
from streaming.facts import (
    AttemptBegan,
    AttemptEnded,
    DraftClosed,
    DraftStarted,
    Ended,
    Fact,
    Judged,
    SpeculationDecided,
)
from streaming.pace import Pace
from streaming.speculate import Adaptive, Lookouts, Worth
from tests.support.fakes import passages
from tests.support.span_trees import ROUTE, Recording, attributes

HOSTILE = "secret\x00\u202e\ud800 " + "x" * 1_000_000
FACTS: tuple[Fact, ...] = (
    AttemptBegan(1, None, HOSTILE),
    Judged(1, Grade(Verdict.PARTIAL, missing=HOSTILE), 0.1),
    DraftStarted(1, 1),
    DraftClosed(1, 1, "discarded", 10, 7, False, 0.01),
    AttemptEnded(1, "discarded"),
    AttemptBegan(2, "gap_query", HOSTILE),
    Judged(2, Grade(Verdict.SUFFICIENT), 0.1),
    DraftStarted(2, 1),
    DraftClosed(2, 1, "released", 10, 60, True, 0.0),
    DraftStarted(2, 2),
    AttemptEnded(2, "released"),
    Ended("recovered", 2),
)


def recorded(*, records_text: bool) -> Recording:
    recording = Recording()
    telemetry = Telemetry.start(
        service_version="1",
        export=False,
        processors=(recording.register, SimpleSpanProcessor(recording.exporter)),
        records_text=records_text,
    )
    trace = telemetry.request({}, "POST", ROUTE)
    trace.begin_answer(Ask("a1", trace.trace_id, HOSTILE, "docs"), generator="g", grader="m", provider="p")
    for fact in FACTS:
        trace.note(fact)
    trace.end(200)
    recording.assert_sound()
    return recording


def test_no_word_is_recorded_without_the_setting() -> None:
    for span in recorded(records_text=False).spans:
        assert "secret" not in repr(attributes(span))


def test_words_are_recorded_with_the_setting_cleaned_and_cut() -> None:
    recording = recorded(records_text=True)
    (agent,) = recording.named("invoke_agent gateway")
    first, second = recording.named("attempt")
    told = (
        attributes(agent)["gateway.text.question"],
        attributes(first)["gateway.text.query"],
        attributes(first)["gateway.text.missing"],
        attributes(second)["gateway.text.query"],
    )
    for text in told:
        assert isinstance(text, str)
        assert text.startswith("secret\ufffd x")
        assert len(text) == WORDS_LIMIT
        text.encode()
    assert "gateway.text.missing" not in attributes(second)


def test_decision_to_draft_is_told_with_what_it_weighed() -> None:
    waste = Allowance(1_000, lambda: 0.0)
    pace = Pace()
    pace.graded(0.4)
    adaptive = Adaptive(lambda *_: 0.9, pace, Worth(1.0, 1e-6, 5e-6), waste, lambda: False, Lookouts(1))
    decision = adaptive.decide("why?", passages(3))
    recording = Recording()
    trace = recording.start().request({}, "POST", ROUTE)
    trace.begin_answer(Ask("a1", trace.trace_id, "why?", "docs"), generator="g", grader="m", provider="p")
    trace.note(AttemptBegan(1, None, "why?"))
    trace.note(
        SpeculationDecided(
            1, decision.delay_s, decision.why, decision.p_sufficient, decision.hold_tokens, decision.weighed
        )
    )
    trace.end(200)
    (attempt,) = recording.named("attempt")
    told = attributes(attempt)
    assert told["gateway.speculate.decision"] in ("likely", "cheap")
    assert told["gateway.speculate.grade_s"] == pytest.approx(0.4)
    assert told["gateway.speculate.first_text_s"] == pytest.approx(0.5)
    assert decision.weighed is not None
    assert told["gateway.speculate.least_p"] == decision.weighed.least_p
    assert told["gateway.speculate.ahead_p"] == decision.weighed.ahead_p > 0.9
    assert told["gateway.speculate.looks_ahead"] is True
    assert told["gateway.speculate.hold_tokens"] == decision.hold_tokens


def test_tokens_are_told_by_what_became_of_them() -> None:
    (agent,) = recorded(records_text=False).named("invoke_agent gateway")
    told = attributes(agent)
    assert told["gateway.tokens.released"] == 60
    assert told["gateway.draft.discarded_tokens"] == 7
    assert told["gen_ai.usage.output_tokens"] == 67
    assert told["gateway.drafts.still_billing"] == 1
    assert told["gateway.usage.exact"] is False


@pytest.mark.parametrize("name", ["failure_path", f"POST {ROUTE}"])
def test_failure_path_can_be_grouped_by_path_verdict_and_correction(name: str) -> None:
    (span,) = recorded(records_text=False).named(name)
    told = attributes(span)
    assert (told["gateway.path"], told["gateway.verdict"], told["gateway.correction"]) == (
        "recovered",
        "sufficient",
        "gap_query",
    )
    assert told["gateway.outcome"] == "released"
    assert span.status.is_unset
