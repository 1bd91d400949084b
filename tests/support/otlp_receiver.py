"""A collector for tests: a real OTLP/HTTP server on loopback that keeps the spans and the names of the metrics it is sent."""

import gzip
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """A span as it came over the wire; ids in hex, `parent_id` empty for a root."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    attributes: dict[str, object]
    resource: dict[str, object]


class OtlpReceiver:
    """Answers every export with `status`, or not at all while `silent`."""

    def __init__(self, silent: bool) -> None:
        self.spans: list[ReceivedSpan] = []
        self.metrics: dict[str, int] = {}
        """How many exemplars with a trace id came with each metric, by its name."""
        self.labels: dict[str, set[str]] = {}
        """The names of the labels of each histogram, by its name."""
        self.requests = 0
        self.silent = silent
        self.status = 200
        self.stopping = threading.Event()
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def wait_until(self, enough: Callable[[list[ReceivedSpan]], bool], within_s: float = 10.0) -> list[ReceivedSpan]:
        """The spans so far, once there are enough. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: enough(self.spans), within_s):
                raise TimeoutError(f"{len(self.spans)} spans within {within_s} s: {[s.name for s in self.spans]}")
            return list(self.spans)

    def take(self, body: bytes) -> None:
        spans = list(_decoded(body))
        with self._changed:
            self.requests += 1
            self.spans.extend(spans)
            self._changed.notify_all()

    def take_metrics(self, body: bytes) -> None:
        for of_resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for metric in (each for of_scope in of_resource.scope_metrics for each in of_scope.metrics):
                points = metric.histogram.data_points
                exemplars = [each for point in points for each in point.exemplars if each.trace_id]
                labels = {pair.key for point in points for pair in point.attributes}
                with self._changed:
                    self.metrics[metric.name] = self.metrics.get(metric.name, 0) + len(exemplars)
                    self.labels.setdefault(metric.name, set()).update(labels)
                    self._changed.notify_all()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@contextmanager
def otlp_receiver(silent: bool = False) -> Iterator[OtlpReceiver]:
    """A running receiver, stopped at the end."""
    receiver = OtlpReceiver(silent)
    receiver.start()
    try:
        yield receiver
    finally:
        receiver.stop()


def _handler(receiver: OtlpReceiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            if receiver.silent:
                receiver.stopping.wait(60)
                self.close_connection = True
                return
            (receiver.take_metrics if self.path.endswith("/metrics") else receiver.take)(body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(receiver.status)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler


def _decoded(body: bytes) -> Iterator[ReceivedSpan]:
    request = ExportTraceServiceRequest.FromString(body)
    for of_resource in request.resource_spans:
        resource = _values(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield ReceivedSpan(
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    _values(span.attributes),
                    resource,
                )


def _values(pairs: Iterable[KeyValue]) -> dict[str, object]:
    values: dict[str, object] = {}
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        values[pair.key] = getattr(pair.value, kind) if kind else None
    return values
