"""A client that speaks bytes, for what no HTTP library would do: leave, freeze, send half a request."""

import json
import socket
import struct

import anyio
from anyio.abc import SocketAttribute, SocketStream


def request_bytes(question: str, **fields: object) -> bytes:
    body = json.dumps({"question": question, **fields}).encode()
    head = f"POST /v1/answers HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
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


class Narrow:
    """A connection that buffers as little as the system allows and reads only when told to: not reading is soon felt."""

    def __init__(self, port: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.connect(("127.0.0.1", port))  # to a listener in this process: the kernel answers at once
        self._socket.setblocking(False)

    def ask(self, question: str) -> None:
        """Sends the request; it fits into the socket's buffer."""
        request = request_bytes(question)
        assert self._socket.send(request) == len(request)

    async def read_until(self, mark: bytes) -> None:
        """Reads up to and with `mark`, and then no more."""
        seen = b""
        with anyio.fail_after(20):
            while mark not in seen:
                await anyio.wait_readable(self._socket)
                seen += self._socket.recv(256)

    def reset(self) -> None:
        """Is gone without a word."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()
