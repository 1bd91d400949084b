"""Every overlay, and every component on the base, builds, and is valid for the oldest and the newest Kubernetes that is supported."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest

from tests.k8s.cluster import wrong_in
from tests.support.installed import custom_resources
from tests.support.manifests import COMPONENTS, K8S, OVERLAYS, Resource, component, of_kind, overlay

OLDEST, NEWEST = "1.32", "1.37"
OF_THEIR_OWN = ("HTTPRoute", "ScaledObject", "PodMonitor")
WITHOUT_SCHEMA = ("Cluster",)  # CloudNativePG's: no registry that we reach has its schema; cluster.py stands in for it
VALIDATE = Path(__file__).with_name("validate.mjs")


def wrong(resources: tuple[Resource, ...], version: str) -> list[str]:
    found = []
    for one in resources:
        if one["kind"] in OF_THEIR_OWN + WITHOUT_SCHEMA:
            continue
        try:
            kubernetes_validate.validate(one, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(f"{one['kind']} {one['metadata']['name']}: {error.message}")
    return found


def wrong_by_their_own(resources: list[Resource]) -> list[str]:
    """What the schemas of custom resources find wrong."""
    node = shutil.which("node")
    assert node is not None
    told = subprocess.run(
        [node, str(VALIDATE)],
        input="\n".join(map(json.dumps, resources)),
        env={**os.environ, "CUSTOM_RESOURCES": str(custom_resources())},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return told.stdout.splitlines()


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("name", OVERLAYS)
def test_every_overlay_is_valid_for_oldest_and_newest_kubernetes(name: str, version: str) -> None:
    assert wrong(overlay(name), version) == []


@pytest.mark.parametrize("name", COMPONENTS)
def test_every_component_can_be_put_on_the_base_alone(name: str, tmp_path: Path) -> None:
    assert wrong(component(name, tmp_path), NEWEST) == []


def test_schemas_find_a_wrong_field_and_a_wrong_kind_of_value() -> None:
    deployment = json.loads(json.dumps(of_kind(overlay("dev"), "Deployment")[0]))
    deployment["spec"]["replica"] = 3
    assert wrong((deployment,), OLDEST)
    del deployment["spec"]["replica"]
    deployment["spec"]["replicas"] = "three"
    assert wrong((deployment,), NEWEST)


def test_custom_resources_are_valid_by_the_schemas_of_their_projects(tmp_path: Path) -> None:
    custom_resources()
    resources = [one for name in OVERLAYS for one in of_kind(overlay(name), *OF_THEIR_OWN)]
    assert {one["kind"] for one in resources} == set(OF_THEIR_OWN)
    assert wrong_by_their_own(resources) == []
    route = json.loads(json.dumps(of_kind(overlay("prod"), "HTTPRoute")[0]))
    route["spec"]["rules"][0]["timeouts"]["request"] = "never"
    assert len(wrong_by_their_own([route])) == 1


def test_database_says_only_what_its_operator_knows() -> None:
    clusters = [one for name in OVERLAYS for one in of_kind(overlay(name), "Cluster")]
    assert clusters
    assert [told for one in clusters for told in wrong_in(one)] == []
    for path, value in (("instances", "three"), ("instance", 3), ("storage", {"size": 20}), ("imageCatalogRef", {})):
        broken = json.loads(json.dumps(clusters[0]))
        broken["spec"][path] = value
        assert wrong_in(broken), path


def test_every_folder_is_named_in_the_readme() -> None:
    text = (K8S / "README.md").read_text()
    assert [name for name in (*OVERLAYS, *COMPONENTS) if f"`{name}`" not in text] == []
    assert f"{OLDEST} to {NEWEST}" in text
