"""The events of a Messages stream -> the pieces of a draft. Pure.

Source of the event flow: https://platform.claude.com/docs/en/build-with-claude/streaming
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from gateway.providers.claude.faults import fault_inside, unavailable
from gateway.providers.claude.frames import Frames
from streaming.faults import AnswerIncomplete, GeneratorFault
from streaming.ports import Cited, Piece, Stopped, StopReason, Text, Usage

STOPS: Mapping[str, StopReason] = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.END,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "refusal": StopReason.REFUSAL,
}
CACHED = ("cache_creation_input_tokens", "cache_read_input_tokens")  # counted beside input_tokens, and billed


@dataclass(slots=True)
class Block:
    """A content block being said: where its text starts in the answer, and what it rests on."""

    start: int
    citations: list[tuple[int, str | None]] = field(default_factory=list)


class Decoder:
    """Reads one draft. `numbers` are the passage numbers of the request's search results, in their order."""

    def __init__(self, numbers: tuple[int, ...], model: str) -> None:
        self._numbers = numbers
        self._model = model
        self._frames = Frames()
        self._length = 0  # characters of answer text so far
        self._blocks: dict[int, Block] = {}
        self._usage: Usage | None = None
        self._final: Usage | None = None
        self._stop: StopReason | None = None
        self._fault: GeneratorFault | None = None
        self.is_ended = False
        self.heard = 0  # events other than pings: what shows that the model is at work

    @property
    def is_stopping(self) -> bool:
        """Whether the stop reason is known."""
        return self._stop is not None

    @property
    def has_spoken(self) -> bool:
        """Whether there was a text."""
        return self._length > 0

    def feed(self, data: bytes) -> tuple[Piece, ...]:
        """The pieces that one read completes, neighbouring texts joined; `Stopped` is not among them: see `end`.

        A citation comes when its block ends, after the text it covers. Thinking, pings and events of unknown kinds bring nothing.
        An error event ends the draft, after what came before it. Raises GeneratorUnavailable for bytes that are not such a stream.
        """
        try:
            events = self._frames.feed(data)
        except (ValueError, RecursionError) as error:
            raise unavailable("sent something that is not an event stream") from error
        said: list[Piece | str] = []
        for event in events:
            try:
                self._read(event, said)
            except (KeyError, TypeError, AttributeError) as error:
                raise unavailable("sent an event that is not of its form") from error
            if self._fault is not None:
                break
        return tuple(joined(said))

    def end(self) -> tuple[Piece, ...]:
        """The last pieces, at `message_stop` or when the body has ended: open citations, and `Stopped`.

        A stop reason without a `message_stop` is enough. Raises the GeneratorFault that an error event named, or AnswerIncomplete
        where there was no stop reason.
        """
        if self._fault is not None:
            raise self._fault
        if self._stop is None:
            raise AnswerIncomplete(f"the model's stream ended without a stop reason after {self._length} characters")
        said: list[Piece | str] = []
        for index in tuple(self._blocks):
            self._end_block(index, said)
        return (*joined(said), Stopped(self._stop, self._final))

    def _read(self, event: dict[str, Any], said: list[Piece | str]) -> None:
        kind = event["type"]
        if kind != "ping":
            self.heard += 1
        match kind:
            case "content_block_delta":
                index, delta = event["index"], event["delta"]
                if delta["type"] == "text_delta":
                    self._say(delta["text"], said)
                elif delta["type"] == "citations_delta":
                    self._cite(index, delta["citation"])
            case "content_block_start":
                self._start_block(event["index"], event["content_block"], said)
            case "content_block_stop":
                self._end_block(event["index"], said)
            case "message_start":
                self._usage = used(event["message"]["usage"], None)
                said.append(self._usage)
            case "message_delta":
                self._stopping(event, said)
            case "message_stop":
                self.is_ended = True
            case "error":
                self._fault, self.is_ended = fault_inside(event["error"].get("type"), self._model), True
            case _:
                pass

    def _start_block(self, index: int, block: dict[str, Any], said: list[Piece | str]) -> None:
        if block["type"] != "text":
            return
        self._blocks[index] = Block(self._length)
        for citation in block.get("citations") or ():
            self._cite(index, citation)
        self._say(block.get("text") or "", said)

    def _say(self, text: str, said: list[Piece | str]) -> None:
        if not text:
            return
        if not isinstance(text, str):
            raise TypeError
        self._length += len(text)
        said.append(text)

    def _cite(self, index: int, citation: dict[str, Any]) -> None:
        place = citation.get("search_result_index")
        block = self._blocks.get(index)
        if block is not None and type(place) is int and 0 <= place < len(self._numbers):
            block.citations.append((self._numbers[place], citation.get("cited_text")))

    def _end_block(self, index: int, said: list[Piece | str]) -> None:
        block = self._blocks.pop(index, None)
        if block is not None and block.start < self._length:
            found = dict.fromkeys(block.citations)
            said.extend(Cited(n, block.start, self._length, quote) for n, quote in found)

    def _stopping(self, event: dict[str, Any], said: list[Piece | str]) -> None:
        if reason := event["delta"].get("stop_reason"):
            self._stop = STOPS.get(reason, StopReason.OTHER)
        if counts := event.get("usage"):
            self._usage = self._final = used(counts, self._usage)
            if self._stop is None:
                said.append(self._usage)


def joined(said: Iterable[Piece | str]) -> Iterator[Piece]:
    """What was said, with the texts that follow each other as one: a piece for each token would be most of a token's price."""
    for kind, run in groupby(said, type):
        if kind is str:
            yield Text("".join(run))  # type: ignore[arg-type]
        else:
            yield from run  # type: ignore[misc]


def used(counts: dict[str, Any], before: Usage | None) -> Usage:
    """The tokens that a `usage` object counts; what it leaves out is as `before`. Input includes what was cached."""
    output_tokens = tokens(counts.get("output_tokens"))
    said = counts.get("input_tokens")
    if said is None:
        return Usage(before.input_tokens, output_tokens, before.cached_tokens) if before else Usage(0, output_tokens)
    written, read = (tokens(counts.get(name)) for name in CACHED)
    return Usage(tokens(said) + written + read, output_tokens, read)


def tokens(count: object) -> int:
    """`count`, where it is one; 0 for what a service, or a proxy before it, says in its place: nothing that is summed up rests on that."""
    return count if type(count) is int and count > 0 else 0
