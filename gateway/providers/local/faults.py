"""The faults of local models."""

from retrieval.faults import GatewayFault


class LocalModelMissing(GatewayFault):
    """Raised when a local model cannot be had: its files or the runtime are not installed, or the files are not the pinned ones.

    The message says which, and what to do.
    """

    type = "local_model_missing"
