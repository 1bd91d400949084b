"""The gate: HELD until the verdict, then RELEASED or DISCARDED, once. Pure: it says what to do, it does nothing.

Every way that a draft, a verdict and their faults can interleave is decided here and nowhere else:

| verdict      | draft runs              | draft has finished      | draft has failed                                    |
|--------------|-------------------------|-------------------------|-----------------------------------------------------|
| none yet     | hold                    | hold                    | draft again unseen while that may help, else wait   |
| sufficient   | send held, go on        | send held, answered     | draft again if nothing was sent, else broken        |
| not enough   | close draft, discarded  | discarded               | discarded: the fault concerns nobody                |
| unavailable  | close draft, unjudged   | unjudged                | unjudged                                            |
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from grading.grade import Grade
from retrieval.faults import GatewayFault
from streaming.faults import AnswerIncomplete
from streaming.ports import Cited, Piece, Stopped, StopReason, Text
from streaming.room import Weight

NEEDS_A_WORD = (StopReason.END, StopReason.OTHER)  # a model declines, and a budget ends, also without one
QUOTE_BYTES = 8_192  # a quote is a piece of a passage; of a longer one no more is counted, so that any one fits


class State(Enum):
    HELD = auto()
    RELEASED = auto()
    DISCARDED = auto()


@dataclass(frozen=True, slots=True)
class Drafted:
    """Draft number `draft` brought `pieces`."""

    draft: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class DraftFailed:
    """`is_final`: drafting again cannot help in time, also where the fault is one that passes."""

    draft: int
    fault: GatewayFault
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Graded:
    grade: Grade


@dataclass(frozen=True, slots=True)
class GradeFailed:
    fault: GatewayFault


Signal = Drafted | DraftFailed | Graded | GradeFailed
"""What the gate hears."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The draft was released and ended by itself."""

    grade: Grade
    stop: Stopped


@dataclass(frozen=True, slots=True)
class Discarded:
    """The set does not support an answer; nothing of the draft was sent."""

    grade: Grade


@dataclass(frozen=True, slots=True)
class Unjudged:
    """No verdict could be had; nothing of the draft was sent."""

    fault: GatewayFault


@dataclass(frozen=True, slots=True)
class Broken:
    """The set supports an answer, but the draft failed and drafting again is not possible."""

    fault: GatewayFault


@dataclass(frozen=True, slots=True)
class Ungrounded:
    """The answer said `sentence`, which its passages do not; `is_sent` when part of the answer was sent before it."""

    grade: Grade
    sentence: str
    is_sent: bool


@dataclass(frozen=True, slots=True)
class Spent:
    """No tokens are left for the draft that would have to come next; nothing was sent."""


Ending = Answered | Discarded | Unjudged | Broken | Ungrounded | Spent


@dataclass(frozen=True, slots=True)
class Step:
    """What to do now, in this order: close the running draft, start another one, send, end.

    `opened` is true in the one step that releases. `draft_from` holds the passage numbers to draft from, None for no new draft.
    `dropped` was held or came, and is not to be sent.
    """

    opened: bool = False
    close: bool = False
    draft_from: tuple[int, ...] | None = None
    send: tuple[Piece, ...] = ()
    dropped: tuple[Piece, ...] = ()
    ending: Ending | None = None


NOTHING = Step()


class Gate:
    """One attempt's gate over passages numbered 1 to `passages`.

    `drafting` says that draft number 1 starts before the verdict. With `strict_subset` a released answer rests on the
    passages graded relevant alone: a draft that saw more is discarded and generated again (the rule of the
    corrective-RAG paper; without speculation it always holds). `citable` are the passage numbers that the answer may
    cite. `redrafts` bounds how often a failed draft is started again while nothing of it was sent.
    """

    def __init__(self, passages: int, *, drafting: bool, strict_subset: bool = False, redrafts: int = 1) -> None:
        self.state = State.HELD
        self.draft = 1 if drafting else 0
        self.held: list[Piece] = []
        self._all = tuple(range(1, passages + 1))
        self._from = self._all
        self._strict_subset = strict_subset
        self._redrafts = redrafts
        self._grade: Grade | None = None
        self._fault: GatewayFault | None = None
        self.citable = self._all
        self._sent = False  # a text or a citation, be it blank
        self._said = False  # a word
        self._ended = False

    @property
    def held_bytes(self) -> int:
        """Bytes of text and quotes that are now held."""
        return sum(weight(self.held))

    def step(self, signal: Signal) -> Step:
        """What follows from `signal`. Signals of an earlier draft, or after the end, change nothing."""
        if self._ended:
            return NOTHING
        match signal:
            case Graded(grade):
                step = self._graded(grade)
            case GradeFailed(fault):
                step = self._unjudged(fault)
            case Drafted(draft, pieces):
                step = self._drafted(pieces) if draft == self.draft else NOTHING
            case DraftFailed(draft, fault, is_final):
                step = self._failed(fault, is_final=is_final) if draft == self.draft else NOTHING
        self._ended = step.ending is not None
        return step

    def _graded(self, grade: Grade) -> Step:
        if self.state is not State.HELD:
            return NOTHING
        if not grade.is_sufficient:
            return self._discard(Discarded(grade))
        self.state, self._grade = State.RELEASED, grade
        relevant = grade.relevant or self._all
        self.citable = relevant
        if self.draft == 0 or (self._strict_subset and relevant != self._all):
            return self._start(relevant, opened=True)
        if self._fault is not None:
            return Step(ending=Broken(self._fault))
        return self._send(tuple(self.held), opened=True)

    def _unjudged(self, fault: GatewayFault) -> Step:
        return self._discard(Unjudged(fault)) if self.state is State.HELD else NOTHING

    def _drafted(self, pieces: tuple[Piece, ...]) -> Step:
        if self.state is State.HELD:
            self.held.extend(pieces)
            return NOTHING
        return self._send(pieces, opened=False)

    def _failed(self, fault: GatewayFault, *, opened: bool = False, is_final: bool = False) -> Step:
        self.held.clear()
        if fault.retryable and not is_final and self._redrafts > 0 and not self._sent:
            self._redrafts -= 1
            return self._start(self._from, opened=opened)
        if self.state is State.HELD:
            self._fault = fault  # only a sufficient verdict makes this anyone's concern
            return NOTHING
        return Step(ending=Broken(fault))

    def _start(self, numbers: tuple[int, ...], *, opened: bool) -> Step:
        close = self.draft > 0
        self.draft += 1
        self.held.clear()
        self._from = numbers
        return Step(opened=opened, close=close, draft_from=numbers)

    def _discard(self, ending: Ending) -> Step:
        self.state = State.DISCARDED
        self.held.clear()
        return Step(close=True, ending=ending)

    def _send(self, pieces: tuple[Piece, ...], *, opened: bool) -> Step:
        self.held.clear()
        dropped = tuple(p for p in pieces if isinstance(p, Cited) and p.n not in self.citable)
        send = tuple(p for p in pieces if p not in dropped) if dropped else pieces
        self._said = self._said or any(isinstance(p, Text) and p.text.strip() for p in send)
        stop = pieces[-1] if pieces and isinstance(pieces[-1], Stopped) else None
        if stop is not None and stop.reason in NEEDS_A_WORD and not self._said:
            return self._failed(AnswerIncomplete("the model ended its answer without a word"), opened=opened)
        self._sent = self._sent or any(isinstance(p, Text | Cited) for p in send)
        assert self._grade is not None
        return Step(opened=opened, send=send, dropped=dropped, ending=Answered(self._grade, stop) if stop else None)


def bytes_of(text: str) -> int:
    """Its UTF-8 bytes; a lone surrogate counts as three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def text_bytes(pieces: Iterable[Piece]) -> int:
    """UTF-8 bytes of the text in `pieces`. Lean: it is asked several times for every token."""
    size = 0
    for piece in pieces:
        if isinstance(piece, Text):
            size += bytes_of(piece.text)
    return size


def weight(pieces: Iterable[Piece]) -> Weight:
    """What `pieces` count for against the bounds on what is held; of each citation's quote at most QUOTE_BYTES.

    Lean as `text_bytes`: it is asked twice for every token.
    """
    text = quotes = 0
    for piece in pieces:
        if isinstance(piece, Text):
            text += bytes_of(piece.text)
        elif isinstance(piece, Cited) and piece.quote is not None:
            quotes += min(QUOTE_BYTES, bytes_of(piece.quote))
    return text, quotes
