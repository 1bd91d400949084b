"""Traced ports pass on exactly what the ports they wrap do: the same objects, the same faults, the same cancellation."""

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import anyio
import pytest

from gateway.observing.request_trace import RequestTrace
from gateway.traced import TracedGenerator, TracedGrader, TracedReranker, TracedRetriever, traced
from grading.grade import Grade, Verdict
from retrieval.passage import Passage
from retrieval.ports import Query
from retrieval.sources import house
from streaming.answer import Parts
from streaming.facts import AttemptBegan, DraftStarted
from streaming.ports import Draft, Piece, Prompt, Stopped, StopReason, Text
from streaming.speculate import Always
from tests.support.fakes import MemoryGaps, passages
from tests.support.span_trees import ROUTE, Recording, ask

pytestmark = pytest.mark.anyio

FOUND = passages(3)
GRADE = Grade(Verdict.SUFFICIENT, relevant=(1,))
BATCHES: tuple[tuple[Piece, ...], ...] = ((Text("a"), Text("b")), (Text("c"),), (Stopped(StopReason.END),))


class Port:
    """Every port at once: answers `result`, raises it if it is an error, or waits for ever."""

    name = "port"

    def __init__(self, result: object) -> None:
        self.result = result
        self.waiting = anyio.Event()
        self.closed = 0

    async def _answer(self) -> object:
        if self.result is None:
            self.waiting.set()
            await anyio.sleep_forever()
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        return await self._answer()  # type: ignore[return-value]

    async def rerank(self, question: str, passages: tuple[Passage, ...], k: int) -> tuple[Passage, ...]:
        return await self._answer()  # type: ignore[return-value]

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:
        return await self._answer()  # type: ignore[return-value]

    async def draft(self, prompt: Prompt) -> Draft:
        return await self._answer()  # type: ignore[return-value]


class Reading:
    """A draft of BATCHES, then `ending`: None ends it, an error is raised, an event is set before waiting for ever."""

    def __init__(self, ending: Exception | anyio.Event | None = None) -> None:
        self.ending = ending
        self.closed = self.cuts = 0

    def __aiter__(self) -> AsyncIterator[tuple[Piece, ...]]:
        return self._batches()

    async def _batches(self) -> AsyncIterator[tuple[Piece, ...]]:
        for batch in BATCHES:
            await anyio.lowlevel.checkpoint()
            yield batch
        if isinstance(self.ending, Exception):
            raise self.ending
        if self.ending is not None:
            self.ending.set()
            await anyio.sleep_forever()

    def cut(self) -> None:
        self.cuts += 1

    async def aclose(self) -> None:
        self.closed += 1


Call = Callable[[Port, RequestTrace], Coroutine[Any, Any, object]]

CALLS: dict[str, Call] = {
    "retrieve": lambda port, trace: TracedRetriever(port, trace).retrieve(Query("q")),
    "rerank": lambda port, trace: TracedReranker(port, trace).rerank("q", FOUND, 2),
    "grade": lambda port, trace: TracedGrader(port, trace).grade("q", FOUND),
    "draft": lambda port, trace: TracedGenerator(port, trace).draft(Prompt("q", ())),
}
RESULTS: dict[str, object] = {"retrieve": FOUND, "rerank": FOUND, "grade": GRADE}
everywhere = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


@pytest.fixture
def recording() -> Recording:
    return Recording()


@pytest.fixture(params=["observed", "unobserved"])
def trace(recording: Recording, request: pytest.FixtureRequest) -> RequestTrace:
    """A trace in the middle of an attempt, and one that no answer was begun on."""
    trace = recording.start().request({}, "POST", ROUTE)
    if request.param == "observed":
        trace.begin_answer(ask(), generator="g", grader="r", provider="p")
        trace.note(AttemptBegan(1, None, "q"))
        trace.note(DraftStarted(1, 1))
    return trace


@pytest.mark.parametrize("port", ["retrieve", "rerank", "grade"])
async def test_the_very_result_comes_back(port: str, trace: RequestTrace, recording: Recording) -> None:
    assert await CALLS[port](Port(RESULTS[port]), trace) is RESULTS[port]
    trace.end(200)
    recording.assert_sound()


@everywhere
@pytest.mark.parametrize(
    "error", [ValueError("odd"), KeyboardInterrupt(), ExceptionGroup("two", [OSError(), OSError()])]
)
async def test_the_very_error_comes_through(
    call: Call, error: BaseException, trace: RequestTrace, recording: Recording
) -> None:
    with pytest.raises(type(error)) as raised:
        await call(Port(error), trace)

    assert raised.value is error
    trace.end(500)
    recording.assert_sound()


@everywhere
async def test_cancellation_goes_in_and_comes_out(call: Call, trace: RequestTrace, recording: Recording) -> None:
    port = Port(None)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, port, trace)
            await port.waiting.wait()
            tasks.cancel_scope.cancel()

    trace.end(None)
    recording.assert_sound()


async def test_a_draft_brings_the_same_batches_in_order_and_closes_when_told(trace: RequestTrace) -> None:
    inner = Reading()
    draft = await TracedGenerator(Port(inner), trace).draft(Prompt("q", ()))

    read = [batch async for batch in draft]
    assert all(mine is theirs for mine, theirs in zip(read, BATCHES, strict=True))
    assert inner.closed == 0
    await draft.aclose()
    await draft.aclose()
    assert inner.closed == 2  # idempotence is the inner draft's promise; nothing is kept from it


async def test_a_draft_that_breaks_raises_its_own_error_after_its_batches(trace: RequestTrace) -> None:
    error = ValueError("cut")
    draft = await TracedGenerator(Port(Reading(error)), trace).draft(Prompt("q", ()))
    batches = aiter(draft)

    assert [await anext(batches) for _ in BATCHES] == list(BATCHES)
    with pytest.raises(ValueError, match="cut") as raised:
        await anext(batches)
    assert raised.value is error


async def test_a_draft_that_is_read_can_be_cancelled(trace: RequestTrace, recording: Recording) -> None:
    silent = anyio.Event()
    draft = await TracedGenerator(Port(Reading(silent)), trace).draft(Prompt("q", ()))

    async def read() -> None:
        async for _ in draft:
            pass

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await silent.wait()
            tasks.cancel_scope.cancel()
    trace.end(None)
    recording.assert_sound()


async def test_names_and_parts_that_are_not_traced_are_passed_on(trace: RequestTrace) -> None:
    port = Port(FOUND)
    parts = Parts(house(port), None, port, port, Always(), MemoryGaps())
    wrapped = traced(parts, trace)

    assert (wrapped.grader.name, wrapped.generator.name) == ("port", "port")
    assert wrapped.reranker is None
    assert wrapped.speculator is parts.speculator
    assert wrapped.gaps is parts.gaps
