"""A wire format: what all of them share. Pure: events in, bytes out.

Each format is a module of its own beside this one: `native`, `openai`, `aisdk`. Of a whole answer (no stream) `told` is what a
format makes its one body from.
"""

import json
import math
from collections.abc import Mapping
from typing import Protocol

from streaming.events import Event

Json = dict[str, object]

QUOTED = json.encoder.encode_basestring_ascii  # a text as JSON, which ENCODER comes to by three calls
ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))  # one, as each token passes it
PING = b": ping\n"  # no blank line: a client that dispatches on one would read an empty event (FIELD_REPORTS H1)
LAST = b"data: [DONE]\n\n"  # how the formats without names for their events end


class Wire(Protocol):
    """One answer in one format, for one client: it may count what it has said."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What the format adds to the response's headers."""
        ...

    @property
    def ping(self) -> bytes:
        """What is sent in silence; no client takes it for a part of the answer."""
        ...

    def chunk(self, batch: tuple[Event, ...]) -> bytes:
        """The bytes of the next batch, each event encoded once; empty when the format has no word for what is in it.

        Batches come in the order of their events, `Started` in the first; what belongs after the answer comes with `Done`.
        """
        ...


def dumps(value: object) -> bytes:
    """`value` as JSON in pure ASCII: lone surrogates and odd line separators are escapes, NaN is an error of ours."""
    return ENCODER.encode(value).encode("ascii")


def data(value: object) -> bytes:
    """One event without a name: a line of ASCII JSON, LF line ends."""
    return b"data: %b\n\n" % dumps(value)


def number(value: float) -> float | None:
    """A plain finite float, or None: no score, however made, can break the JSON that it is written into."""
    return float(value) if math.isfinite(value) else None


def given(name: str, value: object | None) -> Json:
    """The field, or nothing when there is no value."""
    return {} if value is None else {name: value}
