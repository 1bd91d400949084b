"""`/metrics`: the metrics of this process as text, for Prometheus and for the page; and the slowest answers, for the page."""

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from gateway.house import House
from gateway.observing.metric_names import ALWAYS_SHOWN
from gateway.observing.openmetrics import OPENMETRICS_TYPE, PLAIN_TYPE, MetricsText, wants_openmetrics
from gateway.problems import send_json

ROUTE = "/metrics"
SLOW_ROUTE = "/latency/slowest"


class MetricsRoute:
    """OpenMetrics with exemplars where the `Accept` header names it, else Prometheus text. It holds no words of anyone, and asks no key."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._text = MetricsText(ALWAYS_SHOWN)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        is_open = wants_openmetrics(Headers(scope=scope).get("accept", ""))
        body = self._text.written(self._house.telemetry.metrics.collect(), openmetrics=is_open).encode()
        media_type = OPENMETRICS_TYPE if is_open else PLAIN_TYPE
        headers = [
            (b"content-type", media_type.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


class SlowestRoute:
    """The slowest answers of the last hour with where their time went: trace ids and figures, no words of anyone."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await send_json(send, 200, {"answers": self._house.telemetry.metrics.slowest()})
