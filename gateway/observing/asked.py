"""What an answer asked of others: a model for a draft or a grade, the database for passages. For the metrics of OpenTelemetry's names."""

from dataclasses import dataclass
from typing import Self

from gateway.observing import conventions as names
from gateway.observing.metric_names import PROVIDER_OLD
from gateway.observing.spans import OpenSpan

STATEMENT: dict[str, str] = {
    names.DB_SYSTEM: "postgresql",
    names.DB_OPERATION: "SELECT",
    names.DB_COLLECTION: "passage",
}
"""What every statement of a search is, on its span and in the metrics."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One call that is over. Of a model where `provider` is someone, else of the database; times in seconds.

    Tokens are those that the service itself counted, as the conventions demand; what was estimated is in `gateway.tokens` alone.
    """

    took_s: float
    error: str | None = None
    provider: str | None = None
    first_chunk_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None

    @classmethod
    def by(cls, span: OpenSpan, provider: str | None = None, first_chunk_s: float | None = None) -> Self:
        """What `span`, which has ended, was about."""
        return cls(span.lasted_s, span.error_type, provider, first_chunk_s, *span.usage)

    def labels(self) -> dict[str, str]:
        """Of all metrics that it may be counted by; "" is none."""
        error = {names.ERROR_TYPE: self.error or ""}
        if self.provider is None:
            return {**STATEMENT, **error}
        return {names.OPERATION: "chat", names.PROVIDER: self.provider, PROVIDER_OLD: self.provider, **error}
