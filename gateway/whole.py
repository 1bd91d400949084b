"""A whole answer on its way to a client that asked for no stream: waited for, then a status, headers and one body."""

import anyio

from gateway.problems import NO_RETRY, RETRY_AFTER_S, status_of_type
from streaming.events import Event
from streaming.wire.told import Told


class Whole:
    """Takes the batches of one answer; afterwards `told` holds what the body is made of."""

    def __init__(self) -> None:
        self.told = Told()
        self._complete = anyio.Event()

    async def take(self, batch: tuple[Event, ...]) -> None:
        """Takes one batch (streaming.attempt.Emit)."""
        for event in batch:
            self.told.take(event)
        if self.told.done is not None:
            self._complete.set()

    async def wait(self) -> None:
        """Returns when `done` was taken."""
        await self._complete.wait()

    @property
    def status(self) -> int:
        """200 for an answer and for a refusal, which is one; a fault's own status otherwise."""
        failed = self.told.failed
        return 200 if failed is None else status_of_type(failed.type)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Retry-After where trying again may help; for a fault where it does not, what keeps OpenAI's clients from it."""
        failed = self.told.failed
        if failed is not None and not failed.retryable:
            return [NO_RETRY]
        wait_s = RETRY_AFTER_S.get(self.status)
        return [] if wait_s is None else [(b"retry-after", str(wait_s).encode())]
