"""The trace goes on in the services that are asked: `traceparent` leaves with every request made under a span, and with no other."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest

from gateway.observing import outgoing
from gateway.observing.outgoing import under
from gateway.providers.claude.client import open_client, post_message
from gateway.providers.embeddings import HttpEmbedder
from gateway.providers.search.retriever import HttpRetriever
from gateway.telemetry import Telemetry
from gateway.traced import traced
from grading.grade import Grade, Verdict
from retrieval.faults import GatewayFault
from retrieval.passage import Passage
from retrieval.ports import Query
from retrieval.sources import house
from streaming.answer import Parts, answer
from streaming.budget import Limits
from streaming.events import Event
from streaming.ports import Draft, Prompt
from streaming.speculate import Always
from tests.support.fakes import FakeGenerator, FakeGrader, FakeRetriever, MemoryGaps, passages
from tests.support.search_api import generic_service
from tests.support.span_trees import ROUTE, Recording, ask
from tests.unit.test_telemetry_trees import ANSWER

pytestmark = pytest.mark.anyio

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass(frozen=True, slots=True)
class At:
    """A span, as far as it goes out."""

    traceparent: str | None


class Ear(BaseHTTPRequestHandler):
    """Answers everything with `{}` and keeps the `traceparent` it came with."""

    heard: list[str | None]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.do_GET()

    def do_GET(self) -> None:
        self.heard.append(self.headers["traceparent"])
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        return


@contextmanager
def listening() -> Iterator[tuple[str, list[str | None]]]:
    """The address of a server, and what it hears."""
    heard: list[str | None] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Hearing", (Ear,), {"heard": heard}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", heard
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


async def test_requests_to_the_model_carry_it_and_the_next_one_carries_its_own() -> None:
    with listening() as (url, heard):
        client = open_client("key", url, connect_s=2, read_s=2)
        try:
            await post_message(client, {"model": "one"}, stream=False)
            with under(At(PARENT)):
                await post_message(client, {"model": "one"}, stream=False)
            with under(At(PARENT.replace("b7", "c8"))):
                await post_message(client, {"model": "one"}, stream=False)
            await post_message(client, {"model": "one"}, stream=False)
        finally:
            await client.close()
    assert heard == [None, PARENT, PARENT.replace("b7", "c8"), None]


async def test_requests_to_a_search_service_carry_it() -> None:
    with listening() as (url, heard):
        async with httpx2.AsyncClient(trust_env=False) as client:
            retriever = HttpRetriever("web", generic_service("key", url), client)
            for traceparent in (PARENT, None):
                with under(At(traceparent)):
                    await asked(retriever)
    assert heard == [PARENT, None]


async def asked(retriever: HttpRetriever) -> None:
    with suppress(GatewayFault):  # what the ear answers is no result
        await retriever.retrieve(Query("why?", "docs", 3))


async def test_requests_to_an_embeddings_server_carry_it() -> None:
    with listening() as (url, heard):
        async with HttpEmbedder(url, "model", 3) as embedder:
            for traceparent in (PARENT, None):
                with under(At(traceparent)), pytest.raises(GatewayFault):
                    await embedder.embed_query("why?")
    assert heard == [PARENT, None]


@dataclass(slots=True)
class Heard:
    """What each port would send."""

    by: dict[str, str | None] = field(default_factory=dict)

    def note(self, who: str) -> None:
        self.by[who] = outgoing.headers().get(outgoing.HEADER)


@dataclass(slots=True)
class HearingRetriever(FakeRetriever):
    heard: Heard = field(default_factory=Heard)

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        self.heard.note("retrieval docs")
        return await FakeRetriever.retrieve(self, query)


@dataclass(slots=True)
class HearingGrader(FakeGrader):
    heard: Heard = field(default_factory=Heard)

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:
        self.heard.note("chat judge")
        return await FakeGrader.grade(self, question, passages)


@dataclass(slots=True)
class HearingGenerator(FakeGenerator):
    heard: Heard = field(default_factory=Heard)

    async def draft(self, prompt: Prompt) -> Draft:  # type: ignore[override]
        self.heard.note("chat writer")
        return await FakeGenerator.draft(self, prompt)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_each_call_belongs_to_its_own_span_and_nothing_is_left_after_the_answer(anyio_backend: str) -> None:
    heard, recording = Heard(), Recording()
    good = Grade(Verdict.SUFFICIENT, relevant=(1, 2), grader="judge")
    parts = Parts(
        house(HearingRetriever([(0, passages(2))], heard=heard)),
        None,
        HearingGrader([(0, good)], heard=heard),
        HearingGenerator([ANSWER], heard=heard),
        Always(),
        MemoryGaps(),
    )
    events: list[Event] = []

    async def emit(batch: tuple[Event, ...]) -> None:
        events.extend(batch)

    trace = recording.start().request({}, "POST", ROUTE)
    trace.begin_answer(ask(), generator="writer", grader="judge", provider="scripted")
    await answer(ask(), traced(parts, trace), Limits(), emit, trace)
    trace.end(200)

    expected = {
        span.name: f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{int(span.context.trace_flags):02x}"
        for span in recording.spans
        if span.context is not None and span.name in heard.by
    }
    assert heard.by == expected
    assert len(set(heard.by.values())) == 3
    assert outgoing.headers() == {}


def test_trace_that_is_not_recorded_is_handed_on_as_such() -> None:
    telemetry = Telemetry.start(service_version="test", export=False)
    trace = telemetry.request({}, "POST", ROUTE)
    trace.begin_answer(ask(), generator="writer", grader="judge", provider="scripted")
    with trace.grading(1) as span:
        traceparent = span.traceparent
    trace.end(200)
    assert traceparent is not None
    assert traceparent.startswith(f"00-{trace.trace_id}-")
    assert int(traceparent[-2:], 16) & 1 == 0, "not sampled"
