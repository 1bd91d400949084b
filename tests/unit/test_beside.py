"""A task beside a block: it ends with the block, and neither hides the other's fault."""

import anyio
import pytest

from gateway.beside import beside

pytestmark = pytest.mark.anyio


async def test_the_task_runs_until_the_block_ends_and_is_over_then() -> None:
    began, ended = anyio.Event(), anyio.Event()

    async def run() -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    with anyio.fail_after(5):
        async with beside(run, "task"):
            await began.wait()
    assert ended.is_set()


async def test_what_the_block_raises_comes_out_as_itself() -> None:
    with pytest.raises(LookupError, match="of the block"), anyio.fail_after(5):
        async with beside(anyio.sleep_forever, "task"):
            raise LookupError("of the block")


async def test_a_task_that_breaks_ends_the_block() -> None:
    async def run() -> None:
        raise LookupError("of the task")

    with pytest.raises(ExceptionGroup) as broken, anyio.fail_after(5):
        async with beside(run, "task"):
            await anyio.sleep_forever()
    assert broken.group_contains(LookupError, match="of the task", depth=1)
