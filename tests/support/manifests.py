"""What `kubectl kustomize` makes of the folder k8s/: the resources of an overlay, or of a component on the base."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

Resource = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
K8S = ROOT / "k8s"
OVERLAYS = sorted(path.name for path in (K8S / "overlays").iterdir())
COMPONENTS = sorted(path.name for path in (K8S / "components").iterdir())


@cache
def overlay(name: str) -> tuple[Resource, ...]:
    """The resources of an overlay."""
    return built(K8S / "overlays" / name)


def component(name: str, folder: Path) -> tuple[Resource, ...]:
    """The resources of the base with one component; `folder` is empty and the caller's."""
    folder = folder.resolve()
    kustomization = {
        "resources": [os.path.relpath(K8S / "base", folder)],
        "components": [os.path.relpath(K8S / "components" / name, folder)],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return built(folder)


def built(folder: Path) -> tuple[Resource, ...]:
    """What kubectl makes of `folder`. Skips the test where there is no kubectl; where all clients have to be there, fails it."""
    program = shutil.which("kubectl")
    if program is None:
        message = "kubectl is not installed here: install version 1.30 or newer, no cluster is needed"
        if os.environ.get("TEST_CLIENTS") == "all":
            pytest.fail(message)
        pytest.skip(message)
    made = subprocess.run([program, "kustomize", str(folder)], capture_output=True, text=True, timeout=60, check=False)
    assert made.returncode == 0, made.stderr
    return tuple(yaml.load_all(made.stdout, yaml.CSafeLoader))


def of_kind(resources: tuple[Resource, ...], *kinds: str) -> list[Resource]:
    return [one for one in resources if one["kind"] in kinds]


def the(resources: tuple[Resource, ...], kind: str, name: str) -> Resource:
    """The one resource of that kind and name; a hash at the end of its name does not count."""
    found = [one for one in of_kind(resources, kind) if one["metadata"]["name"].startswith(name)]
    assert len(found) == 1, f"{kind} {name}: {len(found)}"
    return found[0]


def pods(resources: tuple[Resource, ...]) -> Iterator[tuple[str, Resource]]:
    """The pod specs, with the names of the workloads they are of."""
    for one in of_kind(resources, "Deployment", "Job", "StatefulSet", "DaemonSet"):
        yield f"{one['kind']} {one['metadata']['name']}", one["spec"]["template"]["spec"]


def our_pods(resources: tuple[Resource, ...]) -> Iterator[tuple[str, Resource]]:
    """The pod specs that run the gateway's own image."""
    for name, spec in pods(resources):
        if any(container["image"].split(":")[0].endswith("optimistic-gateway") for container in spec["containers"]):
            yield name, spec


def settings_of(resources: tuple[Resource, ...]) -> dict[str, str]:
    """The environment that the ConfigMap gives the gateway."""
    data: dict[str, str] = the(resources, "ConfigMap", "gateway-settings")["data"]
    return data
