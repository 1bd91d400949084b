"""What Kubernetes is given to watch a gateway by: rules that promtool proves, a dashboard and buckets that fit the metrics."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.observing import conventions
from gateway.observing.metric_names import ALWAYS_SHOWN, BUCKETS_S, OURS, PATHS, Kind
from tests.support.jaeger_stack import prometheus_config

FILES = Path(__file__).resolve().parents[2] / "k8s" / "components" / "observability"
RULES = (FILES / "rules.yml").read_text()
DASHBOARD = json.loads((FILES / "dashboard.json").read_text())
ALARMS = re.findall(r"- alert: (\w+)", RULES)
RECORDS = set(re.findall(r"- record: ([\w:]+)", RULES))
SERIES = {
    name
    for metric in OURS
    for name in (
        [f"{metric.exposed}{ending}" for ending in ("_bucket", "_count", "_sum")]
        if metric.kind is Kind.HISTOGRAM
        else [f"{metric.exposed}_total" if metric.kind is Kind.COUNTER else metric.exposed]
    )
}


def expressions() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"\bgateway[\w:]+", expression))


@pytest.mark.parametrize("expression", [*expressions(), RULES], ids=lambda text: text[:60])
def test_every_name_in_the_dashboard_and_the_rules_is_one_that_exists(expression: str) -> None:
    assert names_in(expression) <= SERIES | RECORDS
    assert names_in(expression)


def test_every_metric_of_ours_is_on_the_dashboard() -> None:
    shown = {name for expression in expressions() for name in names_in(expression)}
    recorded = {
        name for record in shown & RECORDS for name in names_in(RULES.split(f"record: {record}\n")[1].split("- ")[0])
    }
    families = {re.sub(r"_(bucket|count|sum|total)$", "", name) for name in shown | recorded}
    assert {metric.exposed for metric in OURS} - families == set()


def test_values_of_labels_in_the_rules_are_of_their_closed_sets() -> None:
    assert set(re.findall(r'path!?="(\w+)"', RULES + "".join(expressions()))) <= PATHS
    bounds = {float(bound) for bound in re.findall(r'le="([\d.]+)"', RULES)}
    assert bounds
    assert bounds <= set(BUCKETS_S)


def test_what_the_alarms_watch_is_there_before_the_first_answer() -> None:
    lazy = {"gateway_telemetry_spans_lost_total"}  # only where spans are exported at all
    watched = {re.sub(r"_(bucket|count|sum|total)$", "", name) for name in names_in(RULES) - lazy if ":" not in name}
    assert watched <= {metric.exposed for metric in ALWAYS_SHOWN}


def test_jaeger_counts_in_the_buckets_of_the_metrics_by_attributes_that_exist() -> None:
    text = (FILES / "jaeger.yaml").read_text()
    (told,) = re.findall(r"buckets: \[(.*?)\]", text)
    units = {"ms": 0.001, "s": 1.0}
    seconds = [float(n) * units[unit] for n, unit in re.findall(r"([\d.]+)(ms|s)", told)]
    assert seconds == pytest.approx(BUCKETS_S)
    dimensions = re.findall(r"- name: (gateway\.\w+)", text)
    assert dimensions == [conventions.PATH, conventions.VERDICT, conventions.CORRECTION]
    (kept,) = re.findall(r"key: gateway\.path\n\s+values: \[(.*?)\]", text)
    assert set(kept.split(", ")) == PATHS - {"clean"}


def test_every_alarm_is_tested_to_fire_and_to_stay_quiet() -> None:
    tested = (FILES / "rules_test.yml").read_text()
    assert ALARMS
    for alarm in ALARMS:
        cases = re.findall(rf"alertname: {alarm}\n(\s+exp_alerts)?", tested)
        assert any(cases), f"{alarm} is never shown to fire"
        assert not all(cases), f"{alarm} is never shown to stay quiet"


needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool comes with Debian's prometheus")


def promtool(*arguments: str, folder: Path = FILES) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *arguments], cwd=folder, capture_output=True, text=True, timeout=55, check=False)


@needs_promtool
def test_alarms_fire_and_stay_quiet_as_promtool_sees_it() -> None:
    done = promtool("test", "rules", "rules_test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_configuration_of_prometheus_is_one(tmp_path: Path) -> None:
    shutil.copy(FILES / "rules.yml", tmp_path)
    (tmp_path / "prometheus.yml").write_text(prometheus_config("127.0.0.1:1", ("127.0.0.1:2",), "5s"))
    for folder in (FILES, tmp_path):
        done = promtool("check", "config", "prometheus.yml", folder=folder)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_component_builds(tmp_path: Path) -> None:
    shutil.copytree(FILES, tmp_path / "observability")
    (tmp_path / "kustomization.yaml").write_text("components: [observability]\n")
    done = subprocess.run(
        ["kubectl", "kustomize", str(tmp_path)], capture_output=True, text=True, timeout=55, check=False
    )
    assert done.returncode == 0, done.stderr
    for name in ("jaeger", "prometheus", "jaeger-config-", "prometheus-config-", "gateway-dashboard-"):
        assert f"name: {name}" in done.stdout
