"""The faults of grading, rewriting and verifying."""

from retrieval.faults import GatewayFault


class GraderUnavailable(GatewayFault):
    """Raised when no grader gave a usable verdict: it failed, stalled past its deadline, refused or answered nonsense.

    It is not a bad grade: nothing is known about the passages, so nothing is released.
    """

    type = "grader_unavailable"
    retryable = True


class RewriterUnavailable(GatewayFault):
    """Raised when a rewriter failed, stalled or answered nonsense; the strategy that needed it is skipped."""

    type = "rewriter_unavailable"
    retryable = True


class VerifierUnavailable(GatewayFault):
    """Raised when a verifier failed, stalled or answered nonsense; what it was to check counts as unsupported."""

    type = "verifier_unavailable"
    retryable = True
