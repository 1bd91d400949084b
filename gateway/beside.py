"""Beside: a task that runs beside a block, and ends with it."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio


@asynccontextmanager
async def beside(run: Callable[[], Coroutine[Any, Any, None]], name: str) -> AsyncIterator[None]:
    """`run` runs until the end of the block, and is cancelled then; the task is called `name`.

    What the block raises comes out as itself, after that; what `run` raises cancels the block and comes out in an exception group.
    """
    raised: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, name=name)
        try:
            yield
        except Exception as error:  # the group would put it into an exception group
            raised = error
        finally:
            tasks.cancel_scope.cancel()
    if raised is not None:
        raise raised
