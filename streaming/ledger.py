"""The ledger of one answer: tokens released, discarded and still billing; exact or estimated."""

from dataclasses import dataclass, field

CHARACTERS_PER_TOKEN = 4  # of English prose, for drafts whose service never gave a count


@dataclass(slots=True)
class Entry:
    """One draft's tokens. `exact` once the service has counted the finished draft; until then text gives an estimate.

    `asked` are the tokens that its request is thought to hold, `allowed` those that it may bring; `cut` says that it was told to close.
    `cached_tokens` of what it read the service had kept from before.
    `sent` are the characters that were sent of a draft whose sentences are checked first; None: whatever came of it was.
    `is_fallback`: the model that stands in for another one drafted it.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    characters: int = 0
    exact: bool = False
    released: bool = False
    closed: bool = False
    asked: int = 0
    allowed: int = 0
    cut: bool = False
    is_fallback: bool = False
    sent: int | None = None

    def count(self, input_tokens: int, output_tokens: int, cached_tokens: int) -> None:
        """What the service has counted by now."""
        self.input_tokens, self.output_tokens, self.cached_tokens = input_tokens, output_tokens, cached_tokens

    @property
    def tokens(self) -> int:
        """Output tokens: the service's count when it is final, else the greater of its last count and the text's estimate."""
        return (
            self.output_tokens if self.exact else max(self.output_tokens, -(-self.characters // CHARACTERS_PER_TOKEN))
        )

    @property
    def released_tokens(self) -> int:
        """Output tokens that were sent; of a draft that was sent in part its share by characters, rounded up."""
        if not self.released:
            return 0
        return -(-self.tokens * (self.sent or 0) // self.characters) if self.is_parted else self.tokens

    @property
    def is_parted(self) -> bool:
        """Whether a part of it was sent and the rest was not: how many tokens each has is then an estimate."""
        return self.released and self.sent is not None and self.sent < self.characters

    @property
    def _is_running(self) -> bool:
        return not (self.closed or self.cut or self.exact)

    @property
    def committed_input(self) -> int:
        """Input tokens, of a running draft those that it is thought to have at least."""
        return max(self.input_tokens, self.asked) if self._is_running else self.input_tokens

    @property
    def committed_output(self) -> int:
        """Output tokens, of a running draft those that it may come to have."""
        return max(self.tokens, self.allowed) if self._is_running else self.tokens


@dataclass(slots=True)
class Ledger:
    entries: list[Entry] = field(default_factory=list)

    def open(self, asked: int = 0, allowed: int = 0, *, is_fallback: bool = False) -> Entry:
        """A new draft's entry (see Entry)."""
        self.entries.append(Entry(asked=asked, allowed=allowed, is_fallback=is_fallback))
        return self.entries[-1]

    @property
    def committed_input(self) -> int:
        return sum(e.committed_input for e in self.entries)

    @property
    def committed_output(self) -> int:
        return sum(e.committed_output for e in self.entries)

    @property
    def input_tokens(self) -> int:
        return sum(e.input_tokens for e in self.entries)

    @property
    def cached_tokens(self) -> int:
        return sum(e.cached_tokens for e in self.entries)

    @property
    def output_tokens(self) -> int:
        return sum(e.tokens for e in self.entries)

    def usage(self) -> dict[str, int | bool]:
        """The sums as `done` reports them; `still_billing` are tokens of drafts whose request is not yet known to be closed.

        Where the model that stands in was asked, `fallback_tokens` are those of its drafts, released or not.
        """
        stood_in = [e for e in self.entries if e.is_fallback]
        released_tokens = sum(e.released_tokens for e in self.entries)
        return {
            "input_tokens": self.input_tokens,
            "released_tokens": released_tokens,
            "discarded_tokens": self.output_tokens - released_tokens,
            "still_billing_tokens": sum(e.tokens for e in self.entries if not e.closed and not e.exact),
            "exact": all(e.exact and not e.is_parted for e in self.entries),
            **({"cached_tokens": self.cached_tokens} if self.cached_tokens else {}),
            **({"fallback_tokens": sum(e.tokens for e in stood_in)} if stood_in else {}),
        }
