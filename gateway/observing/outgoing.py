"""What goes out with a request to a model or a source: the trace it belongs to, so that their own traces hang below ours.

The clients outlive requests, so which span a call is made under is read from a context variable that the call itself holds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

TRACEPARENT: ContextVar[str | None] = ContextVar("traceparent", default=None)
HEADER = "traceparent"  # https://www.w3.org/TR/trace-context/


@contextmanager
def under(traceparent: str | None) -> Iterator[None]:
    """Requests made inside the block belong to the span that `traceparent` names. Entered and left by one coroutine."""
    before = TRACEPARENT.set(traceparent)
    try:
        yield
    finally:
        TRACEPARENT.reset(before)


def headers() -> dict[str, str]:
    """The headers that say so; none outside of a traced call."""
    traceparent = TRACEPARENT.get()
    return {} if traceparent is None else {HEADER: traceparent}
