"""The faults of drafting an answer."""

from retrieval.faults import GatewayFault


class GeneratorFault(GatewayFault):
    """Base of what a generator may raise while it drafts. `retry_after_s`: when its service wants to be asked again, where it says so."""

    type = "generator_failed"

    def __init__(self, message: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class GeneratorOverloaded(GeneratorFault):
    """Raised when the model's service says that it is overloaded or rate-limited, also inside a stream of status 200."""

    type = "generator_overloaded"
    retryable = True


class GeneratorUnavailable(GeneratorFault):
    """Raised when the model's service cannot be reached, answers with a server error, or stalls past its time-out."""

    type = "generator_unavailable"
    retryable = True


class AnswerIncomplete(GeneratorFault):
    """Raised when the model's stream ended without a stop reason: what came is not a whole answer."""

    type = "answer_incomplete"
    retryable = True


class GeneratorMisconfigured(GeneratorFault):
    """Raised when the model's service refuses the request itself (key, model name, arguments): retrying cannot help."""

    type = "generator_misconfigured"
