"""The gateway inside a test: its own server on a real loopback port, in the test's event loop."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import anyio
import uvicorn.server
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from starlette.types import ASGIApp

from gateway.app import served
from gateway.house import House
from gateway.keeping.keeper import open_keeper
from gateway.library import AnyCollection
from gateway.providers.script import Script
from gateway.providers.scripted import (
    ScriptedGenerator,
    ScriptedGrader,
    ScriptedRetriever,
    ScriptedRewriter,
    ScriptedVerifier,
)
from gateway.server import Server, listen
from gateway.telemetry import Telemetry
from gateway.wiring import NoGaps
from grading.routing import always
from retrieval.ports import SearchMode
from retrieval.sources import house as house_of
from streaming.answer import Parts
from streaming.budget import Limits
from streaming.speculate import Always


class _Impatient:
    """asyncio for uvicorn's server, which looks every 0.1 s whether it is to stop, and whether all is over: here every 0.01 s.

    Hundreds of servers begin and end here: 0.15 s for each end are a minute of the suite. A gateway in its own process keeps the 0.1 s.
    """

    def __getattr__(self, name: str) -> object:
        return getattr(asyncio, name)

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(min(delay_s, 0.01))


vars(uvicorn.server)["asyncio"] = _Impatient()

QUICK = Script.parse("[[retrieve_ms=1 grade_ms=5 ttft_ms=5 tps=2000 tokens=12]]")


class Spans(SpanProcessor):
    """Every span that was started, by name, until it ends; then in `ended`."""

    def __init__(self) -> None:
        self.open: dict[int, str] = {}
        self.ended: list[ReadableSpan] = []

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        assert span.context is not None
        self.open[span.context.span_id] = span.name

    def on_end(self, span: ReadableSpan) -> None:
        assert span.context is not None
        del self.open[span.context.span_id]
        self.ended.append(span)

    def shutdown(self) -> None:
        """Keeps what it has."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Running:
    """A server that runs; `base_url` is where."""

    base_url: str
    port: int
    house: House
    server: Server


def scripted_house(
    script: Script = QUICK, limits: Limits | None = None, processors: Sequence[SpanProcessor] = ()
) -> House:
    """A house of scripted parts, in memory."""
    return House(
        parts=Parts(
            sources=house_of(ScriptedRetriever(script)),
            reranker=None,
            grader=ScriptedGrader(script),
            generator=ScriptedGenerator(script),
            speculator=Always(),
            gaps=NoGaps(),
            rewriter=ScriptedRewriter(script),
            verifier=ScriptedVerifier(script),
            router=always(SearchMode.DENSE),
        ),
        limits=limits or Limits(),
        collections=AnyCollection(),
        telemetry=Telemetry.start(service_version="test", export=False, processors=processors),
        provider="scripted",
    )


def with_parts(house: House, **changed: object) -> House:
    """The same house with other parts; a `retriever` is its only source."""
    if "retriever" in changed:
        changed["sources"] = house_of(changed.pop("retriever"))  # type: ignore[arg-type]
    return replace(house, parts=replace(house.parts, **changed))  # type: ignore[arg-type]


@asynccontextmanager
async def running(
    house: House, grace_s: float = 0.0, wrap: Callable[[ASGIApp], ASGIApp] = lambda app: app, narrow: bool = False
) -> AsyncIterator[Running]:
    """`house`, served until the end of the block, then drained with `grace_s`; `wrap` puts a middleware round it.

    With `narrow` its sockets buffer as little as the system allows. A house without a keeper of its own gets one.
    """
    if house.keeper is None:
        async with open_keeper() as keeper, running(replace(house, keeper=keeper), grace_s, wrap, narrow) as kept:
            yield kept
        return
    listener = listen("127.0.0.1", 0)
    if narrow:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # what it accepts inherits it
    port = listener.getsockname()[1]
    started = anyio.Event()
    server = Server(wrap(served(house)), house.open_answers, grace_s, on_start=started.set)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.run_until_stopped, listener)
        with anyio.fail_after(10):
            await started.wait()
        try:
            yield Running(f"http://127.0.0.1:{port}", port, house, server)
        finally:
            server.stop()
    await house.telemetry.aclose()


async def eventually(condition: Callable[[], object], within_s: float = 15.0) -> None:
    """Returns as soon as `condition` holds; fails when it does not within a bound that only a hung test meets."""
    with anyio.move_on_after(within_s):
        while not condition():  # noqa: ASYNC110  what is waited for tells nobody
            await anyio.sleep(0.005)
    assert condition(), condition
