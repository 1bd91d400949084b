"""The faults of grading."""

from retrieval.faults import GatewayFault


class GraderUnavailable(GatewayFault):
    """Raised when no grader gave a usable verdict: it failed, stalled past its deadline, refused or answered nonsense.

    It is not a bad grade: nothing is known about the passages, so nothing is released.
    """

    type = "grader_unavailable"
    retryable = True
