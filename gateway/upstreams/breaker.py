"""A circuit breaker: an upstream most of whose calls fail is left alone for a while, then tried with one call.

The states, the window and the one probe are those of the library `interlock`; no other file imports it.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from enum import StrEnum
from typing import Protocol

import anyio
from interlock import CircuitBreaker, CircuitOpenError, Config, Outcome, State, WindowType

log = logging.getLogger(__name__)

CONFIG = Config(
    window_type=WindowType.TIME_BASED,
    window_size=30,  # seconds: what went wrong before then says nothing of now
    minimum_number_of_calls=5,  # fewer may all have met one restart of the service
    failure_rate_threshold=0.8,  # below it, drafting once more answers more questions than an open breaker would
    permitted_calls_in_half_open=1,
    wait_duration_in_open=5.0,
    wait_duration_backoff_multiplier=2.0,
    wait_duration_in_open_max=40.0,
    slow_call_duration_threshold=3600.0,  # an answer is as long as it is; silence has limits of its own
)
PATIENCE = 0.9  # a wait that was cut after this part of its limit was cut by the limit


class Role(StrEnum):
    """What an upstream is for: a closed set, for metrics."""

    GENERATOR = "generator"
    GRADER = "grader"
    FALLBACK_GENERATOR = "fallback_generator"
    FALLBACK_GRADER = "fallback_grader"
    SOURCE = "source"
    EMBEDDINGS = "embeddings"


class Clock(Protocol):
    """Seconds that never go back."""

    def monotonic(self) -> float: ...


class LeftAlone(Exception):
    """Raised when a breaker lets no call through; `for_s` is how long it will be so, None while its one probe runs."""

    def __init__(self, name: str, for_s: float | None) -> None:
        super().__init__(f"{name} failed too often and is left alone{'' if for_s is None else f' for {for_s:.1f} s'}")
        self.for_s = for_s


class Breaker:
    """The breaker of one upstream; `name` is for people. For one event loop."""

    def __init__(self, name: str, clock: Clock | None = None) -> None:
        self.name = name
        self.openings = 0
        """How often it has opened."""
        self._breaker = CircuitBreaker(name=name, config=CONFIG, clock=clock, listener=_Listener(self))

    @property
    def state(self) -> str:
        """`closed`, `open` or `half_open` (its one probe runs, or the next call is it)."""
        return self._breaker.state.value

    def call(self, limit_s: float) -> "Call":
        """A call that is let through, to be ended once. Raises LeftAlone. A wait of it may last `limit_s` seconds."""
        return Call(self._breaker, limit_s * PATIENCE)


class Call:
    """One call on its way. Ended by the first of `succeed`, `fail` and `let_go`; what comes after changes nothing.

    Kept apart from the task it runs in, so that whoever closes a draft may end it.
    """

    def __init__(self, breaker: CircuitBreaker, patience_s: float) -> None:
        self._breaker, self._patience_s = breaker, patience_s
        self._context = copy_context()  # the library remembers a call where its task does
        self._is_over = False
        try:
            self._context.run(breaker.__enter__)
        except CircuitOpenError as error:
            raise LeftAlone(breaker.name, error.retry_after) from None
        self.is_probe = breaker.state is State.HALF_OPEN

    def succeed(self) -> None:
        """The upstream has answered, be it with a refusal."""
        self._end(None)

    def fail(self) -> None:
        """The upstream was not there, not able or silent."""
        self._end(_Failure())

    def let_go(self) -> None:
        """It was cut for reasons of ours: it says nothing of the upstream, and a probe gives its place to the next call."""
        self._end(_Cut())

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A wait for the upstream, which may be `cut`. Any other exception is the caller's to judge."""
        began_s = anyio.current_time()
        try:
            yield
        except Exception:
            raise
        except BaseException:
            self.cut(anyio.current_time() - began_s)
            raise

    def cut(self, waited_s: float) -> None:
        """A wait was cancelled after so long. Before its time that lets the call go; after it, the upstream was silent: it has failed."""
        if waited_s >= self._patience_s:
            self.fail()
        else:
            self.let_go()

    def _end(self, what: BaseException | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._context.run(self._breaker.__exit__, None if what is None else type(what), what, None)


class Breakers:
    """The breakers of a server, each made when its upstream is first named."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock
        self._breakers: dict[tuple[Role, str], Breaker] = {}

    def of(self, role: Role, name: str) -> Breaker:
        """The breaker of the upstream `name`, which is used as `role`."""
        return self._breakers.setdefault((role, name), Breaker(f"{role} {name}", self._clock))

    def shown(self) -> dict[str, str]:
        """The state of each, by its name."""
        return {breaker.name: breaker.state for breaker in self._breakers.values()}

    def states(self) -> Iterator[tuple[float, dict[str, str]]]:
        """How many of each role are in which state, with the labels of the metric."""
        counts = Counter((role, state) for (role, _), breaker in self._breakers.items() for state in (breaker.state,))
        for role in sorted({role for role, _ in self._breakers}):
            for state in ("closed", "half_open", "open"):
                yield counts[role, state], {"upstream": role.value, "state": state}

    def openings(self) -> Iterator[tuple[float, dict[str, str]]]:
        """How often those of each role have opened, with the labels of the metric."""
        counts: Counter[Role] = Counter()
        for (role, _), breaker in self._breakers.items():
            counts[role] += breaker.openings
        for role in sorted(counts):
            yield counts[role], {"upstream": role.value}


class _Failure(Exception):
    """What the library is told of a fault: the fault itself would keep its whole request in memory."""


class _Cut(BaseException):
    """What the library is told of a call that was cut: no Exception, so that it counts for nothing."""


class _Listener:
    """Logs each change, and counts the openings (the library's CoreEventListener)."""

    def __init__(self, breaker: Breaker) -> None:
        self._of = breaker

    def on_state_change(self, *, name: str, old: State, new: State) -> None:
        log.log(logging.INFO if new is State.CLOSED else logging.WARNING, "%s is %s (was %s)", name, new, old)
        self._of.openings += new is State.OPEN

    def on_call(self, *, name: str, outcome: Outcome, duration: float) -> None:
        pass

    def on_rejected(self, *, name: str) -> None:
        pass

    def on_reset(self, *, name: str) -> None:
        pass
