"""Silence: how long a model may keep its draft waiting, before the first token and between any two."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from types import TracebackType

import anyio

from streaming.faults import GeneratorUnavailable

STEPS = 20  # the limit is moved on when this part of it has passed, not at every token: a timer costs more than a token


class Silence:
    """A limit on each wait of one reading task, in whose block it reads. `limit_s` may be shortened by up to a twentieth.

    The block raises GeneratorUnavailable when a wait was too long; there is one block.
    """

    __slots__ = ("_limit_s", "_next_s", "_scope")

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._scope = anyio.CancelScope()
        self._next_s = 0.0

    def __enter__(self) -> None:
        self._scope.__enter__()
        self._move()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        is_caught = bool(self._scope.__exit__(kind, error, at))
        if self._scope.cancelled_caught:
            raise GeneratorUnavailable(f"the model was silent for {self._limit_s:g} s")
        return is_caught

    def broken(self, now_s: float) -> None:
        """The model has been heard, at `now_s` by anyio's clock."""
        if now_s >= self._next_s:
            self._move()

    @contextmanager
    def ours(self) -> Iterator[None]:
        """A wait of our own making, which is not limited."""
        self._scope.deadline = inf
        yield
        self._move()

    def _move(self) -> None:
        now_s = anyio.current_time()
        self._scope.deadline = now_s + self._limit_s
        self._next_s = now_s + self._limit_s / STEPS
