"""The answers that are open: counted from the request's first moment to the close of its last upstream request."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from gateway.problems import ShuttingDown
from streaming.halt import Halt


class OpenAnswers:
    """The server's own state of draining: no flag of the process is involved, so two servers in it do not meet."""

    def __init__(self) -> None:
        self._halts: set[Halt] = set()
        self._is_draining = False
        self._changed = anyio.Event()

    @property
    def is_draining(self) -> bool:
        """Whether new questions are turned away."""
        return self._is_draining

    @property
    def count(self) -> int:
        return len(self._halts)

    @contextmanager
    def one(self) -> Iterator[Halt]:
        """An answer is open inside the block; the halt ends it early. Raises ShuttingDown when draining."""
        if self._is_draining:
            raise ShuttingDown("the server is shutting down; ask again")
        halt = Halt()
        self._halts.add(halt)
        try:
            yield halt
        finally:
            self._halts.discard(halt)
            self._changed.set()

    def begin_drain(self) -> None:
        """From now on new questions are turned away; open answers go on."""
        self._is_draining = True

    def halt_all(self) -> None:
        """Every open answer ends with `failed` and `done`, whatever it is doing."""
        for halt in tuple(self._halts):
            halt.now(ShuttingDown("the server shut down before this answer was complete; ask again"))

    async def wait_until_none(self) -> None:
        """Returns when no answer is open."""
        while self._halts:
            self._changed = anyio.Event()
            await self._changed.wait()

    async def drain(self, grace_s: float, last_s: float) -> None:
        """Turns new questions away, lets open answers finish for `grace_s`, halts the rest and waits for them `last_s` at most."""
        self.begin_drain()
        with anyio.move_on_after(grace_s):
            await self.wait_until_none()
        self.halt_all()
        with anyio.move_on_after(last_s):
            await self.wait_until_none()
