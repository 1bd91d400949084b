"""The server: uvicorn, with a drain of our own in place of its signal handling."""

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
import uvicorn
from starlette.types import ASGIApp

from gateway.connection import Connection
from gateway.open_answers import OpenAnswers

log = logging.getLogger(__name__)

LAST_WORDS_S = 3.0  # after the grace, for `failed` and `done` to reach clients that still read
CANCEL_S = 5  # after that uvicorn waits so long for connections, then cancels what is left
CLEANUP_S = 3.0  # for cancelled requests to close what they hold
KEEP_ALIVE_S = 30
DATE_S = 1.0  # so old at most is what responses say of the time, in whole seconds
BACKLOG = 2048


class PortInUse(Exception):
    """Raised when the address to listen on is taken, or is none of this machine's; the message says which."""


class Server(uvicorn.Server):
    """Serves until told to stop. It touches no signal and no state of the process: several may run in one.

    `stop` begins the drain: readiness goes false and new questions are turned away, while connections are still accepted, so that a load
    balancer sees it; open answers finish within the grace; the others end with `failed` and `done`; then the server exits.
    `stop_now` exits at once. Both may be called from any task of the server's loop.
    """

    def __init__(
        self, app: ASGIApp, open_answers: OpenAnswers, grace_s: float, on_start: Callable[[], None] | None = None
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # nobody here asks where a request came from
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=CANCEL_S,
            )
        )
        self._open_answers = open_answers
        self._grace_s = grace_s
        self._on_start = on_start
        self._stop = anyio.Event()
        self._leave = anyio.Event()

    async def run_until_stopped(self, listener: socket.socket) -> None:
        """Serves on `listener` (bound; closed at the end). Returns when stopped and every connection is closed or cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._drain)
            try:
                await self.serve(sockets=[listener])
            finally:
                await self._cancel_what_is_left()
            tasks.cancel_scope.cancel()

    def stop(self) -> None:
        self._stop.set()

    def stop_now(self) -> None:
        self.force_exit = True
        self._exit()

    async def main_loop(self) -> None:
        """As uvicorn's, which looks ten times a second whether it is to exit: this one is told, and wakes once a second for the date."""
        while not await self.on_tick(0):
            with anyio.move_on_after(DATE_S):
                await self._leave.wait()

    def _exit(self) -> None:
        self.should_exit = True
        self._leave.set()

    async def _cancel_what_is_left(self) -> None:
        """After an orderly end there is nothing; a forced or cancelled one has uvicorn leave sockets and requests behind."""
        for server in getattr(self, "servers", ()):
            server.close()
        for connection in tuple(self.server_state.connections):
            connection.shutdown()
        for task in tuple(self.server_state.tasks):
            task.cancel()
        with anyio.move_on_after(CLEANUP_S, shield=True):
            while self.server_state.tasks:  # noqa: ASYNC110  uvicorn tells nobody when one ends
                await anyio.sleep(0.01)

    async def _drain(self) -> None:
        await self._stop.wait()
        if self._open_answers.count:
            log.info("draining %d open answers, %g s at most", self._open_answers.count, self._grace_s)
        await self._open_answers.drain(self._grace_s, LAST_WORDS_S)
        self._exit()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._on_start is not None:
            self._on_start()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Captures none: serve.py listens for signals from the first moment on, also before there is a server."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """A socket bound to `host` and `port` (0: any free one). Raises PortInUse."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise PortInUse(f"cannot listen on {host}: {error.strerror or error}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise PortInUse(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return listener
