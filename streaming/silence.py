"""Silence: how long a model may keep its draft waiting, before the first token and between any two."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

import anyio

from streaming.faults import GeneratorUnavailable

STEPS = 20  # the limit is moved on when this part of it has passed, not at every token: a timer costs more than a token


class Silence:
    """A limit on each wait of one reading task. `limit_s` may be shortened by up to a twentieth."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._scope = anyio.CancelScope()
        self._next_s = 0.0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """The block whose waits are limited. Raises GeneratorUnavailable when one was too long; once."""
        with self._scope:
            self._move()
            yield
        if self._scope.cancelled_caught:
            raise GeneratorUnavailable(f"the model was silent for {self._limit_s:g} s")

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
