"""The wire of an ingest: its steps as JSON, in one body or as server-sent events. The events are progress, document, failed, done."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from anyio.abc import ObjectReceiveStream

from gateway.problems import body_of
from gateway.uploads.documents import Finished, Reading, Step
from retrieval.faults import GatewayFault
from streaming.wire.format import PING, Json, dumps

STATUSES = ("added", "changed", "unchanged", "unreadable")


@dataclass(frozen=True, slots=True)
class End:
    """The end of an ingest, with the fault that ended it early where one did."""

    fault: GatewayFault | None = None


@dataclass(frozen=True, slots=True)
class IngestHead:
    """See gateway.sse.Head."""

    headers: Mapping[str, str] = field(default_factory=dict)
    ping: bytes = PING


class IngestFrames:
    """The frames of an ingest's steps, up to and with `done`."""

    def __init__(self, collection: str, steps: ObjectReceiveStream[Step | End]) -> None:
        self._collection, self._steps = collection, steps
        self._finished: list[Finished] = []
        self._is_done = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._is_done:
            raise StopAsyncIteration
        match await self._steps.receive():
            case Reading() as reading:
                return frame("progress", progress(reading))
            case Finished() as finished:
                self._finished.append(finished)
                return frame("document", said(finished))
            case End(fault):
                self._is_done = True
                done = frame("done", totals(self._collection, self._finished))
                return done if fault is None else frame("failed", failure(fault)) + done


def frame(name: str, data: Json) -> bytes:
    """One event: its name, one line of ASCII JSON, LF line ends. It has no id: an ingest is not resumed but sent again."""
    return b"event: %b\ndata: %b\n\n" % (name.encode("ascii"), dumps(data))


def progress(reading: Reading) -> Json:
    return {
        "name": reading.name,
        "done": reading.done,
        "total": reading.total,
        "passages": {"done": reading.embedded, "total": reading.passages},
    }


def said(finished: Finished) -> Json:
    """What became of one document."""
    if finished.fault is not None:
        return {"name": finished.name, "status": finished.status, "error": failure(finished.fault)}
    return {
        "name": finished.name,
        "status": finished.status,
        "id": finished.id,
        "title": finished.title,
        "passages": finished.passages,
    }


def failure(fault: GatewayFault) -> Json:
    return {"type": fault.type, "message": str(fault), "retryable": fault.retryable}


def totals(collection: str, finished: Sequence[Finished]) -> Json:
    """How many documents had which end, and how many passages were stored."""
    count = Counter[str](one.status for one in finished)
    said: Json = {"collection": collection}
    return said | {status: count[status] for status in STATUSES} | {"passages": sum(one.passages for one in finished)}


def whole(collection: str, finished: Sequence[Finished], fault: GatewayFault | None) -> Json:
    """The one body of an ingest: the totals and each document; beside an `error` where a fault ended it early."""
    return (
        ({} if fault is None else body_of(fault))
        | totals(collection, finished)
        | {"documents": [said(one) for one in finished]}
    )
