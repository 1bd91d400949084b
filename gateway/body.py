"""A request's body: read within bounds, parsed within bounds."""

import json
from typing import Any

import anyio
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from gateway.problems import (
    BodyTooLarge,
    BodyTooSlow,
    MalformedJson,
    WrongContentType,
)

BODY_LIMIT_BYTES = 1_048_576  # 8,000 characters of question and 100,000 of history, escaped, several times over
BODY_LIMIT_S = 30.0  # a body of a megabyte over 300 kbit/s
LINGER_S = 1.0  # how long what a client still sends is read away, so that it sees the refusal and not a reset
LINGER_BYTES = 16 * 1_048_576


class ClientGone(Exception):
    """Raised when the client left before its request was complete: there is nobody to answer."""


async def read_json(scope: Scope, receive: Receive) -> object:
    """The JSON value of the request's body.

    Raises WrongContentType, BodyTooLarge, BodyTooSlow, MalformedJson, or ClientGone. Reads at most the limit and one chunk.
    """
    headers = Headers(scope=scope)
    check_content_type(headers.get("content-type"), headers.get("content-encoding"))
    return parse(await read(receive, headers.get("content-length")))


def check_content_type(content_type: str | None, content_encoding: str | None = None) -> None:
    """Raises WrongContentType unless the media type is JSON (with any parameters) and the body is not compressed."""
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not (
        media_type.startswith("application/") and media_type.endswith("+json")
    ):
        raise WrongContentType("the Content-Type must be application/json")
    if (content_encoding or "identity").strip().lower() != "identity":
        raise WrongContentType("a compressed body is not accepted")


async def read(receive: Receive, content_length: str | None) -> bytes:
    """The body, counted while it arrives. Raises BodyTooLarge (before reading, when it is announced), BodyTooSlow, ClientGone."""
    if content_length is not None and content_length.isascii() and content_length.isdigit():
        check_size(int(content_length[:20]))
    body = bytearray()
    with anyio.move_on_after(BODY_LIMIT_S):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            body += message.get("body", b"")
            check_size(len(body))
            if not message.get("more_body", False):
                return bytes(body)
    raise BodyTooSlow(f"the body did not arrive within {BODY_LIMIT_S:g} s")


def check_size(size_bytes: int) -> None:
    """Raises BodyTooLarge for more than the limit."""
    if size_bytes > BODY_LIMIT_BYTES:
        raise BodyTooLarge(f"the body is larger than {BODY_LIMIT_BYTES} bytes")


def parse(body: bytes) -> object:
    """The one JSON value in `body`. Raises MalformedJson, also for what Python's parser lets pass: NaN and repeated names.

    Lone surrogates pass (JSON can hold them); cleaning deals with them.
    """
    try:
        return json.loads(body.decode("utf-8-sig"), object_pairs_hook=_object, parse_constant=_refuse_constant)
    except RecursionError:
        raise MalformedJson("the body is nested too deeply") from None
    except UnicodeDecodeError:
        raise MalformedJson("the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise MalformedJson(f"the body is not JSON: {error.msg} at character {error.pos}") from None
    except ValueError:  # an integer of more digits than Python converts
        raise MalformedJson("the body holds a number that is too long") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise MalformedJson("an object in the body has the same name twice")
    return found


def _refuse_constant(name: str) -> float:
    raise MalformedJson(f"{name} is not JSON")


async def linger(receive: Receive, send: Send) -> None:
    """Reads away what still arrives, within bounds, then ends the exchange that was left open.

    Closing a socket with unread bytes resets it, and the client might then never see the response that it was sent.
    """
    read_bytes = 0
    with anyio.move_on_after(LINGER_S):
        while read_bytes < LINGER_BYTES:
            message = await receive()
            read_bytes += len(message.get("body", b""))
            if message["type"] == "http.disconnect" or not message.get("more_body", False):
                break
    await send({"type": "http.response.body", "body": b"", "more_body": False})
