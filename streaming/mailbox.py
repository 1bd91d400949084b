"""A mailbox: the one channel of signals of an attempt. Many tasks put, one task takes."""

from collections import deque
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


class Mailbox(Generic[T]):
    """Unbounded in items, because what fills it is bounded by Room: a verdict always finds place, also when the buffer is full."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._arrived = anyio.Event()

    def put(self, item: T) -> None:
        """Never waits, never fails; what nobody takes any more is simply forgotten with the mailbox."""
        self._items.append(item)
        self._arrived.set()

    async def take(self) -> T:
        """The oldest item, when there is one. Cancellation loses nothing."""
        while not self._items:
            if self._arrived.is_set():
                self._arrived = type(self._arrived)()  # of the same backend, which need not be looked for
            await self._arrived.wait()
        return self._items.popleft()
