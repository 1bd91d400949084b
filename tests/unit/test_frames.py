"""Batches on their way into chunks, on both event loops."""

from collections.abc import Callable

import anyio
import pytest

from gateway.outbox import Outbox
from gateway.sse import Frames
from streaming.events import Done, Event, Path, Status, Token
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


class Later:
    """A way out that says when the turn is over."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.due: list[Callable[[], bytes]] = []

    async def room(self) -> None:
        pass

    async def write(self, chunk: bytes) -> None:
        self.chunks.append(chunk)

    end = write

    def say(self, chunk: bytes) -> None:
        self.chunks.append(chunk)

    def soon(self, words: Callable[[], bytes]) -> bool:
        self.due.append(words)
        return True

    def turn(self) -> None:
        """Ends the turn."""
        said = [words() for words in self.due]
        self.due.clear()
        self.chunks += [chunk for chunk in said if chunk]


async def test_what_is_no_answer_waits_for_the_turn_to_be_over_and_is_one_chunk() -> None:
    out = Later()
    frames = Frames(Native("a"), out, lambda: None)
    await frames.emit((Status(1, "retrieving"),))
    await frames.emit((Status(1, "grading"),))
    assert (out.chunks, len(out.due)) == ([], 1)
    out.turn()
    assert [ids([chunk]) for chunk in out.chunks] == [[b"id: a.1", b"id: a.2"]]
    await frames.emit((Status(1, "generating"),))
    out.turn()
    assert ids(out.chunks) == [b"id: a.1", b"id: a.2", b"id: a.3"]


class Stumbling(Native):
    """Cannot put `grading` into words."""

    def chunk(self, batch: tuple[Event, ...]) -> bytes:
        if any(isinstance(event, Status) and event.stage == "grading" for event in batch):
            raise ValueError(batch)
        return super().chunk(batch)


async def test_what_cannot_be_put_into_words_at_the_end_of_a_turn_is_raised_to_who_emits_next_and_then_the_end_is_told() -> (
    None
):
    out = Later()
    frames = Frames(Stumbling("a"), out, lambda: None)
    await frames.emit((Status(1, "grading"),))
    out.turn()
    with pytest.raises(ValueError, match="grading"):
        await frames.emit((DONE,))
    assert out.chunks == []
    await frames.emit((DONE,))
    assert ids(out.chunks) == [b"id: a.1"]


@pytest.mark.parametrize("last", [Token("one"), DONE])
async def test_answer_and_end_take_what_waits_with_them_at_once(last: Token | Done) -> None:
    out = Later()
    frames = Frames(Native("a"), out, lambda: None)
    await frames.emit((Status(1, "retrieving"),))
    await frames.emit((last,))
    assert [ids([chunk]) for chunk in out.chunks] == [[b"id: a.1", b"id: a.2"]]
    out.turn()
    assert len(out.chunks) == 1
