"""Traceless: work in a task of a group that leaves nothing behind when the group is cancelled."""

from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from typing import TypeVarTuple, Unpack

Given = TypeVarTuple("Given")


async def traceless(work: Callable[[Unpack[Given]], Awaitable[object]], *given: *Given) -> None:
    """Does `work(*given)`, as the last thing that a task does. Cancelled, it just ends: only for a task that its group cancels.

    The group goes on with the cancellation itself, and looks away from that of its tasks. But on asyncio it looks at it first (anyio
    4.16), in a frame that keeps it and that its traceback keeps: a cycle. In the traceback is every frame that the cancellation
    passed, and in these all that there was of an answer. It would stay until the garbage collector found it, and to take whole
    answers apart holds up every stream for milliseconds. On trio it is cancelled as any other work: there a group goes by its tasks.
    """
    try:
        await work(*given)
    except CancelledError:
        return
