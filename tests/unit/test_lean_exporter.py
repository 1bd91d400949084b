"""The lean encoder says what the SDK's says."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState
from opentelemetry.util.types import AttributeValue

from gateway.lean_exporter import encoded
from tests.support.span_trees import Recording
from tests.unit.test_trace_attributes import recorded

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
VALUES = st.one_of(
    WORDS,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.lists(WORDS, max_size=3).map(tuple),
)
ATTRIBUTES: st.SearchStrategy[dict[str, AttributeValue]] = st.dictionaries(WORDS.filter(bool), VALUES, max_size=12)
RESOURCES = [Resource({"service.name": "a", "n": 1}), Resource({"service.name": "b", "list": ("x", "y")})]
SCOPES = [InstrumentationScope("gateway", "1"), InstrumentationScope("other")]


@st.composite
def spans(draw: st.DrawFn) -> ReadableSpan:
    ids = st.integers(1, 2**64 - 1)
    state = TraceState([("vendor", "value")]) if draw(st.booleans()) else None
    trace_id = draw(st.integers(1, 2**128 - 1))
    context = SpanContext(trace_id, draw(ids), False, TraceFlags(draw(st.integers(0, 3))), state)
    parent = SpanContext(trace_id, draw(ids), draw(st.booleans())) if draw(st.booleans()) else None
    status = draw(
        st.sampled_from([Status(), Status(StatusCode.OK), Status(StatusCode.ERROR), Status(StatusCode.ERROR, "why")])
    )
    events = [Event(draw(WORDS), draw(ATTRIBUTES), draw(st.integers(0, 2**63))) for _ in range(draw(st.integers(0, 2)))]
    return ReadableSpan(
        draw(WORDS),
        context,
        parent,
        resource=draw(st.sampled_from(RESOURCES)),
        attributes=draw(ATTRIBUTES),
        events=events,
        kind=draw(st.sampled_from(list(SpanKind))),
        status=status,
        start_time=draw(st.integers(0, 2**63)),
        end_time=draw(st.integers(0, 2**63)),
        instrumentation_scope=draw(st.sampled_from(SCOPES)),
    )


def flat(request: ExportTraceServiceRequest) -> list[tuple[bytes, bytes, bytes]]:
    """Each span with its resource and scope: how they are grouped is free."""
    return sorted(
        (
            of_resource.resource.SerializeToString(deterministic=True),
            of_scope.scope.SerializeToString(),
            span.SerializeToString(),
        )
        for of_resource in request.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    )


@given(st.lists(spans(), max_size=4))
def test_it_says_what_the_sdk_says(many: list[ReadableSpan]) -> None:
    assert flat(ExportTraceServiceRequest.FromString(encoded(many))) == flat(encode_spans(many))


@pytest.mark.parametrize("records_text", [False, True])
def test_a_whole_answer_is_said_byte_for_byte(records_text: bool) -> None:
    recording: Recording = recorded(records_text=records_text)
    assert flat(ExportTraceServiceRequest.FromString(encoded(recording.spans))) == flat(encode_spans(recording.spans))


def test_what_ours_never_have_is_left_to_the_sdk() -> None:
    context = SpanContext(1, 2, False)
    span = ReadableSpan("a", context, resource=RESOURCES[0], links=[Link(context)], instrumentation_scope=SCOPES[0])
    assert encoded([span]) == encode_spans([span]).SerializeToString()


def test_equal_values_of_different_kinds_are_kept_apart() -> None:
    values: list[AttributeValue] = [True, 1, 1.0, "1", False, 0, 0.0]
    random.Random(1).shuffle(values)
    spans = [
        ReadableSpan(
            "a",
            SpanContext(1, n, False),
            resource=RESOURCES[0],
            attributes={"k": value},
            instrumentation_scope=SCOPES[0],
        )
        for n, value in enumerate(values * 2, start=1)
    ]
    assert flat(ExportTraceServiceRequest.FromString(encoded(spans))) == flat(encode_spans(spans))
