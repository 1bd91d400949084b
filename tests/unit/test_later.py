"""Work that can wait: in order, in turns of its own, and none of it lost."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from gateway.observing.later import Later

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def running(later: Later) -> AsyncIterator[None]:
    """It is run in the block."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(later.run)
        await anyio.wait_all_tasks_blocked()
        yield
        tasks.cancel_scope.cancel()


def test_while_nobody_runs_it_all_is_done_at_once() -> None:
    later, done = Later(), list[int]()
    later.do(lambda: done.append(1))
    assert done == [1]


async def test_what_comes_while_it_runs_waits_and_is_done_in_order_with_turns_for_others_between() -> None:
    later, done = Later(), list[int]()
    async with running(later):
        for number in range(3):
            later.do(lambda number=number: done.append(number))  # type: ignore[misc]
        assert done == []
        seen = set[int]()
        with anyio.fail_after(5):
            while len(done) < 3:
                seen.add(len(done))
                await anyio.lowlevel.checkpoint()
        assert done == [0, 1, 2]
        assert seen & {1, 2}
        came = anyio.Event()
        later.do(came.set)
        with anyio.fail_after(5):
            await came.wait()


async def test_somebody_who_looks_sees_all_that_is_due() -> None:
    later, done = Later(), list[int]()
    async with running(later):
        later.do(lambda: done.append(1))
        later.catch_up()
        assert done == [1]


async def test_its_end_leaves_nothing_undone() -> None:
    later, done = Later(), list[int]()
    async with running(later):
        later.do(lambda: done.append(1))
    assert done == [1]
    later.do(lambda: done.append(2))
    assert done == [1, 2]
