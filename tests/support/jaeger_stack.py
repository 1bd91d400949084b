"""Jaeger and Prometheus as k8s/components/observability sets them up, on this machine: for tests, and for a person (`make jaeger`)."""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "k8s" / "components" / "observability"
BUILD = ROOT / "tests/support/jaeger/build.sh"
START_LIMIT_S = 60.0
STOP_LIMIT_S = 15.0
HOW = "install Debian's package `prometheus`"


@dataclass(frozen=True, slots=True)
class Stack:
    """Where the parts listen."""

    otlp: str
    jaeger: str
    prometheus: str

    def traces(self, **query: str) -> list[dict[str, Any]]:
        """The traces that Jaeger's API finds."""
        return list(fetched(f"{self.jaeger}/api/traces?{urllib.parse.urlencode(query)}")["data"] or [])

    def latency_s(self, operation: str, quantile: float, lookback_s: float, **query: str) -> float:
        """What Jaeger's latency view shows of an operation: its highest point in the time looked at, in seconds."""
        asked = {
            "service": "optimistic-gateway",
            "quantile": str(quantile),
            "groupByOperation": "true",
            "endTs": str(int(time.time() * 1000)),
            "lookback": str(int(lookback_s * 1000)),
            "step": "1000",
            "ratePer": str(int(lookback_s * 1000)),
            **query,
        }
        body = fetched(f"{self.jaeger}/api/metrics/latencies?{urllib.parse.urlencode(asked, doseq=True)}")
        for each in body["metrics"]:
            if {label["name"]: label["value"] for label in each["labels"]}.get("operation") == operation:
                points = [point["gaugeValue"]["doubleValue"] for point in each["metricPoints"]]
                numbers = [float(point) for point in points if str(point) != "NaN"]
                return numbers[-1] / 1000
        raise AssertionError(f"Jaeger has no latencies of {operation}: {body}")


def fetched(url: str) -> dict[str, Any]:
    """The JSON at an address."""
    with urllib.request.urlopen(url, timeout=30) as response:
        body = json.load(response)
    assert isinstance(body, dict)
    return body


@contextmanager
def stack(gateways: tuple[str, ...] = (), ports: Mapping[str, int] | None = None, every: str = "1s") -> Iterator[Stack]:
    """Both, running inside the block; Prometheus reads the metrics of `gateways` (host:port) as well. Raises FileNotFoundError."""
    if shutil.which("prometheus") is None:
        raise FileNotFoundError(HOW)
    program = jaeger()
    at = {name: f"127.0.0.1:{(ports or {}).get(name) or free_port()}" for name in PLACES}
    with tempfile.TemporaryDirectory(prefix="gateway-jaeger-") as folder, ExitStack() as running:
        config = Path(folder) / "prometheus.yml"
        config.write_text(prometheus_config(at["spans"], gateways, every))
        shutil.copy(FILES / "rules.yml", folder)
        running.enter_context(
            process(
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address={at['prometheus']}",
                "--enable-feature=exemplar-storage",
                "--log.level=warn",
            )
        )
        wait_for(f"http://{at['prometheus']}/-/ready")
        running.enter_context(
            process(program, "--config", str(FILES / "jaeger.yaml"), environment=environment(at, every))
        )
        wait_for(f"http://{at['health']}/status")
        yield Stack(*(f"http://{at[name]}" for name in ("otlp", "query", "prometheus")))


def jaeger() -> str:
    """The program, built where the cache lacks it, which says on stderr how far it is. Raises FileNotFoundError where it cannot be."""
    built = subprocess.run(["sh", str(BUILD)], stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode != 0:
        raise FileNotFoundError("Jaeger could not be built: see above")
    return built.stdout.strip()


PLACES = ("otlp", "query", "grpc", "health", "spans", "prometheus")
USUAL = {"otlp": 4318, "query": 16686, "prometheus": 9090}  # for a person


def environment(at: Mapping[str, str], every: str) -> dict[str, str]:
    """What jaeger.yaml reads."""
    return {
        "JAEGER_OTLP": at["otlp"],
        "JAEGER_QUERY": at["query"],
        "JAEGER_QUERY_GRPC": at["grpc"],
        "JAEGER_HEALTH": at["health"],
        "SPAN_METRICS": at["spans"],
        "SPAN_METRICS_EVERY": every,
        "SAMPLING_WAIT": "5s",
        "PROMETHEUS_URL": f"http://{at['prometheus']}",
    }


REPLICAS = (
    "dns_sd_configs: # every replica by its own address\n      - {names: [answers-replicas], type: A, port: 8080}"
)


def prometheus_config(spans: str, gateways: tuple[str, ...], every: str) -> str:
    """The file of the component, with the addresses of this machine."""
    text = (FILES / "prometheus.yml").read_text()
    for old, new in (
        ('["jaeger:8889"]', json.dumps([spans])),
        (REPLICAS, f"static_configs:\n      - targets: {json.dumps(list(gateways))}"),
        (": 15s", f": {every}"),
    ):
        assert old in text
        text = text.replace(old, new)
    return text


@contextmanager
def process(*command: str, environment: Mapping[str, str] | None = None) -> Iterator[None]:
    """A process inside the block, in a group of its own."""
    started = subprocess.Popen(
        command, env={**os.environ, **(environment or {})}, start_new_session=True, stdin=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        started.send_signal(signal.SIGTERM)
        try:
            started.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def wait_for(url: str) -> None:
    """Returns when something answers there with success."""
    limit = time.monotonic() + START_LIMIT_S
    while time.monotonic() < limit:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise TimeoutError(f"nothing answered at {url} within {START_LIMIT_S:g} s")


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def main() -> None:
    """Runs both until interrupted, and says where they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gateway", default="127.0.0.1:8080", help="host:port of the gateway whose metrics are read")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both end in order
    with stack((given.gateway,), USUAL, "5s") as running:
        print(f"Jaeger's API  {running.jaeger}\nPrometheus    {running.prometheus}")
        print(f"Now: OTEL_EXPORTER_OTLP_ENDPOINT={running.otlp} OTEL_METRICS_EXPORTER=none make run", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
