"""What the race needs from others: Generator, Speculator, GapLog, Observer."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from retrieval.passage import Passage
from streaming.facts import Fact, Weighed


@dataclass(frozen=True, slots=True)
class Turn:
    """One earlier turn of the conversation; `role` is `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a generator answers from: the question as graded, and numbered passages (number, passage).

    The numbers are those of the set that was graded, also when only a subset is given, so that a citation means the same everywhere.
    """

    question: str
    passages: tuple[tuple[int, Passage], ...]
    history: tuple[Turn, ...] = ()
    max_tokens: int = 1024


@dataclass(frozen=True, slots=True)
class Text:
    """A run of answer text. `is_claim` is false for words about the answer itself, which no passage can support."""

    text: str
    is_claim: bool = True


@dataclass(frozen=True, slots=True)
class Cited:
    """Characters `start` to `end` of this draft's text rest on passage number `n`; `quote` are the passage's own words."""

    n: int
    start: int
    end: int
    quote: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens counted by the model's service so far (cumulative); `cached_tokens` are those of the input that it had kept from before."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0


class StopReason(StrEnum):
    """Why a draft ended by itself."""

    END = "stop"
    LENGTH = "length"
    REFUSAL = "refusal"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Stopped:
    """The end of a draft; always its last piece. `usage` is None where the service gave no final count."""

    reason: StopReason
    usage: Usage | None = None


Piece = Text | Cited | Usage | Stopped


class Draft(Protocol):
    """An answer being generated. One task opens, reads and closes it."""

    def __aiter__(self) -> AsyncIterator[tuple[Piece, ...]]:
        """Batches of pieces: what one read from upstream brought, in order. An empty one says that the model is at work.

        Text pieces joined are the answer; a `Cited` comes after the text it covers. The last piece of the last batch is `Stopped`, and
        there is exactly one; a stream that ends otherwise raises AnswerIncomplete. Raises subclasses of GeneratorFault.
        Nothing is read ahead of the consumer beyond one socket read.
        """
        ...

    def cut(self) -> None:
        """Closes the upstream request before anything else runs, where that needs no waiting. Raises nothing, and may come at any time.

        For whoever has just cancelled the task that reads, which would close it some turns of the event loop later; `aclose` follows.
        """
        ...

    async def aclose(self) -> None:
        """Closes the upstream request at once, and an iterator that was not exhausted. Idempotent.

        Must be quick; is called under a bounded shield, by the task that read.
        """
        ...


class Generator(Protocol):
    """A source of drafts."""

    @property
    def name(self) -> str:
        """The model's name, from a closed set per deployment."""
        ...

    async def draft(self, prompt: Prompt) -> Draft:
        """Opens the upstream request and returns the draft.

        Raises subclasses of GeneratorFault. Cancelled while opening (the model is silent), it closes the request before it re-raises.
        """
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to draft before the verdict: `delay_s` None waits for the verdict, 0 drafts at once, more drafts later.

    `why` is a word from a closed set: always, never; likely, cheap, unlikely, spent, pressed (streaming.speculate). Before its verdict the
    draft holds `hold_tokens` at most, by the ledger's estimate; None for as many as the limits allow. `looks_ahead`: the set will hardly
    do, so that a wider one is worth finding, grading and drafting on beside it.
    """

    delay_s: float | None
    why: str
    p_sufficient: float | None = None
    hold_tokens: int | None = None
    weighed: Weighed | None = None
    looks_ahead: bool = False


class Speculator(Protocol):
    """Decides, from what retrieval already knows, whether to draft before the verdict; and learns from what came of it."""

    def decide(self, question: str, passages: tuple[Passage, ...]) -> Decision:
        """A decision for a non-empty set (an empty one is never drafted on). Takes a millisecond at most, and waits for nothing."""
        ...

    def learn(self, fact: Fact) -> None:
        """Is told every fact of the answer, as an Observer is."""
        ...


@dataclass(frozen=True, slots=True)
class Gap:
    """A coverage gap: the stored record of a refusal."""

    question: str
    missing: str | None
    reason: str
    searched: tuple[str, ...]
    attempts: int
    collection: str
    tenant: str
    answer_id: str


class GapLog(Protocol):
    """Keeps coverage gaps."""

    async def record(self, gap: Gap) -> str | None:
        """The id of the stored gap; None when it could not be stored. Never raises but for cancellation."""
        ...


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer that was checked and kept: its text, its citations, and the numbered passages they rest on."""

    text: str
    citations: tuple[Cited, ...]
    passages: tuple[tuple[int, Passage], ...]


class AnswerCache(Protocol):
    """Keeps verified answers by the meaning of their question, within a tenant and collection.

    An answer is forgotten when a document it cites changes. Never raises but for cancellation.
    """

    async def find(self, question: str, collection: str, tenant: str) -> Kept | None:
        """The kept answer to a question of the same meaning, if there is one."""
        ...

    async def keep(self, question: str, collection: str, tenant: str, answer: Kept) -> None:
        """Keeps `answer` for next time."""
        ...


class Observer(Protocol):
    """Is told what happens, synchronously; must not raise, block or change anything."""

    def note(self, fact: Fact) -> None: ...
