"""The wire of OpenAI's Chat Completions, streaming and whole. Pure.

What that interface has no word for goes where its clients were seen to pass it over or to show it: a status line or a source under the
chunk's key `event`, the sources under `citations` and `search_results`, what became of the answer under `gateway`.
A refusal is content, because clients show an empty message for anything else.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from retrieval.passage import Passage
from streaming.events import Citation, Done, Event, Failed, Refusal, Sources, Started, Token
from streaming.wire import native
from streaming.wire.format import LAST, PING, Json, data, dumps, given
from streaming.wire.progress import Progress, Step
from streaming.wire.told import Told


@dataclass(frozen=True, slots=True)
class Heading:
    """What is the same in every chunk of an answer: its id, the model's name as it was asked for, when it was made (Unix seconds)."""

    answer_id: str
    model: str
    created: int

    def fields(self, kind: str) -> Json:
        return {"id": f"chatcmpl-{self.answer_id}", "object": kind, "created": self.created, "model": self.model}


class OpenAI:
    """An answer as chat completion chunks (wire.format.Wire). Chunks have no ids of their own: the SDK fails on a ping after one (H1)."""

    ping = PING

    def __init__(self, heading: Heading, *, with_usage: bool = False) -> None:
        self._heading = heading.fields("chat.completion.chunk")
        self._with_usage = with_usage
        self._progress = Progress()
        self._passages: dict[int, Passage] = {}
        self._citations = 0
        self._has_text = False
        self._refusal: Refusal | None = None
        self._has_failed = False
        marked = self._chunk(
            {"content": 0}
        )  # a token is written between the two halves: the rest of its chunk is encoded once
        self._before, self._after = marked.split(b'"content":0')

    @property
    def headers(self) -> Mapping[str, str]:
        return {}

    def chunk(self, batch: tuple[Event, ...]) -> bytes:
        frames: list[bytes] = []
        for event in batch:
            if isinstance(event, Token):
                self._has_text = True
                frames.append(b'%b"content":%b%b' % (self._before, dumps(event.text), self._after))
            else:
                frames += self._frames(event)
        return b"".join(frames)

    def _frames(self, event: Event) -> Iterator[bytes]:
        step = self._progress.step(event)
        if step is not None:
            yield self._chunk({}, more={"event": status(step)})
        match event:
            case Started():
                yield self._chunk({"role": "assistant", "content": ""})
            case Sources(_, passages):
                yield from self._sources(passages)
            case Citation():
                yield self._chunk({"annotations": [{"index": self._citations} | annotation(event, self._passages)]})
                self._citations += 1
            case Refusal(message=message):
                self._refusal = event
                yield self._chunk({"content": after(message, self._has_text)})
            case Failed(type_, message):
                self._has_failed = True
                yield data(error(message, "server_error", type_))
            case Done() if not self._has_failed:
                yield from self._end(event)
            case _:
                pass

    def _sources(self, passages: tuple[tuple[int, Passage], ...]) -> Iterator[bytes]:
        self._passages = dict(passages)
        yield self._chunk({}, more=listed(passages))
        for _, passage in passages:
            yield self._chunk({}, more={"event": source(passage)})

    def _end(self, done: Done) -> Iterator[bytes]:
        yield self._chunk({}, finish_reason(done), {"gateway": outcome(done, self._refusal)})
        if self._with_usage:
            yield data(self._heading | {"choices": [], "usage": usage(done)})
        yield LAST

    def _chunk(self, delta: Json, finish: str | None = None, more: Json | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return data(
            self._heading | {"choices": [choice]} | ({"usage": None} if self._with_usage else {}) | (more or {})
        )


def whole(told: Told, heading: Heading) -> Json:
    """The answer as one completion, or `{"error": ...}` when it failed."""
    if told.failed is not None:
        return error(told.failed.message, "server_error", told.failed.type)
    assert told.done is not None
    passages = () if told.sources is None else told.sources.passages
    refused = "" if told.refusal is None else after(told.refusal.message, bool(told.pieces))
    numbered = dict(passages)
    message: Json = {
        "role": "assistant",
        "content": told.text + refused,
        "refusal": None,
        "annotations": [annotation(citation, numbered) for citation in told.citations],
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(told.done)}
    return (
        heading.fields("chat.completion")
        | {"choices": [choice], "usage": usage(told.done)}
        | listed(passages)
        | {"gateway": outcome(told.done, told.refusal)}
    )


def model(name: str, created: int) -> Json:
    """One model of the list of models."""
    return {"id": name, "object": "model", "created": created, "owned_by": "gateway"}


def error(message: str, kind: str, code: str, param: str | None = None) -> Json:
    """A fault: `kind` is one of OpenAI's, `code` our own name for it, `param` the field that is wrong."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def status(step: Step) -> Json:
    return {"type": "status", "data": {"description": step.description, "done": step.is_over}}


def source(passage: Passage) -> Json:
    """A source as Open WebUI shows it; annotations with the same address are gathered under it."""
    named = {"name": passage.title} | given("url", passage.url)
    return {
        "type": "source",
        "data": {
            "source": named,
            "document": [native.snippet(passage.text)],
            "metadata": [{"source": address(passage), "name": passage.title}],
        },
    }


def listed(passages: Iterable[tuple[int, Passage]]) -> Json:
    """The sources as Perplexity lists them, in the order of their numbers."""
    ordered = [passage for _, passage in passages]
    return {
        "citations": [address(passage) for passage in ordered],
        "search_results": [{"title": passage.title, "url": address(passage)} for passage in ordered],
    }


def annotation(citation: Citation, passages: Mapping[int, Passage]) -> Json:
    """Which characters of the content rest on which source."""
    passage = passages.get(citation.n)
    return {
        "type": "url_citation",
        "url_citation": {
            "url": "" if passage is None else address(passage),
            "title": "" if passage is None else passage.title,
            "start_index": citation.start,
            "end_index": citation.end,
        },
    }


def address(passage: Passage) -> str:
    """Where the passage is: its address, else a name that no browser opens."""
    return passage.url or f"urn:passage:{passage.id}"


def after(message: str, has_text: bool) -> str:
    """A refusal as it stands in the content: a paragraph of its own after what was already said."""
    return f"\n\n{message}" if has_text else message


def finish_reason(done: Done) -> str:
    return "length" if done.finish_reason == "length" else "stop"


def usage(done: Done) -> Json:
    """Tokens in all, and those of the answer."""
    read, written = int(done.usage.get("input_tokens", 0)), int(done.usage.get("released_tokens", 0))
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def outcome(done: Done, refusal: Refusal | None) -> Json:
    """What became of the answer: the native `done`, and the native `refusal` where it is one."""
    return native.named(done)[1] | given("refusal", None if refusal is None else native.refusal(refusal))
