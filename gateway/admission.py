"""Admission: how many answers may be open at once, of one key and in all; who waits for a moment, who is turned away."""

import math
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

import anyio

from gateway.hold import Hold
from gateway.problems import Overloaded, RateExceeded, TooManyStreams
from streaming.allowance import Allowance
from streaming.facts import DraftClosed, Fact

KEYS_KEPT = 10_000  # allowances of keys; a key whose minute is empty again is as one that was never seen


@dataclass(frozen=True, slots=True)
class Bounds:
    """Answers open at once: in all, of one key. `waiting` more may wait, `wait_s` seconds each. Rates of one key: None for none."""

    streams: int = 256
    streams_per_key: int = 64
    waiting: int = 32
    wait_s: float = 1.0
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class Admission:
    """Gives out slots, first come, first served. Its counts are those of one process."""

    def __init__(self, bounds: Bounds | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._bounds = bounds or Bounds()
        self._now = now
        self._open = 0
        self._by_key: Counter[str] = Counter()
        self._waiting: deque[anyio.Event] = deque()
        self._requests: dict[str, Allowance] = {}
        self._tokens: dict[str, Allowance] = {}

    @property
    def open(self) -> int:
        """Slots that are taken."""
        return self._open

    @property
    def waiting(self) -> int:
        """Questions that wait for one."""
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether a question would have to wait."""
        return self._open >= self._bounds.streams

    async def slot(self, key: str) -> Hold:
        """A slot for a question that came with `key` (a digest); the caller's to let go.

        Where no key is needed it is empty: everyone is one and the same, and has what there is.

        Raises RateExceeded, TooManyStreams and Overloaded, at once or after `wait_s` seconds. Cancelled, it has taken nothing.
        """
        bounds = self._bounds
        self._require_rates(key)
        if key and self._by_key[key] >= bounds.streams_per_key:
            raise TooManyStreams(f"this key has {bounds.streams_per_key} answers open; wait for one to end")
        self._by_key[key] += 1  # one that waits counts too
        try:
            if self._open < bounds.streams:
                self._open += 1
            else:
                await self._wait()
        except BaseException:
            self._drop(key)
            raise
        return Hold(lambda: self._free(key))

    def meter(self, key: str) -> "Meter | None":
        """Who counts the tokens of an answer against its key's rate; None where it has none."""
        limit = self._bounds.tokens_per_minute
        return None if limit is None else Meter(self._allowance(self._tokens, key, limit))

    def _require_rates(self, key: str) -> None:
        tokens, requests = self._bounds.tokens_per_minute, self._bounds.requests_per_minute
        if tokens is not None:
            spent = self._allowance(self._tokens, key, tokens)
            if wait_s := spent.opens_in_s():
                raise RateExceeded(f"this key has used its {tokens} tokens of the last minute", math.ceil(wait_s))
        if requests is not None:
            asked = self._allowance(self._requests, key, requests)
            if wait_s := asked.opens_in_s():
                raise RateExceeded(f"this key has asked its {requests} questions of the last minute", math.ceil(wait_s))
            asked.settle(0, 1)

    async def _wait(self) -> None:
        """Returns when a slot has been handed over; it counts as taken then."""
        if len(self._waiting) >= self._bounds.waiting:
            raise Overloaded("as many answers are open as this server bears; ask again")
        mine = anyio.Event()
        self._waiting.append(mine)
        try:
            with anyio.move_on_after(self._bounds.wait_s):
                await mine.wait()
        except BaseException:
            if mine.is_set():  # handed over in the same moment: it goes on to the next
                self._hand_over()
            else:
                self._waiting.remove(mine)
            raise
        if not mine.is_set():
            self._waiting.remove(mine)
            raise Overloaded("as many answers are open as this server bears; ask again")

    def _free(self, key: str) -> None:
        self._drop(key)
        self._hand_over()

    def _drop(self, key: str) -> None:
        self._by_key[key] -= 1
        if not self._by_key[key]:
            del self._by_key[key]

    def _hand_over(self) -> None:
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self._open -= 1

    def _allowance(self, kept: dict[str, Allowance], key: str, limit: int) -> Allowance:
        if key not in kept:
            if len(kept) >= KEYS_KEPT:
                for idle in [name for name, allowance in kept.items() if not allowance.spent]:
                    del kept[idle]
            kept[key] = Allowance(limit, self._now)
        return kept[key]


@dataclass(frozen=True, slots=True)
class Meter:
    """Enters the tokens of every draft, in and out, when it is closed (streaming.ports.Observer)."""

    tokens: Allowance

    def note(self, fact: Fact) -> None:
        if isinstance(fact, DraftClosed):
            self.tokens.settle(0, fact.input_tokens + fact.output_tokens)
