"""The one client of the model's service. What another file needs of the SDK, it imports for its type alone.

The SDK brings the address, the key, the time-outs and the errors. Connections are aiohttp's, which the SDK offers for speed: a request
goes out in one write, and a token costs 80 microseconds of processor instead of 135.
"""

from collections.abc import Mapping
from typing import Any

import httpx2
from anthropic import (
    APIConnectionError,
    APIError,
    APIStatusError,
    APITimeoutError,
    AsyncAnthropic,
    Timeout,
)
from anthropic._models import FinalRequestOptions
from pydantic_core import to_json

from gateway.observing import outgoing
from gateway.providers.claude.connections import Connections, Kind
from gateway.providers.claude.faults import fault_of_status, seconds, unavailable
from streaming.faults import AnswerIncomplete, GeneratorFault

PATH = "/v1/messages"
HEADERS = {"content-type": "application/json"}
STREAM_HEADERS = {
    **HEADERS,
    "accept-encoding": "identity",  # a compressor may sit on a token
    "x-stainless-raw-response": "stream",  # what tells the SDK to leave the body unread
}
LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100, keepalive_expiry=60.0)
"""The SDK's own, but for the expiry: after its 5 s nearly every question of a quiet hour would pay for a TCP and a TLS handshake."""


def open_client(api_key: str, base_url: str | None, *, connect_s: float, read_s: float) -> AsyncAnthropic:
    """A client for many requests at once; close it with `await client.close()`. asyncio only.

    `connect_s` bounds connecting and waiting for a free connection, `read_s` each read and write (the longest silence).
    Nothing is asked again unseen: whoever asks decides that. The SDK's own spans and headers of tracing are off, whatever the
    environment says: ours would be doubled. `base_url` None means Anthropic's.
    """
    return _Client(
        http_client=Connections(limits=LIMITS),
        api_key=api_key,
        base_url=base_url,
        timeout=Timeout(connect=connect_s, pool=connect_s, read=read_s, write=read_s),
        max_retries=0,
        open_telemetry={"traces": {"enabled": False}, "propagation": False},
    )


class _Client(AsyncAnthropic):
    """The SDK's client, which puts the address and the headers of a kind of request together once, not for every request: 0.25 ms each."""

    def __init__(self, *, http_client: Connections, **given: Any) -> None:
        super().__init__(http_client=http_client, **given)
        self._connections = http_client
        self._kinds: dict[bool, Kind] = {}

    @property
    def user_agent(self) -> str:
        return super().user_agent.replace(
            type(self).__name__, AsyncAnthropic.__name__
        )  # the service is told which SDK asks

    async def sent(self, content: bytes, *, stream: bool) -> httpx2.Response:
        """The response to a Messages request, of whatever status, with the SDK's errors where there is none.

        The request is as the SDK builds it, in the trace of whoever asks.
        """
        kind = self._kinds.get(stream) or self._kind(stream=stream)
        try:
            return await self._connections.ask(kind, content, outgoing.headers(), stream=stream)
        except httpx2.TimeoutException as error:
            raise APITimeoutError(request=kind.request) from error
        except Exception as error:
            raise APIConnectionError(request=kind.request) from error

    def _kind(self, *, stream: bool) -> Kind:
        headers = STREAM_HEADERS if stream else HEADERS
        options = FinalRequestOptions.construct(method="post", url=PATH, headers=headers, content=b"{}")
        kind = self._kinds[stream] = Kind(self._build_request(options))
        return kind

    def error_of(self, response: httpx2.Response) -> APIStatusError:
        """The SDK's error for a status that is none of success, whose body has been read."""
        return self._make_status_error_from_response(response)


async def post_message(client: AsyncAnthropic, body: Mapping[str, Any], *, stream: bool) -> httpx2.Response:
    """Posts a Messages request; its response, of a status of success. With `stream` its body is unread, and the caller's to close.

    `client` is one of `open_client`. Raises CLIENT_ERRORS. On cancellation the connection is closed. The SDK's `messages.create` would
    walk and copy the body first, and make objects of the answer; its `post` copies its options three times for retries that are not made,
    0.25 ms before the request leaves.
    """
    assert isinstance(client, _Client)
    response = await client.sent(to_json(body), stream=stream)
    if response.is_success:
        return response
    try:
        await response.aread()
    finally:
        await response.aclose()
    raise client.error_of(response)


CLIENT_ERRORS = (APIError, httpx2.RequestError)
"""What the SDK raises when a request fails, and what its HTTP client raises while a body is read."""


def our_fault(error: APIError | httpx2.RequestError, model: str) -> GeneratorFault:
    """What went wrong with a request for `model`, in our words; to be raised `from` the SDK's own error."""
    match error:
        case APIStatusError():
            wait_s = seconds(error.response.headers.get("retry-after"))
            return fault_of_status(error.status_code, error.type, model, wait_s)
        case APITimeoutError():
            return unavailable("did not answer in time")
        case APIConnectionError():
            return unavailable("cannot be reached")
        case httpx2.TimeoutException():
            return unavailable("was silent for too long")
        case httpx2.TransportError():
            return AnswerIncomplete("the connection to the model's service broke before the answer was whole")
        case _:
            return unavailable("answered in a form that is not its own")
