"""What tests/clients/install.sh has put into the user's cache folder: where it is, or that a test has to go without it."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest

CLIENTS = Path(__file__).resolve().parents[1] / "clients"
HOW = "`make test` installs it, or says why it cannot"


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "optimistic-gateway"


def npm_clients() -> Path:
    """The folder in which Node.js finds the npm packages. Skips the test where there is none."""
    return npm_packages(CLIENTS, "clients")


def custom_resources() -> Path:
    """The folder in which Node.js finds the schemas of custom resources (tests/k8s/install.sh). Skips the test where there is none."""
    return npm_packages(CLIENTS.with_name("k8s"), "custom-resources")


def npm_packages(of: Path, name: str) -> Path:
    """What the package-lock.json of the folder `of` has brought."""
    lock = hashlib.sha256((of / "package-lock.json").read_bytes()).hexdigest()[:16]
    folder = cache() / f"{name}-{lock}"
    if shutil.which("node") is None or not (folder / "node_modules" / ".package-lock.json").exists():
        go_without(f"Node.js with the npm packages of {name}")
    return folder


def nginx() -> str:
    """The path of nginx. Skips the test where there is none."""
    unpacked = cache() / "nginx" / "usr" / "sbin" / "nginx"
    found = str(unpacked) if unpacked.exists() else shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        go_without("nginx")
    return str(found)


def go_without(what: str) -> None:
    """Skips the test; where all clients have to be there (TEST_CLIENTS=all, as in CI) it fails."""
    message = f"{what} is not installed here: {HOW}"
    if os.environ.get("TEST_CLIENTS") == "all":
        pytest.fail(message)
    pytest.skip(message)
