"""The client leaves, at any moment: nothing of its request is left. FIELD_REPORTS A1, A2, A5; DESIGN invariant 9."""

import gc
from collections.abc import AsyncIterator, Callable, Iterator

import anyio
import pytest
from starlette.middleware.base import BaseHTTPMiddleware  # noqa: TID251  to show that it is not there
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.app import application
from gateway.providers.script import Script
from gateway.providers.scripted import ScriptedGenerator
from streaming.budget import Limits
from streaming.ports import Piece, Prompt
from tests.support.flood import Flood
from tests.support.gateway_app import QUICK, Spans, eventually, running, scripted_house, with_parts
from tests.support.leftovers import assert_nothing_is_left, is_parked
from tests.support.raw_client import Narrow, read_until, request_bytes, reset_on_close

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_garbage_collection() -> Iterator[None]:
    """Nothing here may be cleaned up by chance."""
    gc.disable()
    yield
    gc.enable()


STAGES = {
    "before the first byte": ("Is it?", None),
    "while retrieving": ("Is it? [[retrieve_ms=60000]]", b'"retrieving"'),
    "while grading": ("Is it? [[grade_ms=60000]]", b'"grading"'),
    "while grading, with the draft complete": ("Is it? [[grade_ms=60000 ttft_ms=1 tokens=3]]", b'"grading"'),
    "while the model is silent": ("Is it? [[grade_ms=1 ttft_ms=60000]]", b"event: sources"),
    "while tokens stream": ("Is it? [[grade_ms=1 ttft_ms=1 tps=20 tokens=5000]]", b"event: token"),
    "after a retry": ("Is it? [[verdict=partial grade_ms=150]]", b"event: retry"),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("is_reset", [True, False], ids=["RST", "FIN"])
async def test_client_that_leaves_takes_its_whole_request_along(stage: str, is_reset: bool) -> None:
    question, mark = STAGES[stage]
    spans = Spans()
    async with running(scripted_house(processors=[spans])) as server:
        async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
            await stream.send(request_bytes(question))
            if mark is not None:
                await read_until(stream, mark)
            if is_reset:
                reset_on_close(stream)
        await assert_nothing_is_left(server, spans)


async def test_outcome_of_an_abandoned_answer_is_on_its_spans() -> None:
    spans = Spans()
    async with running(scripted_house(processors=[spans])) as server:
        async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
            await stream.send(request_bytes("Is it? [[grade_ms=60000]]"))
            await read_until(stream, b'"grading"')
        await assert_nothing_is_left(server, spans)
    (root,) = [span for span in spans.ended if span.parent is None]
    assert root.attributes is not None
    assert root.attributes["gateway.path"] == "abandoned"


def as_it_is(app: ASGIApp) -> ASGIApp:
    return app


def behind_a_send_that_awaits(app: ASGIApp) -> ASGIApp:
    """A pure ASGI middleware whose `send` yields to the loop, so that a client can leave between any two messages."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def late(message: Message) -> None:
            await anyio.sleep(0.002)
            await send(message)

        await app(scope, receive, late)

    return wrapped


@pytest.mark.parametrize("wrap", [as_it_is, behind_a_send_that_awaits])
async def test_200_clients_that_reset_at_once_leave_no_slot_behind(wrap: Callable[[ASGIApp], ASGIApp]) -> None:
    spans = Spans()
    house = scripted_house(Script.parse("[[grade_ms=500]]"), processors=[spans])
    async with running(house, wrap=wrap) as server:

        async def hit_and_run(after_s: float) -> None:
            async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
                reset_on_close(stream)
                await stream.send(request_bytes("Is it?"))
                await anyio.sleep(after_s)

        async with anyio.create_task_group() as tasks:
            for n in range(200):
                tasks.start_soon(hit_and_run, 0.0005 * (n % 40))
        await assert_nothing_is_left(server, spans)
    assert len([span for span in spans.ended if span.parent is None]) >= 20


async def test_client_that_leaves_in_the_middle_of_its_body_is_forgotten() -> None:
    spans = Spans()
    async with running(scripted_house(processors=[spans])) as server:
        async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
            await stream.send(request_bytes("Is it?")[:-4])
            await eventually(lambda: server.house.open_answers.count == 1)
        await assert_nothing_is_left(server, spans)
    (root,) = spans.ended
    assert root.name == "POST /v1/answers"


async def test_client_that_leaves_after_a_large_body_takes_its_request_along() -> None:
    """A body that comes in one large piece has the server read no further until somebody asks for more: a stream asks for nothing."""
    spans = Spans()
    head, blank, body = request_bytes("Is it? [[grade_ms=60000]]").partition(b"\r\n\r\n")
    large = body + b" " * 200_000
    head = head.replace(b"length: %d" % len(body), b"length: %d" % len(large))
    async with running(scripted_house(processors=[spans])) as server:
        async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
            await stream.send(head + blank)
            await anyio.wait_all_tasks_blocked()
            await stream.send(large)
            await read_until(stream, b'"grading"')
        with anyio.fail_after(5):  # half of what a grader may take, after whose end it would be noticed
            await assert_nothing_is_left(server, spans)


async def test_reader_that_stops_and_is_then_killed_is_cleaned_up_without_the_garbage_collector() -> None:
    spans, flood = Spans(), Flood()
    house = with_parts(scripted_house(processors=[spans]), generator=flood)
    async with running(house, narrow=True) as server:
        stream = Narrow(server.port)
        stream.ask("Is it?")
        await stream.read_until(b"event: token")
        await eventually(lambda: is_parked(server), 20)
        assert flood.open_drafts == 1
        stream.reset()
        await assert_nothing_is_left(server, spans)
    assert flood.open_drafts == 0


async def test_no_middleware_of_the_kind_that_hides_leaving_is_in_the_stack() -> None:
    app = application(scripted_house())
    assert app.user_middleware == []
    layer: object = app.build_middleware_stack()
    layers = []
    while layer is not None:
        layers.append(layer)
        layer = getattr(layer, "app", None)
    assert len(layers) >= 3
    assert not any(isinstance(layer, BaseHTTPMiddleware) for layer in layers)


async def test_stream_ends_at_done_while_upstream_is_still_closing() -> None:
    """A client is not kept waiting for a close that it has nothing to do with; its slot is free only after it."""
    spans, generator = Spans(), SlowToClose(QUICK)
    house = with_parts(scripted_house(processors=[spans], limits=Limits(max_retries=0)), generator=generator)
    async with running(house) as server:
        async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
            await stream.send(request_bytes("Is it? [[verdict=insufficient grade_ms=50 ttft_ms=1 tps=10 tokens=500]]"))
            await read_until(stream, b"0\r\n\r\n")
            assert server.house.open_answers.count == 1
            assert generator.closing == 1
            generator.may_close.set()
        await assert_nothing_is_left(server, spans)


class SlowToClose(ScriptedGenerator):
    """A generator whose drafts take as long to close as they are bidden."""

    def __init__(self, defaults: Script) -> None:
        super().__init__(defaults)
        self.may_close = anyio.Event()
        self.closing = 0

    async def draft(self, prompt: Prompt) -> "SlowDraft":  # type: ignore[override]
        return SlowDraft(self, await super().draft(prompt))


class SlowDraft:
    def __init__(self, generator: SlowToClose, draft: AsyncIterator[tuple[Piece, ...]]) -> None:
        self._generator = generator
        self._draft = draft

    def __aiter__(self) -> AsyncIterator[tuple[Piece, ...]]:
        return self._draft

    def cut(self) -> None:
        """It is slow to close."""

    async def aclose(self) -> None:
        self._generator.closing += 1
        await self._generator.may_close.wait()
        await self._draft.aclose()  # type: ignore[attr-defined]
        self._generator.closing -= 1
