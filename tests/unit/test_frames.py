"""Batches on their way into chunks, on both event loops."""

import anyio
import pytest

from gateway.outbox import Outbox
from gateway.sse import Frames
from streaming.events import Done, Path, Status, Token
from streaming.wire.native import Native

pytestmark = pytest.mark.anyio

DONE = Done(Path.CLEAN, "stop", 1, {})


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ids(chunks: list[bytes]) -> list[bytes]:
    return [line for chunk in chunks for line in chunk.split(b"\n") if line.startswith(b"id: ")]


async def test_batch_that_is_cancelled_while_it_waits_for_room_leaves_no_gap() -> None:
    outbox = Outbox(1)
    frames = Frames(Native("a"), outbox, lambda: None)
    await frames.emit((Status(1, "retrieving"),))
    with anyio.move_on_after(0.01) as waiting:
        await frames.emit((Status(1, "grading"),))
    assert waiting.cancelled_caught
    chunks = [await anext(outbox)]
    await frames.emit((DONE,))
    chunks += [chunk async for chunk in outbox]
    assert ids(chunks) == [b"id: a.1", b"id: a.2"]


async def test_nothing_is_said_after_done() -> None:
    outbox = Outbox(4)
    frames = Frames(Native("a"), outbox, lambda: None)
    await frames.emit((DONE,))
    await frames.emit((DONE,))
    assert ids([chunk async for chunk in outbox]) == [b"id: a.1"]


async def test_first_answer_byte_is_told_once_with_the_first_text() -> None:
    outbox, told = Outbox(4), list[int]()
    frames = Frames(Native("a"), outbox, lambda: told.append(1))
    await frames.emit((Status(1, "grading"),))
    assert told == []
    await frames.emit((Token("one"),))
    await frames.emit((Token("two"),))
    assert told == [1]
