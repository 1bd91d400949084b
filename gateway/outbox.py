"""The outbox of an answer: what its owner has put for the response to send."""

from collections import deque
from collections.abc import Callable

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from streaming.events import Event

Batch = tuple[Event, ...]


class Outbox:
    """Batches of events in order, `size` at most. One task puts, one task takes; nobody closes it, because `done` ends what is in it.

    Where there is room, or a batch, neither waits for a turn of the event loop: anyio's own stream does so three times for every batch,
    and in each of these turns every other stream comes first. Both look whether they are cancelled all the same where they might go on
    for ever without waiting: two tasks that always find each other ready are never seen waiting, which is when asyncio's side of anyio
    would tell them. Who puts into an empty outbox has waited since the last time, or will look the next time.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._batches: deque[Batch] = deque()
        self._pass_on: Callable[[Batch], bool] | None = None
        self._arrived: anyio.Event | None = None  # while the taker waits
        self._taken: anyio.Event | None = None  # while there is no room, which is seldom

    def open(self, pass_on: Callable[[Batch], bool] | None) -> None:
        """From now on a batch for which the taker already waits is offered to `pass_on`, which says whether it took it; or to none."""
        self._pass_on = pass_on

    async def put(self, batch: Batch) -> None:
        """Returns when `batch` is in; on cancellation it is not."""
        if self._batches:
            await checkpoint_if_cancelled()
        elif self._arrived is not None and self._pass_on is not None and self._pass_on(batch):
            return
        while len(self._batches) >= self._size:
            self._taken = anyio.Event()
            await self._taken.wait()
        self._batches.append(batch)
        if self._arrived is not None:
            self._arrived.set()

    async def take(self) -> Batch:
        """The oldest batch, when there is one. Cancellation loses nothing."""
        if self._batches:
            await checkpoint_if_cancelled()
        while not self._batches:
            self._arrived = anyio.Event()
            try:
                await self._arrived.wait()
            finally:
                self._arrived = None
        batch = self._batches.popleft()
        if self._taken is not None:
            self._taken.set()
        return batch
