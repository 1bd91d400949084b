"""The request log: one line for each request when it is over, with its trace id and its figures, and no word of anyone."""

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import IO, Any, Literal

from gateway.decisions import Decision

LogFormat = Literal["auto", "json", "text"]

FIELDS = "gateway_fields"  # where a log record carries what is more than its message

log = logging.getLogger(__name__)


def tell(
    *, trace_id: str, method: str, route: str, status: int | None, total_s: float, answer: Sequence[Decision]
) -> None:
    """Logs the request; `answer` are the attempts of its answer, none where it had none. `status` None: the client left first."""
    if log.isEnabledFor(logging.INFO):
        fields = fields_of(answer)
        told = {"trace_id": trace_id, "method": method, "route": route, "status": status, "total_s": round(total_s, 4)}
        words = " ".join(str(word) for word in (method, route, status or "left", fields.get("path")) if word)
        log.info("%s in %.3f s, trace %s", words, total_s, trace_id, extra={FIELDS: {**told, **fields}})


def fields_of(answer: Sequence[Decision]) -> dict[str, object]:
    """The figures of an answer: of the whole, and of its attempts in order. What is not known is left out."""
    if not answer:
        return {}
    last = answer[-1]
    whole: dict[str, object] = {
        "path": last.path,
        "reason": last.reason,
        "attempts": last.attempts,
        "first_byte_s": _rounded(last.first_byte_s),
        "verdicts": [row.verdict for row in answer if row.verdict],
        "corrections": [row.strategy for row in answer if row.attempt > 1],
        "retrieval_s": [_rounded(row.retrieval_s) for row in answer if row.retrieval_s is not None],
        "grade_s": [_rounded(row.grade_s) for row in answer if row.grade_s is not None],
        "released_tokens": sum(row.released_tokens for row in answer),
        "discarded_tokens": sum(row.discarded_tokens for row in answer),
        "grounded": last.grounded,
    }
    return {name: value for name, value in whole.items() if value not in (None, [])}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)


class JsonLines(logging.Formatter):
    """A log record as one line of JSON: `time`, `level`, `logger`, `message`, the figures of a request, `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = getattr(record, FIELDS, None)
        if isinstance(fields, Mapping):
            line.update(fields)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)  # ASCII: no line of it breaks, whatever a fault's message holds


def log_to(stream: IO[str] | None = None, log_format: LogFormat = "auto") -> None:
    """Sets this process's logging: JSON where asked for or where nobody watches, else lines for a person. Called once, at the start."""
    stream = stream or sys.stderr
    is_json = log_format == "json" or (log_format == "auto" and not stream.isatty())
    handler: logging.StreamHandler[Any] = logging.StreamHandler(stream)
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if is_json else text)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("gateway").setLevel(logging.INFO)
