"""Server-sent events as the HTML standard reads them, each with the moment at which it was complete."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class SseEvent:
    """`at_s` is `time.monotonic()`."""

    name: str
    data: str
    at_s: float


def events_of(pieces: Iterable[tuple[float, bytes]]) -> Iterator[SseEvent]:
    """The events in the pieces of a body; one that no blank line ends is none."""
    rest, fields, name = b"", list[str](), ""
    for at_s, piece in pieces:
        rest += piece
        *lines, rest = LINE_END.split(rest) if not rest.endswith(b"\r") else [rest]  # a lone CR may be half of CRLF
        for line in lines:
            if not line:
                if fields:
                    yield SseEvent(name or "message", "\n".join(fields), at_s)
                fields, name = [], ""
                continue
            key, _, value = line.decode("utf-8", "replace").partition(":")
            value = value.removeprefix(" ")
            if key == "data":
                fields.append(value)
            elif key == "event":
                name = value
