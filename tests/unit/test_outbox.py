"""The outbox between who writes a stream and another server's task that sends it, on both event loops."""

import anyio
import pytest

from gateway.outbox import Outbox

pytestmark = pytest.mark.anyio

SOON_S = 5.0


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def chunk(number: int) -> bytes:
    return str(number).encode()


async def test_chunks_come_out_as_they_went_in_whoever_is_first() -> None:
    outbox, taken = Outbox(2), list[bytes]()

    async def take() -> None:
        async for each in outbox:
            taken.append(each)
            if len(taken) % 7 == 0:
                await anyio.sleep(0.001)

    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take)
            for number in range(20):
                if number % 5 == 0:
                    await anyio.sleep(0.001)
                await outbox.write(chunk(number))
            assert not outbox.is_taken
            await outbox.end(b"last")
    assert taken == [*(chunk(number) for number in range(20)), b"last"]
    assert outbox.is_taken


async def test_a_full_outbox_takes_no_more_until_there_is_room() -> None:
    outbox = Outbox(3)
    for number in range(3):
        await outbox.write(chunk(number))
    with anyio.move_on_after(0.02) as waiting:
        await outbox.write(chunk(3))
    assert waiting.cancelled_caught
    assert await anext(outbox) == chunk(0)
    await outbox.write(chunk(4))
    assert [await anext(outbox) for _ in range(3)] == [chunk(1), chunk(2), chunk(4)]


async def test_cancelled_while_it_is_empty_it_loses_nothing() -> None:
    outbox = Outbox(1)
    with anyio.move_on_after(0.01) as waiting:
        await anext(outbox)
    assert waiting.cancelled_caught
    await outbox.write(chunk(1))
    assert await anext(outbox) == chunk(1)


async def test_nothing_comes_after_the_end() -> None:
    outbox = Outbox(2)
    await outbox.end(b"last")
    await outbox.write(b"too late")
    assert [each async for each in outbox] == [b"last"]
