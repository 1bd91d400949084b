"""What is on the spans beyond the tree: words only by a setting, tokens by their fate, the failure path's dimensions. FIELD_REPORTS F9."""

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from gateway.spans import WORDS_LIMIT
from gateway.telemetry import Telemetry
from grading.grade import Grade, Verdict
from streaming.ask import Ask
from streaming.facts import AttemptBegan, AttemptEnded, DraftClosed, DraftStarted, Ended, Fact, Judged
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
