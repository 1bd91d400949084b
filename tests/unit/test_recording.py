"""A recording: any number of readers, each from any event on, get the same frames, once and whole."""

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.keeping.recording import PIECE_BYTES, Chunk, Recording
from gateway.keeping.recordings import Stored, piece_of
from gateway.keeping.replay import ReplayFrames, Whole, parsed
from streaming.events import Done, Failed, Path, Reason, Refusal, Started, Status, Token
from streaming.wire.native import Native

pytestmark = pytest.mark.anyio

ID = "0a1b2c"
Batches = list[tuple[Token | Status, ...]]

words = st.text(max_size=30).map(Token)
batches: st.SearchStrategy[Batches] = st.lists(
    st.lists(st.one_of(words, st.just(Status(1, "grading"))), min_size=1, max_size=4).map(tuple), max_size=8
)


def recorded(told: Batches, *, is_ended: bool = True) -> tuple[Recording, list[bytes]]:
    """A recording of `told`, and each of its frames."""
    recording, wire = Recording(ID), Native(ID)
    chunks = [wire.chunk(batch) for batch in told]
    for batch, chunk in zip(told, chunks, strict=True):
        recording.add(chunk, len(batch), is_end=False)
    if is_ended:
        chunks.append(wire.chunk((Done(Path.CLEAN, "stop", 1, {}),)))
        recording.add(chunks[-1], 1, is_end=True)
    return recording, [frame + b"\n\n" for frame in b"".join(chunks).split(b"\n\n")[:-1]]


async def rest(recording: Recording, n: int) -> bytes:
    return b"".join([frames async for frames in ReplayFrames(recording, n)])


@given(told=batches, data=st.data())
def test_after_any_event_comes_exactly_what_followed_it(told: Batches, data: st.DataObject) -> None:
    recording, frames = recorded(told)
    n = data.draw(st.integers(0, len(frames)))

    async def read() -> None:
        assert await rest(recording, n) == b"".join(frames[n:])

    anyio.run(read)


@given(told=batches, data=st.data())
def test_what_is_shared_says_the_same(told: Batches, data: st.DataObject) -> None:
    recording, frames = recorded(told)
    n = data.draw(st.integers(0, len(frames) - 1))
    stored = Stored(recording.chunks_after(n), recording.last, is_ended=True, is_lost=False)
    piece = piece_of(stored, n)
    assert piece is not None
    assert (piece.frames, piece.last, piece.is_end) == (b"".join(frames[n:]), len(frames), True)


async def test_a_reader_waits_for_what_is_not_there_yet_and_is_told_at_once() -> None:
    recording, _ = recorded([(Token("a"),)], is_ended=False)
    seen: list[bytes] = []
    async with anyio.create_task_group() as tasks:

        async def read() -> None:
            seen.append(await rest(recording, 1))

        for _ in range(3):
            tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        assert not seen
        recording.add(b"id: x\n\n", 1, is_end=False)
        await anyio.wait_all_tasks_blocked()
        assert not seen
        recording.add(b"id: y\n\n", 1, is_end=True)
    assert seen == [b"id: x\n\nid: y\n\n"] * 3


async def test_a_reader_of_a_lost_answer_is_told_so_and_what_came_later_is_not_added() -> None:
    recording, _ = recorded([(Token("a"),)], is_ended=False)
    recording.lose()
    recording.add(b"id: x\n\n", 1, is_end=True)
    events = [parsed(frame) for frame in (await rest(recording, 1)).split(b"\n\n") if frame]
    assert [name for name, _ in events] == ["failed", "done"]
    assert not recording.is_ended


async def test_an_answer_that_has_ended_cannot_be_lost() -> None:
    recording, frames = recorded([(Token("a"),)])
    recording.lose()
    assert not recording.is_lost
    assert await rest(recording, 0) == b"".join(frames)


def test_a_long_answer_is_replayed_in_pieces() -> None:
    recording, _ = recorded([(Token("x" * 1_000),) for _ in range(500)])
    piece = recording.kept_after(0)
    assert len(piece.frames) < PIECE_BYTES + 2_000
    assert not piece.is_end


async def test_readers_are_counted_and_waited_for() -> None:
    recording = Recording(ID)
    with anyio.fail_after(5):
        await recording.until_deserted()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(recording.until_read)
        await anyio.wait_all_tasks_blocked()
        with recording.reading():
            tasks.start_soon(recording.until_deserted)
            await anyio.wait_all_tasks_blocked()
            with recording.reading():
                assert recording.readers == 2
    assert recording.readers == 0


def test_a_chunk_is_cut_between_its_frames() -> None:
    chunk = Chunk(4, 6, b"a\n\nb\n\nc\n\n")
    assert [chunk.after(n) for n in (0, 3, 4, 5, 6)] == [chunk.frames, chunk.frames, b"b\n\nc\n\n", b"c\n\n", b""]


def test_a_whole_answer_out_of_frames_has_its_fault_s_status_and_ids() -> None:
    wire = Native(ID)
    frames = wire.chunk(
        (
            Started(ID, "t", "q", "default"),
            Token("half"),
            Failed("generator_overloaded", "busy", retryable=True),
            Done(Path.FAILED, "error", 1, {}),
        )
    )
    whole = Whole.of(frames)
    assert (whole.status, whole.has_answer) == (503, False)
    assert whole.body()["error"] == {
        "type": "generator_overloaded",
        "message": "busy",
        "retryable": True,
        "answer_id": ID,
        "trace_id": "t",
    }
    refusal = Refusal(Reason.INSUFFICIENT_EVIDENCE, "m", "price", ("q",), None)
    refused = Whole.of(Native(ID).chunk((Started(ID, "t", "q", "c"), refusal, Done(Path.REFUSED, "refusal", 1, {}))))
    assert refused.status == 200
    assert refused.body()["answer"] == ""
    assert refused.body()["refusal"] is not None
