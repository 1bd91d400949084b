"""One question asked of a gateway: everything that came back, when, and what the upstream saw of it meanwhile."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import anyio
import httpx2

from gateway.bench.messages_log import Exchange, Log
from tests.conformance.mapping import Mapping
from tests.conformance.plan import Asked
from tests.conformance.sse import SseEvent, events_of

End = Literal["whole", "broken", "left", "waited", "overdue"]
LOOK_EVERY_S = 0.01


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: how soon a gateway has to act on a verdict or on a client that left, and how long any answer may take in all."""

    act_s: float = 1.0
    whole_s: float = 20.0


@dataclass(slots=True)
class Seen:
    """What the client saw. `end`: how the body ended, or why the client stopped reading.

    `waited`: nothing happened for `act_s` after the last verdict, a bad one. `overdue`: `whole_s` were over. Moments are those of
    `time.monotonic()`.
    """

    asked: Asked
    status: int = 0
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    end: End = "whole"
    ended_s: float = 0.0
    exchanges: Sequence[Exchange] = ()

    @property
    def events(self) -> list[SseEvent]:
        return list(events_of(self.pieces))


async def visit(http: httpx2.AsyncClient, mapping: Mapping, log: Log, asked: Asked, patience: Patience) -> Seen:
    """Asks, reads, leaves where the case says so, and waits until the upstream is done with it, `act_s` at most."""
    seen = Seen(asked)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_watch, mapping, log, seen, patience, tasks.cancel_scope)
        await _read(http, mapping, seen)
        tasks.cancel_scope.cancel()
    seen.ended_s = time.monotonic()
    with anyio.move_on_after(patience.act_s):
        while any(each.is_open for each in of(log, asked)):  # noqa: ASYNC110  it changes without a word
            await anyio.sleep(LOOK_EVERY_S)
    seen.exchanges = [replace(each) for each in of(log, asked)]
    return seen


async def _read(http: httpx2.AsyncClient, mapping: Mapping, seen: Seen) -> None:
    body, headers = mapping.request(seen.asked.question), {"content-type": "application/json", **mapping.headers}
    try:
        async with http.stream("POST", mapping.path, content=body, headers=headers) as response:
            seen.status = response.status_code
            async for piece in response.aiter_raw():
                seen.pieces.append((time.monotonic(), piece))
    except httpx2.HTTPError:
        seen.end = "broken"


async def _watch(mapping: Mapping, log: Log, seen: Seen, patience: Patience, reading: anyio.CancelScope) -> None:
    """Stops the reading when its time has come, and says why."""
    began_s = time.monotonic()
    while True:
        await anyio.sleep(LOOK_EVERY_S)
        now_s, mine = time.monotonic(), of(log, seen.asked)
        if is_time_to_leave(mapping, seen, mine):
            seen.end = "left"
        elif "insufficient" in seen.asked.case.script and quiet_s(seen, mine, now_s) > patience.act_s:
            seen.end = "waited"
        elif now_s - began_s > patience.whole_s:
            seen.end = "overdue"
        else:
            continue
        reading.cancel()
        return


def of(log: Log, asked: Asked) -> list[Exchange]:
    """What the upstream saw of a question."""
    return [each for each in log if asked.mark in each.question]


def is_time_to_leave(mapping: Mapping, seen: Seen, mine: Sequence[Exchange]) -> bool:
    match seen.asked.case.leaves:
        case "never":
            return False
        case "while held":  # a draft has begun, or, where none ever does before its verdict, the grade has
            drafts = [each for each in mine if each.kind == "generator"]
            begun = drafts or [each for each in mine if each.kind == "grader"]
            return any(time.monotonic() - each.received_s > 0.2 for each in begun)
        case "while told":
            return any(mapping.text_of(event) is not None for event in seen.events)


def quiet_s(seen: Seen, mine: Sequence[Exchange], now_s: float) -> float:
    """Seconds since the last verdict in which nothing happened: no event, no new request; 0 while a verdict is open."""
    grades = [each for each in mine if each.kind == "grader"]
    if not grades or any(each.is_open for each in grades):
        return 0.0
    last = [each.finished_s or each.closed_s or each.received_s for each in grades]
    last += [each.received_s for each in mine] + [at_s for at_s, _ in seen.pieces]
    return now_s - max(last)
