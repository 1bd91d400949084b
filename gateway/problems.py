"""Problems: which fault is which HTTP status, said in one table, and how a fault looks as a JSON body."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from starlette.types import Send

from grading.faults import GraderUnavailable
from retrieval.faults import (
    CollectionNotFound,
    DatabaseMissing,
    DocumentKindUnknown,
    DocumentTooLarge,
    DocumentUnreadable,
    EmbeddingFailed,
    GatewayFault,
    RetrievalMisconfigured,
    RetrievalUnavailable,
)
from streaming.faults import GeneratorFault, GeneratorOverloaded
from streaming.wire.format import dumps

JSON = b"application/json"


@dataclass(frozen=True, slots=True)
class Field:
    """What is wrong with one field of a request: its path (`options.max_retries`) and why."""

    path: str
    message: str


class MalformedJson(GatewayFault):
    """Raised when a body is not one JSON value in UTF-8: bad syntax, NaN, repeated names, nesting too deep."""

    type = "malformed_json"


class MalformedMultipart(GatewayFault):
    """Raised when a body is not the multipart/form-data that its header announces, or breaks off."""

    type = "malformed_multipart"


class InvalidRequest(GatewayFault):
    """Raised when a body is JSON and not a request: wrong types, unknown fields, values out of bounds."""

    type = "invalid_request"

    def __init__(self, message: str, fields: tuple[Field, ...] = ()) -> None:
        super().__init__(message)
        self.fields = fields


class BodyTooLarge(GatewayFault):
    """Raised when a body announces, or turns out to be, more bytes than are read."""

    type = "body_too_large"


class BodyTooSlow(GatewayFault):
    """Raised when a body does not arrive within its time."""

    type = "body_too_slow"
    retryable = True


class MalformedHttp(GatewayFault):
    """Raised when what a client sends is not HTTP/1.1."""

    type = "malformed_http"


class HeadTooLarge(GatewayFault):
    """Raised when a request's head has more bytes than are read."""

    type = "head_too_large"


class HeadTooSlow(GatewayFault):
    """Raised when a request's head, once begun, does not arrive within its time."""

    type = "head_too_slow"
    retryable = True


class WrongContentType(GatewayFault):
    """Raised when a body says that it is not JSON."""

    type = "unsupported_media_type"


class Unauthorized(GatewayFault):
    """Raised when keys are configured and the request brings none of them."""

    type = "unauthorized"


class Forbidden(GatewayFault):
    """Raised when a key is good and has no role for what the request wants, or a page of another site asks without one."""

    type = "forbidden"


class CollectionForbidden(GatewayFault):
    """Raised when a key is bound to other collections than the request's; it does not say whether there is one of that name."""

    type = "collection_forbidden"


class KeysUnreadable(GatewayFault):
    """Raised when nobody can say whether a key is good: the database that holds them has been away for too long."""

    type = "keys_unreadable"
    retryable = True


class RouteNotFound(GatewayFault):
    """Raised when no route has this path."""

    type = "not_found"


class DocumentNotFound(GatewayFault):
    """Raised when no document has this id."""

    type = "document_not_found"


class PassageNotFound(GatewayFault):
    """Raised when no passage has this id."""

    type = "passage_not_found"


class ModelNotFound(GatewayFault):
    """Raised when no profile has the name that a request gives as its model."""

    type = "model_not_found"


class AnswerNotFound(GatewayFault):
    """Raised when no answer of this id is kept for who asks: it never was, it is somebody else's, or its time is over."""

    type = "answer_not_found"


class BadLastEventId(GatewayFault):
    """Raised when a Last-Event-ID is none of the answer's."""

    type = "bad_last_event_id"


class NothingToResume(GatewayFault):
    """Raised when a question comes with the Last-Event-ID of an answer that is not kept: a second one is never begun in silence."""

    type = "nothing_to_resume"


class IdempotencyKeyReused(GatewayFault):
    """Raised when an Idempotency-Key comes again with another body."""

    type = "idempotency_key_reused"


class TooManyKept(GatewayFault):
    """Raised when no further answer can be kept for a client that may come back."""

    type = "too_many_kept"
    retryable = True


class AnswerLost(GatewayFault):
    """Raised when the server that gave an answer is gone before its end."""

    type = "answer_lost"
    retryable = True


class MethodNotAllowed(GatewayFault):
    """Raised when the route exists and does not answer this method."""

    type = "method_not_allowed"


class ShuttingDown(GatewayFault):
    """Raised when the server drains: it takes no new question, and ends an answer that outlasts the grace."""

    type = "shutting_down"
    retryable = True


class Overloaded(GatewayFault):
    """Raised when as many answers are open as the server bears, and as many wait."""

    type = "overloaded"
    retryable = True


class TooManyUploads(GatewayFault):
    """Raised when an upload has waited in vain for one of those before it to end; its body was not read."""

    type = "too_many_uploads"
    retryable = True


class TooManyStreams(GatewayFault):
    """Raised when a key has as many answers open as one may have."""

    type = "too_many_streams"
    retryable = True


class RateExceeded(GatewayFault):
    """Raised when a key has asked, or used, as much as it may in a minute; it may again in `wait_s` seconds."""

    type = "rate_limited"
    retryable = True

    def __init__(self, message: str, wait_s: int = 1) -> None:
        super().__init__(message)
        self.wait_s = wait_s


STATUS: Mapping[type[GatewayFault], int] = {
    MalformedHttp: 400,
    MalformedJson: 400,
    MalformedMultipart: 400,
    BadLastEventId: 400,
    Unauthorized: 401,
    Forbidden: 403,
    CollectionForbidden: 403,
    CollectionNotFound: 404,
    AnswerNotFound: 404,
    DocumentNotFound: 404,
    PassageNotFound: 404,
    ModelNotFound: 404,
    RouteNotFound: 404,
    MethodNotAllowed: 405,
    HeadTooSlow: 408,
    BodyTooSlow: 408,
    NothingToResume: 409,
    BodyTooLarge: 413,
    DocumentTooLarge: 413,
    WrongContentType: 415,
    DocumentKindUnknown: 415,
    InvalidRequest: 422,
    IdempotencyKeyReused: 422,
    DocumentUnreadable: 422,
    HeadTooLarge: 431,
    TooManyStreams: 429,
    RateExceeded: 429,
    GeneratorFault: 502,
    RetrievalMisconfigured: 502,
    EmbeddingFailed: 502,
    ShuttingDown: 503,
    Overloaded: 503,
    TooManyUploads: 503,
    TooManyKept: 503,
    AnswerLost: 503,
    KeysUnreadable: 503,
    RetrievalUnavailable: 503,
    GraderUnavailable: 503,
    GeneratorOverloaded: 503,
    DatabaseMissing: 503,
    GatewayFault: 500,
}
NO_RETRY = (b"x-should-retry", b"false")  # what OpenAI's clients obey; others pass it over
RETRY_AFTER_S = {
    429: 1,  # the next answer of the same key to end
    503: 5,  # long enough for a restart behind a load balancer, short enough for a person
}
UNREAD = (
    Unauthorized,
    Forbidden,
    KeysUnreadable,
    BodyTooSlow,
    BodyTooLarge,
    WrongContentType,
    MalformedMultipart,
    ShuttingDown,
    TooManyUploads,
)  # raised before the body was read


def status_of(fault: GatewayFault) -> int:
    """The HTTP status of `fault`: that of its class, or of the nearest listed class it derives from.

    One with a name that is not listed is a part's outage: 503 where asking again may help, else 502.
    """
    return _status(type(fault))


def status_of_type(type_name: str) -> int:
    """As `status_of`, for a fault of which only its `type` is known (as a `failed` event says it)."""
    return next((_status(kind) for kind in _kinds(GatewayFault) if kind.type == type_name), 502)


def _status(kind: type[GatewayFault]) -> int:
    listed = next(STATUS[base] for base in kind.__mro__ if base in STATUS)
    if listed == STATUS[GatewayFault] and kind.type != GatewayFault.type:
        return 503 if kind.retryable else 502
    return listed


def _kinds(base: type[GatewayFault]) -> Iterator[type[GatewayFault]]:
    """`base` and every class that derives from it."""
    yield base
    for kind in base.__subclasses__():
        yield from _kinds(kind)


def body_of(fault: GatewayFault) -> dict[str, object]:
    """`{"error": {type, message, retryable, fields?}}`. The text is ASCII-escaped when sent, so that no input can break it."""
    error: dict[str, object] = {"type": fault.type, "message": str(fault), "retryable": fault.retryable}
    if isinstance(fault, InvalidRequest) and fault.fields:
        error["fields"] = [{"path": f.path, "message": f.message} for f in fault.fields]
    return {"error": error}


def leaves_body_unread(fault: GatewayFault) -> bool:
    """Whether `fault` was raised before the request's body was read: its connection is not used again."""
    return isinstance(fault, UNREAD)


def headers_of(fault: GatewayFault, status: int) -> list[tuple[bytes, bytes]]:
    """The headers that `fault` adds: Retry-After, WWW-Authenticate, Connection; what keeps OpenAI's clients from asking again."""
    headers = [] if fault.retryable else [NO_RETRY]
    if status in RETRY_AFTER_S:
        wait_s = fault.wait_s if isinstance(fault, RateExceeded) else RETRY_AFTER_S[status]
        headers.append((b"retry-after", str(wait_s).encode()))
    if isinstance(fault, Unauthorized):
        headers.append((b"www-authenticate", b"Bearer"))
    if leaves_body_unread(fault):
        headers.append((b"connection", b"close"))
    return headers


def defect() -> GatewayFault:
    """What a client is told of a defect of ours."""
    return GatewayFault("something went wrong inside the gateway")


async def send_json(
    send: Send, status: int, value: object, headers: list[tuple[bytes, bytes]] | None = None, *, last: bool = True
) -> None:
    """Sends one whole JSON response. With `last=False` the exchange stays open (so that a body may still be read away)."""
    body = dumps(value)
    fixed = [(b"content-type", JSON), (b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": fixed + (headers or [])})
    await send({"type": "http.response.body", "body": body, "more_body": not last})
