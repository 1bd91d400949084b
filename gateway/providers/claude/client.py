"""The one client of the model's service. What another file needs of the SDK, it imports for its type alone."""

from math import inf

import httpx2
from anthropic import APIConnectionError, APIError, APIStatusError, APITimeoutError, AsyncAnthropic, Timeout

from gateway.providers.claude.faults import fault_of_status, unavailable
from streaming.faults import AnswerIncomplete, GeneratorFault


def open_client(
    api_key: str, base_url: str | None, *, connect_s: float, read_s: float, max_retries: int = 0
) -> AsyncAnthropic:
    """A client for many requests at once; close it with `await client.close()`. asyncio only.

    `connect_s` bounds connecting and waiting for a free connection, `read_s` each read and write (the longest silence).
    With `max_retries` above 0 the SDK sleeps and asks again unseen, `retry-after` included. Its own spans and headers
    of tracing are off, whatever the environment says: ours would be doubled. `base_url` None means Anthropic's.
    """
    client = AsyncAnthropic(
        api_key=api_key,
        base_url=base_url,
        timeout=Timeout(connect=connect_s, pool=connect_s, read=read_s, write=read_s),
        max_retries=max_retries,
        open_telemetry={"traces": {"enabled": False}, "propagation": False},
    )
    _ = (
        client.messages.with_streaming_response
    )  # the SDK loads this part on first use, about 50 ms: not in a first answer
    return client


def read_limit_s(client: AsyncAnthropic) -> float:
    """The longest silence that `client` bears."""
    limit = client.timeout.read if isinstance(client.timeout, Timeout) else client.timeout
    return inf if limit is None else limit


CLIENT_ERRORS = (APIError, httpx2.TransportError)
"""What the SDK raises when a request fails, and what its HTTP client raises while a body is read."""


def our_fault(error: APIError | httpx2.TransportError, model: str) -> GeneratorFault:
    """What went wrong with a request for `model`, in our words; to be raised `from` the SDK's own error."""
    match error:
        case APIStatusError():
            return fault_of_status(error.status_code, error.type, model)
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
