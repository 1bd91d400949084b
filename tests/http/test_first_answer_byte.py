"""Time to first token is that of the first answer byte handed to the socket, never of anything earlier. FIELD_REPORTS F1."""

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from tests.support.clients import ask, client
from tests.support.gateway_app import Spans, eventually, running, scripted_house

pytestmark = pytest.mark.anyio

TTFT = "gateway.ttft_delivered_s"
GRADE_S = 0.3


def root_of(spans: Spans) -> ReadableSpan:
    (root,) = [span for span in spans.ended if span.parent is None]
    return root


async def traced(question: str, **fields: object) -> ReadableSpan:
    """The SERVER span of one question."""
    spans = Spans()
    async with running(scripted_house(processors=[spans])) as server:
        if fields:
            async with client(server.base_url) as http:
                await http.post("/v1/answers", json={"question": question, **fields})
        else:
            await ask(server.base_url, question)
        await eventually(lambda: not spans.open and spans.ended)
    return root_of(spans)


async def test_first_token_is_stamped_after_the_verdict_though_the_model_spoke_long_before() -> None:
    root = await traced("Is it? [[grade_ms=300 ttft_ms=1]]")
    assert root.attributes is not None
    delivered_s = root.attributes[TTFT]
    assert isinstance(delivered_s, float)
    assert delivered_s >= GRADE_S


@pytest.mark.parametrize("question", ["Is it? [[verdict=insufficient]]", "Is it? [[fault=bad_request]]"])
async def test_answer_without_a_token_has_no_time_to_one(question: str) -> None:
    root = await traced(question)
    assert TTFT not in (root.attributes or {})


async def test_whole_answer_is_stamped_when_it_is_sent() -> None:
    root = await traced("Is it? [[grade_ms=300 ttft_ms=1]]", stream=False)
    assert root.attributes is not None
    delivered_s = root.attributes[TTFT]
    assert isinstance(delivered_s, float)
    assert delivered_s >= GRADE_S


async def test_trace_of_the_caller_is_continued() -> None:
    spans = Spans()
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with running(scripted_house(processors=[spans])) as server:
        told = await ask(server.base_url, "Is it?", headers={"traceparent": parent})
        await eventually(lambda: not spans.open)
    assert told.one("started")["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    assert {f"{span.context.trace_id:032x}" for span in spans.ended if span.context} == {
        "0af7651916cd43dd8448eb211c80319c"
    }


async def test_refused_request_is_a_span_that_ends_with_its_status() -> None:
    spans = Spans()
    async with running(scripted_house(processors=[spans])) as server:
        async with client(server.base_url) as http:
            await http.post("/v1/answers", json={"question": ""})
        await eventually(lambda: not spans.open and spans.ended)
    root = root_of(spans)
    assert root.attributes is not None
    assert root.attributes["http.response.status_code"] == 422
