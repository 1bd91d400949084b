"""What goes out with a request to a model or a source: the trace it belongs to, so that their own traces hang below ours.

The clients outlive requests, so which span a call is made under is read from a context variable that the call itself holds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Above(Protocol):
    """A span that others go on under."""

    @property
    def traceparent(self) -> str | None:
        """What tells them so; None where there is no trace. Asked only when something goes out."""
        ...


ABOVE: ContextVar[Above | None] = ContextVar("above", default=None)
HEADER = "traceparent"  # https://www.w3.org/TR/trace-context/


@contextmanager
def under(span: Above) -> Iterator[None]:
    """Requests made inside the block belong to `span`. Entered and left by one coroutine."""
    before = ABOVE.set(span)
    try:
        yield
    finally:
        ABOVE.reset(before)


def headers() -> dict[str, str]:
    """The headers that say so; none outside of a traced call."""
    span = ABOVE.get()
    traceparent = span.traceparent if span is not None else None
    return {} if traceparent is None else {HEADER: traceparent}
