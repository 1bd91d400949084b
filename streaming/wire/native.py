"""The native wire: events as names and JSON objects, exactly as the contract lists them. Pure."""

from collections.abc import Mapping
from typing import assert_never

from retrieval.passage import Passage
from streaming.events import (
    Citation,
    Claim,
    Done,
    Event,
    Failed,
    Refusal,
    Retry,
    Sources,
    Started,
    Status,
    Token,
    Verification,
)
from streaming.wire.format import PING, QUOTED, Json, dumps, given, number
from streaming.wire.told import Told

SNIPPET_CHARACTERS = 300  # a glance at a source: about three lines

TOKEN = b'id: %b.%d\nevent: token\ndata: {"text":%b}\n\n'
CITATION = b'id: %b.%d\nevent: citation\ndata: {"n":%d,"start":%d,"end":%d%b}\n\n'


class Native:
    """An answer in the native format (wire.format.Wire): every event has an id, `<answer_id>.<n>`, n from `sent` + 1."""

    ping = PING

    def __init__(self, answer_id: str, sent: int = 0) -> None:
        self._answer_id = answer_id
        self._id = answer_id.encode("ascii")
        self._sent = sent

    @property
    def headers(self) -> Mapping[str, str]:
        return {}

    def chunk(self, batch: tuple[Event, ...]) -> bytes:
        frames = []
        for event in batch:
            self._sent += 1
            if isinstance(event, Token):  # as `frame` would write it, in 1 us instead of 6: every token passes here
                frames.append(TOKEN % (self._id, self._sent, QUOTED(event.text).encode()))
            elif isinstance(event, Citation):  # the same: some answers have one for each sentence
                quote = b"" if event.quote is None else b',"quote":%b' % QUOTED(event.quote).encode()
                frames.append(CITATION % (self._id, self._sent, event.n, event.start, event.end, quote))
            else:
                frames.append(frame(f"{self._answer_id}.{self._sent}", event))
        return b"".join(frames)


def frame(event_id: str, event: Event) -> bytes:
    """One event as it is on the wire: id, name, one line of ASCII JSON, LF line ends."""
    name, data = named(event)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event_id.encode("ascii"), name.encode("ascii"), dumps(data))


def whole(told: Told, answer_id: str, trace_id: str) -> Json:
    """The answer as one body, or `{"error": ...}` when it failed: half an answer is not passed off as one."""
    ids: Json = {"answer_id": answer_id, "trace_id": trace_id}
    if told.failed is not None:
        return {"error": named(told.failed)[1] | ids}
    return (
        ids
        | ({} if told.done is None else named(told.done)[1])
        | {
            "answer": told.text,
            "sources": [] if told.sources is None else named(told.sources)[1]["passages"],
            "citations": [named(citation)[1] for citation in told.citations],
            "retries": [named(retry)[1] for retry in told.retries],
            "refusal": None if told.refusal is None else named(told.refusal)[1],
        }
        | ({} if told.verification is None else {"verification": named(told.verification)[1]})
    )


def named(event: Event) -> tuple[str, Json]:
    """The event's name and its data. Optional fields are left out when there is nothing to say."""
    match event:
        case Started(answer_id, trace_id, question, collection):
            return "started", {
                "answer_id": answer_id,
                "trace_id": trace_id,
                "question": question,
                "collection": collection,
            }
        case Status(attempt, stage, detail):
            return "status", {"attempt": attempt, "stage": stage} | given("detail", detail)
        case Retry(attempt, verdict, missing, correction, query):
            return "retry", {
                "attempt": attempt,
                "verdict": str(verdict),
                "missing": missing,
                "correction": correction,
                "query": query,
            }
        case Sources(attempt, passages):
            return "sources", {"attempt": attempt, "passages": [source(n, passage) for n, passage in passages]}
        case Token(text):
            return "token", {"text": text}
        case Citation(n, start, end, quote):
            return "citation", {"n": n, "start": start, "end": end} | given("quote", quote)
        case Refusal():
            return "refusal", refusal(event)
        case Verification(grounded, claims):
            return "verification", {"grounded": grounded, "claims": [claim(c) for c in claims]}
        case Failed(type_, message, retryable):
            return "failed", {"type": type_, "message": message, "retryable": retryable}
        case Done(path, finish_reason, attempts, usage, timings_ms):
            return "done", {
                "path": str(path),
                "finish_reason": finish_reason,
                "attempts": attempts,
                "usage": dict(usage),
                "timings_ms": {name: number(value) for name, value in timings_ms.items()},
            }
        case _:
            assert_never(event)


def source(n: int, passage: Passage) -> Json:
    """A passage that the answer may cite, under its number."""
    return (
        {"n": n, "id": passage.id, "title": passage.title}
        | given("url", passage.url)
        | {"snippet": snippet(passage.text), "score": number(passage.score)}
    )


def refusal(event: Refusal) -> Json:
    """A refusal; `closest` are the nearest passages found, each marked as confirmed by nobody."""
    return {
        "reason": str(event.reason),
        "message": event.message,
        "missing": event.missing,
        "searched": list(event.searched),
        "gap_id": event.gap_id,
        "closest": [
            {"title": passage.title}
            | given("url", passage.url)
            | {"snippet": snippet(passage.text), "confirmed": False}
            for passage in event.closest
        ],
    }


def claim(made: Claim) -> Json:
    return {"start": made.start, "end": made.end, "supported": made.supported, "sources": list(made.sources)}


def snippet(text: str) -> str:
    """The first characters of a passage, cut at a space where one is near, with an ellipsis when something is left out."""
    if len(text) <= SNIPPET_CHARACTERS:
        return text
    cut = text[:SNIPPET_CHARACTERS]
    space = cut.rfind(" ", SNIPPET_CHARACTERS // 2)
    return (cut[:space] if space > 0 else cut).rstrip() + "…"
