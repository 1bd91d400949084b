"""A virtual clock: time jumps to the next thing that waits, so that hours pass in milliseconds and ties are real ties."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
from trio.testing import MockClock

T = TypeVar("T")


class Deadlock(Exception):
    """Raised when every task waits and no timer is set: in real time this program would hang for ever."""


class _JumpingSelector(selectors.SelectSelector):
    """Never waits: a wait of n seconds moves the loop's clock n seconds."""

    now: float = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise Deadlock
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._jumping.now


def run_virtual(backend: str, function: Callable[..., Awaitable[T]], *args: Any) -> T:
    """What `function(*args)` returns, run on `backend` (`asyncio` or `trio`) in virtual time starting near zero."""
    if backend == "trio":
        return anyio.run(function, *args, backend="trio", backend_options={"clock": MockClock(autojump_threshold=0)})
    return anyio.run(function, *args, backend="asyncio", backend_options={"loop_factory": VirtualLoop})
