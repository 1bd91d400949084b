"""A client that speaks bytes, for what no HTTP library would do: leave, freeze, send half a request."""

import json
import socket
import struct

import anyio
from anyio.abc import SocketAttribute, SocketStream


def request_bytes(question: str, **fields: object) -> bytes:
    body = json.dumps({"question": question, **fields}).encode()
    head = (
        f"POST /v1/answers HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def reset_on_close(stream: SocketStream) -> None:
    """Closing will send RST: the client is gone without a word."""
    stream.extra(SocketAttribute.raw_socket).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def read_until(stream: SocketStream, mark: bytes) -> bytes:
    """What was read up to and with `mark`."""
    seen = b""
    with anyio.fail_after(10):
        while mark not in seen:
            seen += await stream.receive()
    return seen
