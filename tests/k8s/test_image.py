"""The image: what it is made of, as far as that can be known without a container; the wheel that goes into it holds every file."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from tests.support.manifests import OVERLAYS, ROOT, our_pods, overlay

CONTAINERFILE = (ROOT / "Containerfile").read_text()
BUILD, RUN = re.split(r"^FROM .*$", CONTAINERFILE, flags=re.MULTILINE)[1:]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_last_stage_runs_as_nobody_and_brings_no_tool_that_installs_or_builds() -> None:
    assert re.search(r"^USER 10001:10001$", RUN, re.MULTILINE)
    assert "COPY --from=build /opt/gateway /opt/gateway" in RUN
    (removed,) = re.findall(r"^RUN python -m pip uninstall (.*)$", RUN, re.MULTILINE)
    assert {"pip", "setuptools", "wheel"} <= set(removed.split())
    assert not re.search(r"apt-get|(?<!un)install ", RUN)
    (taken_out,) = re.findall(r"uninstall --yes (.*?) \\$", BUILD, re.MULTILINE)
    built_with = {re.split(r"[>=]", one)[0] for one in PYPROJECT["dependency-groups"]["build"]}
    assert built_with <= set(taken_out.split())


def test_base_images_and_packages_are_pinned() -> None:
    (python,) = re.findall(r"^ARG PYTHON=(.*)$", CONTAINERFILE, re.MULTILINE)
    assert re.fullmatch(r"3\.\d+-slim-\w+", python)
    assert "latest" not in CONTAINERFILE
    assert BUILD.count("--require-hashes") == 2


def test_user_and_version_are_those_of_the_manifests() -> None:
    for name in OVERLAYS:
        for _, spec in our_pods(overlay(name)):
            assert spec["securityContext"]["runAsUser"] == 10001
            assert spec["containers"][0]["image"] == f"optimistic-gateway:{PYPROJECT['project']['version']}"


def test_builder_is_sent_what_is_copied_and_nothing_else() -> None:
    copied = {
        one.rstrip("/")
        for line in re.findall(r"^COPY (?!--from)(.*)$", BUILD, re.MULTILINE)
        for one in line.split()[:-1]
    }
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert {re.sub(r"^requirements/\w+\.lock$", "requirements/*.lock", one) for one in copied} == kept


def test_wheel_holds_every_file_of_the_packages(tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    packages = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    tracked = subprocess.run(
        ["git", "ls-files", *packages], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert set(tracked.split("\n")) - {""} <= inside
