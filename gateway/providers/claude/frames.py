"""Bytes of a server-sent event stream -> the JSON objects in it. Pure, and lean: this runs once per token of every draft."""

import json
from typing import Any

from pydantic_core import from_json

EVENT_LIMIT_BYTES = 1_048_576  # one event; a passage quoted back is the largest that is known, a few KiB


class Frames:
    """Cuts a stream into events, wherever the reads cut it. Knows LF, CRLF and CR line ends, comments and many data lines."""

    def __init__(self) -> None:
        self._rest = b""
        self._crlf = False

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """The objects of the events that `data` completes; an event without data, or whose data is no object, is left out.

        Raises ValueError for data that is not JSON, and for an event of more than EVENT_LIMIT_BYTES.
        """
        if self._crlf or b"\r" in data:
            data = self._line_feeds(data)
        *whole, self._rest = (self._rest + data).split(b"\n\n")
        if len(self._rest) > EVENT_LIMIT_BYTES:
            raise ValueError("an event that does not end")
        return [value for block in whole if isinstance(value := _value(block), dict)]

    def _line_feeds(self, data: bytes) -> bytes:
        if self._crlf and data.startswith(b"\n"):  # its CR has been read as a line end already
            data = data[1:]
        self._crlf = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _value(block: bytes) -> object:
    before, found, data = block.partition(b"data:")
    if not found:
        return None
    if (before and not before.endswith(b"\n")) or b"\n" in data:  # else it is the one data line, and the last
        lines = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
        data = b"\n".join(lines)
    if not data:
        return None
    try:
        return from_json(data, cache_strings="keys")  # at half the price of `json.loads`
    except ValueError:  # what it takes for no JSON, half a surrogate pair or deep nesting, may be some
        return json.loads(data.decode())
