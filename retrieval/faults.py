"""The faults that any part of the gateway may raise: one class, one condition."""

from typing import ClassVar


class GatewayFault(Exception):
    """Base of every fault that this project names.

    `type` is the stable code a client sees, `retryable` whether asking again may help. The message of a subclass is
    written for the client: it carries values (seconds, counts), never a class name, a DSN or a traceback.
    """

    type: ClassVar[str] = "internal_error"
    retryable: ClassVar[bool] = False


class RetrievalUnavailable(GatewayFault):
    """Raised when the store of passages cannot be reached or does not answer in time.

    Of a source also when what it answers is of no use, or too much: that is no outage, a question can bring it about (`is_outage`).
    """

    type = "retrieval_unavailable"
    retryable = True

    def __init__(self, message: str = "", *, is_outage: bool = True) -> None:
        super().__init__(message)
        self.is_outage = is_outage


class RetrievalMisconfigured(GatewayFault):
    """Raised when a collection and the embedder disagree (model, dimensions, chunking): retrying cannot help."""

    type = "retrieval_misconfigured"


class CollectionNotFound(GatewayFault):
    """Raised when a question names a collection that holds nothing and was never created."""

    type = "collection_not_found"


class EmbeddingFailed(GatewayFault):
    """Raised when the embedder fails or returns vectors of the wrong number or size.

    `is_outage`: it is a server that cannot be reached, does not answer in time, or says that it cannot serve.
    """

    type = "embedding_failed"
    retryable = True

    def __init__(self, message: str = "", *, is_outage: bool = False) -> None:
        super().__init__(message)
        self.is_outage = is_outage


class DocumentUnreadable(GatewayFault):
    """Raised when a document is corrupt, empty, encrypted or of an unknown kind; the message names it and says why."""

    type = "document_unreadable"


class DocumentTooLarge(DocumentUnreadable):
    """Raised when a document has more bytes than are read; the message names it and says how many are."""

    type = "document_too_large"


class DocumentKindUnknown(DocumentUnreadable):
    """Raised when a document is of a kind that is not read; the message names it and says which are."""

    type = "unsupported_document"


class DatabaseMissing(GatewayFault):
    """Raised when no database is configured and the embedded one cannot be started; the message says what to do."""

    type = "database_missing"
