"""A TCP proxy that can fall silent: what a middlebox does to a connection whose far side is gone."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import anyio
from anyio import abc

Dial = Callable[[], Awaitable[abc.ByteStream]]


class TcpProxy:
    """Listens on 127.0.0.1:`port` and forwards to what `dial` connects to.

    While `silent`, connections are accepted and bytes swallowed both ways, and nothing is ever closed.
    """

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._tasks = anyio.create_task_group()
        self._open: set[abc.ByteStream] = set()
        self.silent = False
        self.port = 0

    @property
    def connections(self) -> int:
        """Client connections that are open now."""
        return len(self._open)

    async def __aenter__(self) -> Self:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self.port = listener.extra(abc.SocketAttribute.local_port)
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._listen, listener)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._tasks.cancel_scope.cancel()
        return await self._tasks.__aexit__(kind, error, trace)

    async def _listen(self, listener: abc.Listener[abc.SocketStream]) -> None:
        async with listener:
            await listener.serve(self._serve)

    async def _serve(self, client: abc.ByteStream) -> None:
        self._open.add(client)
        try:
            async with client:
                if self.silent:
                    await self._swallow(client)
                    return
                try:
                    dialled = await self._dial()
                except OSError:
                    return  # nobody is there: the client's connection ends
                async with dialled as server, anyio.create_task_group() as ways:
                    ways.start_soon(self._forward, server, client, ways)
                    await self._forward(client, server, ways)
        finally:
            self._open.discard(client)

    async def _forward(self, source: abc.ByteStream, sink: abc.ByteStream, ways: abc.TaskGroup) -> None:
        try:
            while True:
                data = await source.receive()
                if not self.silent:
                    await sink.send(data)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            ways.cancel_scope.cancel()

    async def _swallow(self, client: abc.ByteStream) -> None:
        try:
            while True:
                await client.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return


class UnixStream(abc.ByteStream):
    """A Unix socket as asyncio serves it. anyio's own waits by a callback that fails loudly when its task is cancelled in the same turn."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        try:
            data = await self._reader.read(max_bytes)
        except OSError as error:
            raise anyio.BrokenResourceError from error
        if not data:
            raise anyio.EndOfStream
        return data

    async def send(self, item: bytes) -> None:
        try:
            self._writer.write(item)
            await self._writer.drain()
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def send_eof(self) -> None:
        self._writer.write_eof()

    async def aclose(self) -> None:
        self._writer.close()


async def to_postgres(socket_folder: str) -> abc.ByteStream:
    """A connection to the server whose Unix socket is in `socket_folder`. asyncio only."""
    return UnixStream(*await asyncio.open_unix_connection(f"{socket_folder}/.s.PGSQL.5432"))
