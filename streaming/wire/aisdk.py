"""The UI message stream of the AI SDK, versions 5 to 7. Pure.

Only parts that all of these versions know: an unknown one ends the stream there with an error. What has no part of its own goes
into data parts: `data-status` (one part, updated in place), `data-citations`, `data-refusal`, `data-verification`.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from retrieval.passage import Passage
from streaming.events import Citation, Done, Event, Failed, Refusal, Sources, Started, Token, Verification
from streaming.wire import native
from streaming.wire.format import LAST, PING, Json, data, dumps, given
from streaming.wire.progress import Progress, Step

PROTOCOL = {"x-vercel-ai-ui-message-stream": "v1"}
TEXT = "answer"  # the id of the one text part


class AiSdk:
    """An answer as the parts of one UI message (wire.format.Wire)."""

    ping = PING

    def __init__(self) -> None:
        self._progress = Progress()
        self._citations: list[Json] = []
        self._text: Literal["none", "open", "closed"] = "none"
        self._before, self._after = delta(0).split(b'"delta":0')

    @property
    def headers(self) -> Mapping[str, str]:
        return PROTOCOL

    def chunk(self, batch: tuple[Event, ...]) -> bytes:
        frames: list[bytes] = []
        for event in batch:
            if isinstance(event, Token):
                if self._text == "none":
                    frames += self._open_text()
                frames.append(b'%b"delta":%b%b' % (self._before, dumps(event.text), self._after))
            else:
                frames += self._frames(event)
        return b"".join(frames)

    def _frames(self, event: Event) -> Iterator[bytes]:
        step = self._progress.step(event)
        if step is not None:
            yield part("data-status", id="status", data=status(step))
        match event:
            case Started(answer_id, trace_id):
                ids = {"answer_id": answer_id, "trace_id": trace_id}
                yield part("start", messageId=answer_id, messageMetadata=ids)
                yield part("start-step")
            case Sources(_, passages):
                yield from (source(n, passage) for n, passage in passages)
            case Citation():
                self._citations.append(native.named(event)[1])
            case Verification():
                yield part("data-verification", id="verification", data=native.named(event)[1])
            case Refusal():
                yield from self._refuse(event)
            case Failed(message=message):
                yield from self._close_text()
                yield part("error", errorText=message)
            case Done():
                yield from self._end(event)
            case _:
                pass

    def _open_text(self) -> Iterator[bytes]:
        self._text = "open"
        yield part("text-start", id=TEXT)

    def _close_text(self) -> Iterator[bytes]:
        if self._text == "open":
            self._text = "closed"
            yield part("text-end", id=TEXT)

    def _refuse(self, refusal: Refusal) -> Iterator[bytes]:
        """The refusal as text, a paragraph of its own after what was said, and as data."""
        if self._text == "none":
            yield from self._open_text()
            yield delta(refusal.message)
        else:
            yield delta(f"\n\n{refusal.message}")
        yield from self._close_text()
        yield part("data-refusal", id="refusal", data=native.refusal(refusal))

    def _end(self, done: Done) -> Iterator[bytes]:
        if done.finish_reason != "error":
            yield from self._close_text()
            if self._citations:
                yield part("data-citations", id="citations", data=self._citations)
            yield part("finish-step")
            yield part("finish", finishReason=finish_reason(done), messageMetadata=native.named(done)[1])
        yield LAST


def part(type_: str, **fields: object) -> bytes:
    return data({"type": type_, **fields})


def delta(text: object) -> bytes:
    return part("text-delta", id=TEXT, delta=text)


def status(step: Step) -> Json:
    """A line of status, and what it is about."""
    return (
        {"attempt": step.attempt, "stage": step.stage, "description": step.description, "done": step.is_over}
        | given("missing", step.missing)
        | given("query", step.query)
    )


def source(n: int, passage: Passage) -> bytes:
    """A source: one with an address, or a document without; its number, snippet and score go along."""
    more = {"gateway": native.source(n, passage)}
    if passage.url:
        return part("source-url", sourceId=passage.id, url=passage.url, title=passage.title, providerMetadata=more)
    return part(
        "source-document", sourceId=passage.id, mediaType="text/plain", title=passage.title, providerMetadata=more
    )


def finish_reason(done: Done) -> str:
    """One of the reasons that the AI SDK knows; a refusal is an answer that came to its end."""
    return done.finish_reason if done.finish_reason in ("length", "other") else "stop"
