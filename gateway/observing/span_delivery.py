"""The delivery of spans to a collector, and the count of those that never got there."""

from collections.abc import Iterable, Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult


class Losses:
    """How many spans were dropped because too many waited, and how many no collector took."""

    def __init__(self) -> None:
        self.queue_full = 0
        self.not_delivered = 0

    def counted(self) -> Iterable[tuple[float, dict[str, str]]]:
        """The counts with their reason."""
        return (
            (self.queue_full, {"reason": "queue_full"}),
            (self.not_delivered, {"reason": "not_delivered"}),
        )


class Counted(SpanExporter):
    """A SpanExporter that counts what it could not deliver."""

    def __init__(self, inner: SpanExporter, losses: Losses) -> None:
        self._inner = inner
        self._losses = losses

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        try:
            result = self._inner.export(spans)
        finally:
            if result is not SpanExportResult.SUCCESS:
                self._losses.not_delivered += len(spans)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


class Delivery(BatchSpanProcessor):
    """Spans in batches, on a thread of its own. One that finds the queue full is counted as lost: the SDK only logs it, once."""

    def __init__(self, exporter: SpanExporter, losses: Losses) -> None:
        super().__init__(Counted(exporter, losses))
        self._losses = losses

    def on_end(self, span: ReadableSpan) -> None:
        queue = (
            self._batch_processor._queue
        )  # the SDK's own count of drops is switched on by an environment variable only
        if len(queue) >= (queue.maxlen or len(queue) + 1):
            self._losses.queue_full += 1
        super().on_end(span)
