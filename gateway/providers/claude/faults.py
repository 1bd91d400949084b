"""What the model's service says went wrong -> our fault. Pure; by the error's type first, because a status of 200 can carry any."""

import math

from streaming.faults import GeneratorFault, GeneratorMisconfigured, GeneratorOverloaded, GeneratorUnavailable

# https://platform.claude.com/docs/en/api/errors
OVERLOADED = frozenset({"overloaded_error", "rate_limit_error"})
MISCONFIGURED = frozenset(
    {
        "authentication_error",
        "billing_error",
        "invalid_request_error",
        "not_found_error",
        "permission_error",
        "request_too_large",
    }
)
OVERLOADED_STATUS = frozenset({429, 529})
PASSING_STATUS = frozenset({408, 409})  # the 4xx that another try may cure


def fault_of_status(
    status: int, error_type: str | None, model: str, retry_after_s: float | None = None
) -> GeneratorFault:
    """The fault for an answer of HTTP `status` whose error is of `error_type` (None where the body names none)."""
    said = f"status {status}, {error_type}" if error_type else f"status {status}"
    if error_type in OVERLOADED or status in OVERLOADED_STATUS:
        return GeneratorOverloaded(f"the model's service is overloaded or limits our rate ({said})", retry_after_s)
    if error_type in MISCONFIGURED or (400 <= status < 500 and status not in PASSING_STATUS):
        return GeneratorMisconfigured(f"the model's service refuses the request for model {model} ({said})")
    return GeneratorUnavailable(f"the model's service failed ({said})", retry_after_s)


def fault_inside(error_type: str | None, model: str) -> GeneratorFault:
    """The fault for an error event inside a stream of status 200."""
    return fault_of_status(200, error_type, model)


def seconds(retry_after: str | None) -> float | None:
    """A Retry-After header in seconds; None where there is none that says a number of them (a date would need one clock for both)."""
    try:
        wait_s = float(retry_after or "")
    except ValueError:
        return None
    return wait_s if 0.0 <= wait_s < math.inf else None


def unavailable(what: str) -> GeneratorUnavailable:
    return GeneratorUnavailable(f"the model's service {what}")
