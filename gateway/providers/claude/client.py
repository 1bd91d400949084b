"""The one client of the model's service, with its faults made ours. What else a file needs of the SDK, it imports for its type alone."""

from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def our_faults(model: str) -> Iterator[None]:
    """Raises what goes wrong inside as a GeneratorFault, from the SDK's own error. Cancellation passes."""
    try:
        yield
    except APIError as error:
        raise _fault_of(error, model) from error
    except httpx2.TimeoutException as error:
        raise unavailable("was silent for too long") from error
    except httpx2.TransportError as error:
        raise AnswerIncomplete("the connection to the model's service broke before the answer was whole") from error


def _fault_of(error: APIError, model: str) -> GeneratorFault:
    match error:
        case APIStatusError():
            return fault_of_status(error.status_code, error.type, model)
        case APITimeoutError():
            return unavailable("did not answer in time")
        case APIConnectionError():
            return unavailable("cannot be reached")
        case _:
            return unavailable("answered in a form that is not its own")
