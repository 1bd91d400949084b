"""Telemetry of one process: a tracer of its own, and OTLP export where an endpoint is set."""

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Self

from anyio import CancelScope, to_thread
from opentelemetry.context import Context
from opentelemetry.sdk.metrics.export import MetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway.observing import conventions as names
from gateway.observing.metric_names import SPANS_LOST, Names
from gateway.observing.metrics import Metrics
from gateway.observing.request_trace import RequestTrace
from gateway.observing.span_delivery import Delivery, Losses
from gateway.observing.spans import OpenSpan, Quiet

SERVICE = "optimistic-gateway"  # unless OTEL_SERVICE_NAME says otherwise
FLUSH_LIMIT_S = 2.0  # of a pod's grace of 30 s; the SDK's own shutdown waits all 30 for a dead collector
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})

log = logging.getLogger(__name__)


def exports_traces(environ: Mapping[str, str]) -> bool:
    """Whether spans are to be exported: an OTLP endpoint is set, and neither traces nor the SDK are switched off."""
    return _exports("TRACES", environ)


def exports_metrics(environ: Mapping[str, str]) -> bool:
    """Whether metrics are to be exported, by the same rules. They are at `/metrics` in any case."""
    return _exports("METRICS", environ)


def _exports(signal: str, environ: Mapping[str, str]) -> bool:
    endpoint = environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    exporters = environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower()
    disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return bool(endpoint and endpoint.strip()) and exporters not in ("none", "prometheus") and not disabled


class Telemetry:
    """Opens the trace of each request. Several may live in one process: OpenTelemetry's global provider is never set."""

    def __init__(
        self,
        provider: TracerProvider,
        exporter: SpanExporter | None,
        version: str,
        metrics: Metrics,
        *,
        records_text: bool = False,
    ) -> None:
        self.metrics = metrics
        self._records_text = records_text
        self._provider = provider
        self._exporter = exporter
        self._tracer = provider.get_tracer("gateway", version)
        self._quiet = Quiet()
        self._closed = False

    @classmethod
    def start(
        cls,
        *,
        service_version: str,
        export: bool,
        processors: Sequence[SpanProcessor] = (),
        export_metrics: bool = False,
        metric_names: Names = "new",
        records_text: bool = False,
    ) -> Self:
        """Started in each worker, after any fork, because the exporter owns a thread.

        `export`: send spans to where the OTEL_EXPORTER_OTLP_* variables say (read by the SDK itself). `processors` get every
        span besides. With neither, spans are not recorded at all; trace ids are real all the same. A broken setting of the exporter
        is logged and switches it off; it never keeps the gateway from starting. `export_metrics` says the same of metrics.
        `records_text`: questions, queries and what a set lacks go onto spans, cleaned and cut.
        """
        losses = Losses()
        batch = _batch(losses) if export else None
        resource = _resource(service_version)
        everyone = (*processors, batch) if batch is not None else tuple(processors)
        provider = TracerProvider(
            sampler=None if everyone else ALWAYS_OFF,
            resource=resource,
            shutdown_on_exit=False,  # it would wait 30 s for a dead collector at exit; aclose is bounded
        )
        for processor in everyone:
            provider.add_span_processor(processor)
        metrics = Metrics.start(resource, _metric_readers() if export_metrics else (), metric_names)
        if batch is not None:
            metrics.observe(SPANS_LOST, losses.counted)
        exporter = batch.span_exporter if batch is not None else None
        return cls(provider, exporter, service_version, metrics, records_text=records_text)

    def request(
        self, headers: Mapping[str, str], method: str, route: str, *, path: str | None = None, scheme: str = "http"
    ) -> RequestTrace:
        """Opens the SERVER span of a request, under the `traceparent` of its headers if that is valid.

        `route` is the template (`/v1/answers/{id}/events`), `path` the actual path where it differs.
        """
        parent = Context()
        with self._quiet:
            parent = TraceContextTextMapPropagator().extract(headers, parent)
        known = method if method in METHODS else "_OTHER"
        name = f"{method if method in METHODS else 'HTTP'} {route}"
        root = OpenSpan.under(parent, self._tracer, self._quiet, name, SpanKind.SERVER)
        root.set(
            {names.HTTP_METHOD: known, names.HTTP_ROUTE: route, names.URL_PATH: path or route, names.URL_SCHEME: scheme}
        )
        return RequestTrace(
            self._tracer, self._quiet, root, self.metrics, known, route, records_text=self._records_text
        )

    async def aclose(self) -> None:
        """Sends what is waiting, for at most FLUSH_LIMIT_S seconds, and stops. Never raises; idempotent; shielded from cancellation."""
        if self._closed:
            return
        self._closed = True
        # A daemon thread, because a flush that hangs in a socket must not keep the interpreter from exiting either.
        flush = threading.Thread(target=self._shut_down, name="telemetry flush", daemon=True)
        flush.start()
        with CancelScope(shield=True):
            await to_thread.run_sync(flush.join, FLUSH_LIMIT_S)
        if flush.is_alive():
            log.warning("spans could not be sent within %.1f s at shutdown; the rest is dropped", FLUSH_LIMIT_S)
            with self._quiet:
                if self._exporter is not None:
                    self._exporter.shutdown()  # breaks off its waiting between retries

    def _shut_down(self) -> None:
        metrics = threading.Thread(target=self._shut_down_metrics, name="metrics flush", daemon=True)
        metrics.start()  # beside the spans: they share the limit
        with self._quiet:
            self._provider.shutdown()
        metrics.join(FLUSH_LIMIT_S)

    def _shut_down_metrics(self) -> None:
        with self._quiet:
            self.metrics.shut_down(FLUSH_LIMIT_S)


def _resource(version: str) -> Resource:
    """Who sends the spans; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win over our own words."""
    ours = Resource.create({SERVICE_NAME: SERVICE, SERVICE_VERSION: version})
    return ours.merge(OTELResourceDetector().detect())


def _metric_readers() -> tuple[MetricReader, ...]:
    try:
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        from gateway.metric_exporter import MetricExporter

        return (PeriodicExportingMetricReader(MetricExporter()),)
    except Exception:
        log.exception("no metrics are exported: the OTEL_EXPORTER_OTLP_* or OTEL_METRIC_* settings do not work")
        return ()


def _batch(losses: Losses) -> Delivery | None:
    try:
        # Imported here: it brings `requests`, which costs a start without export 0.1 s.
        from gateway.lean_exporter import LeanExporter

        return Delivery(LeanExporter(), losses)
    except Exception:
        log.exception("no spans are exported: the OTEL_EXPORTER_OTLP_* or OTEL_BSP_* settings do not work")
        return None
