"""One answer on its way to one client.

The request's own task runs the answer and alone writes to the client. What is taken here is taken in a block of one coroutine that also
gives it back.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from gateway.access.caller import Caller
from gateway.exchange import Exchange, while_connected
from gateway.house import House
from gateway.observing.request_trace import RequestTrace
from gateway.problems import send_json
from gateway.request import AnswerRequest
from gateway.sse import Frames, stream
from gateway.traced import traced
from gateway.whole import Whole
from retrieval.traceless import traceless
from streaming.answer import answer
from streaming.ask import Ask
from streaming.attempt import Emit
from streaming.events import Done, Failed, Path
from streaming.halt import Halt
from streaming.observing import Both
from streaming.ports import Observer
from streaming.wire.format import Json, Wire
from streaming.wire.told import Told

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answering:
    """An answer to `ask`, in whatever format the client reads. `run` alone knows no client: what it emits can go anywhere."""

    house: House
    request: AnswerRequest
    ask: Ask
    trace: RequestTrace
    halt: Halt
    meter: Observer | None = None
    """Who counts its tokens, besides."""
    caller: Caller = field(default_factory=Caller)

    async def stream(self, exchange: Exchange, wire: Wire) -> None:
        """Sends the events as they come. When the client leaves, the answer is cancelled; when it has `done`, what is still
        to be closed upstream closes after it, without it.
        """
        first_byte = self.trace.first_answer_byte
        await stream(
            exchange, wire, self.house.sse, lambda out: self.run(Frames(wire, out, first_byte).emit), self.halt.cut
        )

    async def send_whole(self, exchange: Exchange, body: Callable[[Told, Ask], Json]) -> None:
        """Sends the answer, once it is complete, as the one JSON `body` of it. Otherwise as `stream`."""
        whole = Whole()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(traceless, self.run, whole.take, name=f"answer {self.ask.answer_id}")
            if await while_connected(exchange.receive, whole.wait()):
                if whole.told.has_answer:
                    self.trace.first_answer_byte()
                await send_json(exchange.send, whole.status, body(whole.told, self.ask), whole.headers())
            else:
                tasks.cancel_scope.cancel()

    async def run(self, emit: Emit) -> None:
        """Answers through `emit`: `Started` first, `Done` last, whatever happens. Raises nothing but cancellation."""
        try:
            await self._run(emit)
        except Exception:
            log.exception("answer %s failed outside its own handling", self.ask.answer_id)
            await emit(last_words())

    async def _run(self, emit: Emit) -> Path:
        house, options = self.house, self.request.options
        parts = house.parts_for(options, self.ask.collection, self.ask.tenant, self.caller.may_use)
        self.trace.begin_answer(
            self.ask,
            generator=parts.generator.name,
            grader=parts.grader.name,
            provider=house.provider,
            decisions=house.decisions,
        )
        observer = self.trace if self.meter is None else Both(self.trace, self.meter)
        limits = house.limits_for(options)
        return await answer(self.ask, traced(parts, self.trace), limits, emit, observer, self.halt)


def last_words() -> tuple[Failed, Done]:
    """The end of a stream whose answer broke in a way that it did not tell: never a bare end."""
    return (
        Failed("internal_error", "something went wrong inside the gateway", retryable=False),
        Done(Path.FAILED, "error", 0, {}),
    )
