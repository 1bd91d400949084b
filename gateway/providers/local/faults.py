"""The faults of local models."""

from retrieval.faults import GatewayFault


class LocalModelMissing(GatewayFault):
    """Raised when a local model cannot be had: its files or the runtime are not installed, or the files are not the pinned ones.

    The message says which, and what to do.
    """

    type = "local_model_missing"


def told(error: Exception, otherwise: str) -> str:
    """What to tell of `error`: what a missing model says of itself (also inside a group), `otherwise` of anything else."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return str(error) if isinstance(error, LocalModelMissing) else otherwise
