"""A Postgres of one's own: started for whoever needs it first, stopped by whoever leaves last."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from anyio import CancelScope, to_thread

from retrieval.cluster import Cluster
from retrieval.faults import DatabaseMissing

LOCK_LIMIT_S = 90.0  # another process may be initialising

LAST_LOOKS = 4  # the watcher holds the lock for an instant when it wakes; a user holds it for as long as it lives

# Sleeps, in 8 MB, until nobody holds the first lock; a server that stopped as it should leaves no second file, so nothing is to be done.
_WATCH = """
import fcntl, os, sys
users, lock_file, home, python = sys.argv[1:]
fcntl.flock(os.open(users, os.O_RDWR), fcntl.LOCK_EX)
if os.path.exists(lock_file):
    program = "import sys, pathlib, retrieval.embedded as e; e.EmbeddedPostgres(pathlib.Path(sys.argv[1])).tidy()"
    os.execv(python, [python, "-c", program, home])
"""


class EmbeddedPostgres:
    """A server whose files live under `home`; several processes may share one home, the last to leave stops the server.

    `async with EmbeddedPostgres(home) as url` gives its address. A process that is killed counts as having left: a small watcher
    beside the server then stops it, unless somebody has come meanwhile, who takes it over. Raises DatabaseMissing when the wheel is
    absent or the server does not start. Entering and leaving are not interrupted half-way by cancellation: they end within
    START_LIMIT_S and are clean.
    """

    def __init__(self, home: Path) -> None:
        self._home = home.expanduser().absolute() / "postgres"
        self._users = self._home / "users.lock"
        self._server: Cluster | None = None
        self._using: int | None = None

    async def __aenter__(self) -> str:
        return await to_thread.run_sync(self._enter)  # a thread is waited for, also by a task that is cancelled

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with CancelScope(shield=True):
            await to_thread.run_sync(self._leave)

    def _enter(self) -> str:
        try:
            self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._turn():
                self._using = os.open(self._users, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                fcntl.flock(self._using, fcntl.LOCK_SH)  # dies with this process, however it dies
                try:
                    self._server = Cluster(self._home)
                    if self._server.start():
                        self._watch(self._server)
                except BaseException:
                    self._stop_if_last()
                    raise
        except (OSError, subprocess.SubprocessError) as error:
            raise DatabaseMissing(f"the embedded database under {self._home} does not start: {error}") from error
        return self._server.url

    def _leave(self) -> None:
        with self._turn():
            self._stop_if_last()

    def _stop_if_last(self) -> None:
        assert self._using is not None
        try:
            if self._server is not None and self._is_unused(self._using):
                self._server.stop()
        finally:
            os.close(self._using)
            self._using = None

    def _is_unused(self, users: int) -> bool:
        """Whether nobody else uses the server, now and, as this process has the turn, until it has been stopped."""
        for _ in range(LAST_LOOKS):
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                time.sleep(0.02)
        return False

    def _watch(self, server: Cluster) -> None:
        """Leaves a watcher behind, adopted by the system at once, so that it is nobody's child and outlives whoever is killed."""
        watch = (
            sys.executable,
            "-I",
            "-S",
            "-c",
            _WATCH,
            self._users,
            server.lock_file,
            self._home.parent,
            sys.executable,
        )
        command = ["/bin/sh", "-c", '"$@" &', "sh", *map(str, watch)]
        nowhere = subprocess.DEVNULL
        subprocess.run(
            command, check=True, start_new_session=True, cwd="/", stdin=nowhere, stdout=nowhere, stderr=nowhere
        )

    def tidy(self) -> None:
        """Stops a server whose users were all killed. Blocks; run by the watcher."""
        with self._turn():
            users = os.open(self._users, os.O_RDWR | os.O_CLOEXEC)
            try:
                server = Cluster(self._home)
                if self._is_unused(users):
                    server.stop()
                else:
                    self._watch(server)
            finally:
                os.close(users)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Alone at starting and stopping among all processes of this home."""
        turn = os.open(self._home / "start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + LOCK_LIMIT_S
            while True:
                try:
                    fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"another process has been starting it for {LOCK_LIMIT_S:g} s") from None
                    time.sleep(0.02)
            yield
        finally:
            os.close(turn)
