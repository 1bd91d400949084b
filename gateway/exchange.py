"""An HTTP exchange: what came of it so far, and whether its client is still there."""

from collections.abc import Awaitable
from dataclasses import dataclass

import anyio
from starlette.types import Message, Receive, Scope, Send

from retrieval.traceless import traceless


@dataclass(slots=True)
class Exchange:
    """One HTTP exchange; `status` is None until a response has begun."""

    scope: Scope
    receive: Receive
    _send: Send
    status: int | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


async def while_connected(receive: Receive, work: Awaitable[object]) -> bool:
    """Awaits `work` and returns True; when the client leaves first, cancels it and returns False. What `work` raises is raised."""
    fault: Exception | None = None
    is_finished = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(traceless, cancel_when_gone, receive, tasks.cancel_scope)
        try:
            await work
            is_finished = True
        except Exception as raised:  # out of the group as itself, not in an exception group
            fault = raised
        tasks.cancel_scope.cancel()
    if fault is not None:
        raise fault
    return is_finished


async def cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    """Cancels `scope` once the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
