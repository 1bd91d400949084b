"""A whole answer: everything that one answer told, for a client that asked for no stream. Pure."""

from dataclasses import dataclass, field

from streaming.events import Citation, Done, Event, Failed, Refusal, Retry, Sources, Started, Token, Verification


@dataclass(slots=True)
class Told:
    """Takes the events of one answer in order; complete once it took `Done`."""

    started: Started | None = None
    pieces: list[str] = field(default_factory=list)
    citations: list[Citation] = field(default_factory=list)
    retries: list[Retry] = field(default_factory=list)
    sources: Sources | None = None
    verification: Verification | None = None
    refusal: Refusal | None = None
    failed: Failed | None = None
    done: Done | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def has_answer(self) -> bool:
        """Whether there is answer text that did not end in a fault."""
        return self.failed is None and bool(self.pieces)

    def take(self, event: Event) -> None:
        match event:
            case Started():
                self.started = event
            case Token(text):
                self.pieces.append(text)
            case Citation():
                self.citations.append(event)
            case Retry():
                self.retries.append(event)
            case Sources():
                self.sources = event
            case Verification():
                self.verification = event
            case Refusal():
                self.refusal = event
            case Failed():
                self.failed = event
            case Done():
                self.done = event
            case _:
                pass
