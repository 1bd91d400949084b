"""Rules that no schema knows: what a pod may do, how long it may take to stop, and that every name exists where it is meant to."""

import re
from itertools import chain

import pytest

from gateway import decision_log, server, telemetry, waste_shares
from gateway.keeping import keeper
from gateway.observing.metric_names import OURS, Kind
from gateway.settings import PREFIX, Settings
from gateway.shedding import shedding
from tests.support.manifests import (
    COMPONENTS,
    K8S,
    OVERLAYS,
    ROOT,
    Resource,
    of_kind,
    our_pods,
    overlay,
    pods,
    settings_of,
    the,
)

SERIES = {f"{one.exposed}_total" if one.kind is Kind.COUNTER else one.exposed for one in OURS}
VARIABLES = {PREFIX + name.upper() for name in Settings.model_fields} | {
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "GATEWAY_CONFIG",
}

every_overlay = pytest.mark.parametrize("name", OVERLAYS)


def deployment(name: str) -> Resource:
    return the(overlay(name), "Deployment", "optimistic-gateway")


def spec_of(name: str) -> Resource:
    spec: Resource = deployment(name)["spec"]["template"]["spec"]
    return spec


@every_overlay
def test_every_container_has_limits_a_tag_and_no_rights(name: str) -> None:
    for workload, spec in pods(overlay(name)):
        for container in chain(spec["containers"], spec.get("initContainers", ())):
            where = f"{workload} {container['name']}"
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys(), where
            assert "memory" in container["resources"]["limits"], where
            _, _, tag = container["image"].partition(":")
            assert re.search(r"\d", tag), f"{where}: {container['image']}"
            rights = container["securityContext"]
            assert rights["allowPrivilegeEscalation"] is False, where
            assert rights["readOnlyRootFilesystem"] is True, where
            assert rights["capabilities"] == {"drop": ["ALL"]}, where
        assert spec["securityContext"]["runAsNonRoot"] is True, workload
        assert spec["securityContext"]["runAsUser"] > 0, workload
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, workload


@every_overlay
def test_gateway_pods_have_no_token_no_service_variables_and_one_place_to_write(name: str) -> None:
    found = list(our_pods(overlay(name)))
    assert {workload for workload, _ in found} == {"Deployment optimistic-gateway", "Job gateway-migrate"}
    for workload, spec in found:
        assert spec["automountServiceAccountToken"] is False, workload
        assert spec["enableServiceLinks"] is False, workload
        (container,) = spec["containers"]
        assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"], workload
        assert all("emptyDir" in volume and volume["emptyDir"]["sizeLimit"] for volume in spec["volumes"]), workload
        assert {"cpu", "memory"} <= container["resources"]["limits"].keys(), workload


@every_overlay
def test_probes_ask_the_loop_whether_it_lives_and_the_server_whether_it_serves(name: str) -> None:
    (container,) = spec_of(name)["containers"]
    asked = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
    assert asked == {"startup": "/readyz", "liveness": "/healthz", "readiness": "/readyz"}
    (port,) = container["ports"]
    assert str(port["containerPort"]) == settings_of(overlay(name))["GATEWAY_PORT"]
    start = container["startupProbe"]
    assert start["periodSeconds"] * start["failureThreshold"] >= 60


@every_overlay
def test_grace_is_the_sum_that_the_readme_says(name: str) -> None:
    text = (K8S / "README.md").read_text()
    table = text[text.index("# How long a pod may take to stop") :].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \|", table, re.MULTILINE)
    told = {part.split(";")[0]: int(seconds) for part, seconds in rows}
    total = told.pop("all of it")
    assert sum(told.values()) == total == spec_of(name)["terminationGracePeriodSeconds"]
    settings = settings_of(overlay(name))
    assert told == {
        "load balancers learn of it": spec_of(name)["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"],
        "open answers finish": int(settings["GATEWAY_DRAIN_GRACE_S"]),
        "last words to clients that still read": server.LAST_WORDS_S,
        "connections close": server.CANCEL_S,
        "cancelled requests clean up": server.CLEANUP_S,
        "the end of kept answers is shared": keeper.LAST_SHARE_S,
        "the decision log is written": decision_log.LAST_LIMIT_S,
        "shares of discarded tokens are given back": waste_shares.LAST_LIMIT_S,
        "spans are sent": telemetry.FLUSH_LIMIT_S,
        "margin": told["margin"],
    }
    assert told["margin"] >= 5
    assert int(settings["GATEWAY_DRAIN_GRACE_S"]) >= int(settings["GATEWAY_DEADLINE_S"])


@every_overlay
def test_no_replica_goes_before_another_is_there(name: str) -> None:
    assert deployment(name)["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    budget = the(overlay(name), "PodDisruptionBudget", "optimistic-gateway")["spec"]
    assert budget["maxUnavailable"] == 1
    keys = {spread["topologyKey"] for spread in spec_of(name)["topologySpreadConstraints"]}
    assert keys == {"topology.kubernetes.io/zone", "kubernetes.io/hostname"}


@every_overlay
def test_every_variable_is_a_setting_and_all_of_them_are_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(overlay(name))
    named = {one["name"] for _, spec in our_pods(overlay(name)) for one in spec["containers"][0].get("env", ())}
    ours = {variable for variable in settings | dict.fromkeys(named) if not variable.startswith("OTEL_")}
    assert ours <= VARIABLES
    for variable in [*settings, "GATEWAY_API_KEYS", "GATEWAY_DATABASE_URL"]:
        monkeypatch.setenv(variable, settings.get(variable, "postgresql://k"))
    read = Settings()
    assert read.bounds().streams == int(settings["GATEWAY_MAX_STREAMS"])
    assert read.shares_recordings


def test_variables_that_the_readme_has_a_secret_for_are_settings() -> None:
    named = set(re.findall(r"--from-literal=(\w+)=", (K8S / "README.md").read_text()))
    assert named
    assert named <= VARIABLES


@every_overlay
def test_no_service_is_named_so_that_it_would_set_a_variable_of_ours(name: str) -> None:
    for service in of_kind(overlay(name), "Service"):
        made = service["metadata"]["name"].upper().replace("-", "_")
        assert not {f"{made}_PORT", f"{made}_SERVICE_HOST"} & VARIABLES, made
        assert made != "GATEWAY"


@every_overlay
def test_services_and_policies_choose_pods_that_exist(name: str) -> None:
    resources = overlay(name)
    labels = [
        one["spec"]["template"]["metadata"]["labels"] for one in of_kind(resources, "Deployment", "Job", "StatefulSet")
    ]
    selectors = [service["spec"]["selector"] for service in of_kind(resources, "Service")]
    selectors += [budget["spec"]["selector"]["matchLabels"] for budget in of_kind(resources, "PodDisruptionBudget")]
    selectors += [one["spec"]["selector"]["matchLabels"] for one in of_kind(resources, "PodMonitor")]
    for selector in selectors:
        assert any(selector.items() <= one.items() for one in labels), selector


def scalers() -> list[tuple[str, Resource]]:
    return [
        (name, one) for name in OVERLAYS for one in of_kind(overlay(name), "HorizontalPodAutoscaler", "ScaledObject")
    ]


def test_scaling_is_by_metrics_that_exist_open_answers_and_waiting_ones() -> None:
    rules = (K8S / "components" / "scale-on-streams" / "adapter-rules.yaml").read_text()
    (made,) = re.findall(r"name: \{as: (\w+)\}", rules)
    wanted = {"gateway_answers_open", "gateway_answers_waiting"}
    assert set(re.findall(r"\bgateway_\w+", rules)) - {made} == wanted
    assert wanted <= SERIES
    kinds = set()
    for _, scaler in scalers():
        kinds.add(scaler["kind"])
        if scaler["kind"] == "ScaledObject":
            query = scaler["spec"]["triggers"][0]["metadata"]["query"]
            assert set(re.findall(r"\bgateway_\w+", query)) == wanted
        else:
            assert [metric["pods"]["metric"]["name"] for metric in scaler["spec"]["metrics"]] == [made]
    assert kinds == {"HorizontalPodAutoscaler", "ScaledObject"}


def test_a_replica_is_added_before_anything_is_held_back_or_turned_away() -> None:
    for name, scaler in scalers():
        settings = settings_of(overlay(name))
        if scaler["kind"] == "ScaledObject":
            target = int(scaler["spec"]["triggers"][0]["metadata"]["threshold"])
        else:
            target = int(scaler["spec"]["metrics"][0]["pods"]["target"]["averageValue"])
        busy, most = int(settings["GATEWAY_BUSY_STREAMS"]), int(settings["GATEWAY_MAX_STREAMS"])
        assert target < busy < most
        shown = dict(re.findall(r"^\| ([^|]+) \| (\d+)", (ROOT / "docs" / "scaling.md").read_text(), re.MULTILINE))
        assert int(shown["replicas are added above"]) == target
        assert int(shown["`GATEWAY_BUSY_STREAMS`"]) == busy
        assert int(shown["half way from there to the next"]) == shedding(most, busy).looking_ahead_above
        assert int(shown["`GATEWAY_MAX_STREAMS`"]) == most
        assert int(shown["`GATEWAY_WAITING_STREAMS`"]) == int(settings["GATEWAY_WAITING_STREAMS"])


@every_overlay
def test_database_bears_all_replicas_and_one_more(name: str) -> None:
    (cluster,) = of_kind(overlay(name), "Cluster")
    most = max(
        [one["spec"].get("maxReplicas", one["spec"].get("maxReplicaCount")) for at, one in scalers() if at == name]
        or [deployment(name)["spec"]["replicas"]]
    )
    held = (most + 1) * int(settings_of(overlay(name))["GATEWAY_POOL_SIZE"]) + 1  # the migration's
    kept_free = 20  # the operator's, replication's, a person's
    assert held + kept_free <= int(cluster["spec"]["postgresql"]["parameters"]["max_connections"])
    assert "CREATE EXTENSION IF NOT EXISTS vector" in cluster["spec"]["bootstrap"]["initdb"]["postInitApplicationSQL"]


@every_overlay
def test_address_of_the_database_comes_from_the_operators_secret(name: str) -> None:
    (cluster,) = of_kind(overlay(name), "Cluster")
    for workload, spec in our_pods(overlay(name)):
        (variable,) = [one for one in spec["containers"][0]["env"] if one["name"] == "GATEWAY_DATABASE_URL"]
        assert variable["valueFrom"]["secretKeyRef"] == {"name": f"{cluster['metadata']['name']}-app", "key": "uri"}, (
            workload
        )


def test_ways_in_have_no_time_limit_on_an_answer_and_do_not_buffer() -> None:
    for name in OVERLAYS:
        for route in of_kind(overlay(name), "HTTPRoute"):
            for rule in route["spec"]["rules"]:
                assert rule["timeouts"] == {"request": "0s", "backendRequest": "0s"}
                assert {backend["name"] for backend in rule["backendRefs"]} == {"answers"}
    text = (K8S / "components" / "ingress" / "ingress.yaml").read_text()
    assert 'proxy-buffering: "off"' in text
    (silence,) = re.findall(r'proxy-read-timeout: "(\d+)"', text)
    assert int(silence) >= 4 * Settings.model_fields["ping_s"].default
    (megabytes,) = re.findall(r"proxy-body-size: (\d+)m", text)
    assert int(megabytes) * 1024 * 1024 >= Settings.model_fields["upload_bytes"].default


@every_overlay
def test_namespace_enforces_the_restricted_policy_and_no_secret_is_in_a_file(name: str) -> None:
    (namespace,) = of_kind(overlay(name), "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert of_kind(overlay(name), "Secret") == []


def test_components_are_all_used_or_said_to_be_an_alternative() -> None:
    used = set()
    for name in OVERLAYS:
        used |= set(re.findall(r"components/([\w-]+)", (K8S / "overlays" / name / "kustomization.yaml").read_text()))
    assert set(COMPONENTS) - used == {"ingress"}


@every_overlay
def test_prometheus_of_the_overlay_asks_services_that_exist_at_their_ports(name: str) -> None:
    for config in of_kind(overlay(name), "ConfigMap"):
        if not config["metadata"]["name"].startswith("prometheus-config"):
            continue
        text = config["data"]["prometheus.yml"]
        asked = re.findall(r"names: \[([\w-]+)\], type: A, port: (\d+)", text) + re.findall(
            r'\["([\w-]+):(\d+)"\]', text
        )
        assert ("answers-replicas", "8080") in asked
        for service, port in asked:
            ports = {one["port"] for one in the(overlay(name), "Service", service)["spec"]["ports"]}
            assert int(port) in ports, service
