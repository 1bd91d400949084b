"""Metrics over OTLP: the SDK's exporter, which tells of an outage once."""

from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData

from gateway.observing.outage import Outage


class MetricExporter(OTLPMetricExporter):
    """Address, headers, retries and time-outs are the SDK's."""

    def __init__(self) -> None:
        super().__init__()
        self._outage = Outage(OTLPMetricExporter.__module__)

    def export(self, metrics_data: MetricsData, *more: Any, **named: Any) -> MetricExportResult:
        result = super().export(metrics_data, *more, **named)
        if result is MetricExportResult.SUCCESS:
            self._outage.end()
        return result

    def shutdown(self, *more: Any, **named: Any) -> None:
        super().shutdown(*more, **named)
        self._outage.close()
