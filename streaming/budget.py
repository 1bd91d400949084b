"""The budget of one answer: attempts, time, tokens. Every bound is hard."""

from dataclasses import dataclass

from streaming.room import HOLD_LIMIT_BYTES

MAX_RETRIES = 2  # more than two corrections cost more time than they recover answers


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one answer. `max_retries` corrections follow the first attempt at most; times in seconds."""

    max_retries: int = 1
    deadline_s: float = 60.0
    grade_timeout_s: float = 10.0
    output_tokens: int = 1024
    hold_bytes: int = HOLD_LIMIT_BYTES
    redrafts: int = 1
    k: int = 5
    strict_subset: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.max_retries <= MAX_RETRIES:
            raise ValueError(f"max_retries is {self.max_retries}; it must be between 0 and {MAX_RETRIES}")

    def allows_retry_after(self, attempt: int) -> bool:
        """Whether another attempt may follow attempt number `attempt`."""
        return attempt <= self.max_retries
