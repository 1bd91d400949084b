"""The outbox between the owner of an answer and its response, on both event loops."""

import anyio
import pytest

from gateway.outbox import Batch, Outbox
from streaming.events import Token

pytestmark = pytest.mark.anyio

SOON_S = 5.0


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def batch(number: int) -> Batch:
    return (Token(str(number)),)


async def test_batches_come_out_as_they_went_in_whoever_is_first() -> None:
    outbox, taken = Outbox(2), list[Batch]()

    async def take() -> None:
        for number in range(20):
            if number % 7 == 0:
                await anyio.sleep(0.001)
            taken.append(await outbox.take())

    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take)
            for number in range(20):
                if number % 5 == 0:
                    await anyio.sleep(0.001)
                await outbox.put(batch(number))
    assert taken == [batch(number) for number in range(20)]


async def test_a_full_outbox_takes_no_more_until_there_is_room() -> None:
    outbox = Outbox(3)
    for number in range(3):
        await outbox.put(batch(number))
    with anyio.move_on_after(0.02) as waiting:
        await outbox.put(batch(3))
    assert waiting.cancelled_caught
    assert await outbox.take() == batch(0)
    await outbox.put(batch(4))
    assert [await outbox.take() for _ in range(3)] == [batch(1), batch(2), batch(4)]


async def test_cancelled_while_it_is_empty_it_loses_nothing() -> None:
    outbox = Outbox(1)
    with anyio.move_on_after(0.01) as waiting:
        await outbox.take()
    assert waiting.cancelled_caught
    await outbox.put(batch(1))
    assert await outbox.take() == batch(1)


async def test_a_batch_whose_taker_waits_may_leave_as_it_is_put_and_order_is_kept() -> None:
    """A way out that is blocked now and then, as a socket is: what it does not take is taken, and nothing overtakes."""
    outbox, left, all_left = Outbox(3), list[Batch](), anyio.Event()
    tried = 0

    def leave(one: Batch) -> None:
        left.append(one)
        if len(left) == 60:
            all_left.set()

    def pass_on(offered: Batch) -> bool:
        nonlocal tried
        tried += 1
        if tried % 3 == 0:
            return False
        leave(offered)
        return True

    async def take() -> None:
        outbox.open(pass_on)
        while True:
            leave(await outbox.take())

    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take)
            for number in range(60):
                if number % 4 == 0:
                    await anyio.sleep(0.001)
                await outbox.put(batch(number))
            await all_left.wait()
            tasks.cancel_scope.cancel()
    assert left == [batch(number) for number in range(60)]
    assert tried > 20
