"""The Messages API as bytes: what a scripted model says, as the public documentation says it looks. Pure.

Sources: https://platform.claude.com/docs/en/build-with-claude/streaming, .../citations, .../search-results, .../api/errors
"""

import json
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from gateway.bench.messages_log import Kind
from gateway.providers.script import Fault, FaultKind, GraderFault, Script, marked

WIRE_MARKER = re.compile(r"\[\[\s*wire:(.*?)\]\]", re.DOTALL)
ERRORS = {
    FaultKind.OVERLOADED: (529, "overloaded_error", "Overloaded"),
    FaultKind.RATE_LIMITED: (429, "rate_limit_error", "This request would exceed your rate limit."),
    FaultKind.SERVER_ERROR: (500, "api_error", "Internal server error"),
    FaultKind.UNAUTHORIZED: (401, "authentication_error", "invalid x-api-key"),
    FaultKind.BAD_REQUEST: (400, "invalid_request_error", "messages: text content blocks must be non-empty"),
}
STOP_REASONS = {
    FaultKind.REFUSAL: "refusal",
    FaultKind.MAX_TOKENS: "max_tokens",
    FaultKind.OTHER: "brand_new_reason",
}
BodyEnd = Literal["whole", "cut", "never"]
KINDS: dict[str, Kind] = {
    "verdict": "grader",
    "parts": "passages",
    "query": "rewriter",
    "questions": "rewriter",
    "question": "rewriter",
    "filters": "rewriter",
    "sentences": "verifier",
}
"""What a request wants, by a property of the answer's schema."""
LOOKBACK = 20  # blocks before a marked one whose prefix is looked for among what was kept
THINKING = "a1d1thought "  # must never be taken for text


@dataclass(frozen=True, slots=True)
class Wire:
    """How the bytes look, from `[[wire: key=value ...]]` in the question.

    `thinking`: deltas of a thinking block before the text; `pings`: before the first token; `ping_ms`: pings all through a stall;
    `unknown`: 1 adds events, blocks, deltas and fields that nobody knows; `split`: bytes per HTTP chunk; `crlf`: 1 for CRLF line
    ends; `cite_first`: 1 puts the citation before its text; `linger_ms`: silence between `message_stop` and the end of the body;
    `break_end`: 1 breaks the connection where the body would end; `retry_after`: seconds, with a 429 or 529.
    """

    thinking: int = 0
    pings: int = 0
    ping_ms: int = 0
    unknown: int = 0
    split: int = 0
    crlf: int = 0
    cite_first: int = 0
    linger_ms: int = 0
    break_end: int = 0
    retry_after: int = 0

    @staticmethod
    def parse(question: str) -> "Wire":
        """The wire of `question`. Raises ValueError for an unknown key."""
        known = {field.name for field in fields(Wire)}
        found = dict(marked(question, WIRE_MARKER))
        if unknown := found.keys() - known:
            raise ValueError(f"unknown keys in a wire marker: {sorted(unknown)}")
        return replace(Wire(), **{key: int(value) for key, value in found.items()})


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of a body, due so many seconds after the request; `tokens` of the answer are in them."""

    due_s: float
    data: bytes
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer. `end` is how its body ends: properly, by breaking the connection, or never.

    `due_s` is when the status line is written, None for never. `tokens` are those of a reply that is no stream.
    """

    parts: Iterator[Part]
    status: int = 200
    content_type: str = "text/event-stream; charset=utf-8"
    due_s: float | None = 0.0
    end: BodyEnd = "whole"
    linger_s: float = 0.0
    retry_after: int = 0
    split: int = 0
    tokens: int = 0

    @property
    def is_stream(self) -> bool:
        return self.content_type.startswith("text/event-stream")


@dataclass(frozen=True, slots=True)
class Request:
    """What a request asks, as far as a script needs to know it."""

    kind: Kind
    wanted: str
    model: str
    question: str
    passages: tuple[str, ...]
    lines: tuple[dict[str, Any], ...]
    results: tuple[dict[str, Any], ...]
    max_tokens: int
    is_streamed: bool
    input_tokens: int
    prefixes: "tuple[Prefix, ...]" = ()
    read_tokens: int = 0
    kept_tokens: int = 0

    def known(self, kept: Container[object]) -> "Request":
        """It, with how much of it was kept from before, and how much of it is now."""
        read = next((prefix.tokens for prefix in self.prefixes if prefix.text in kept), 0)
        marked = next((prefix.tokens for prefix in self.prefixes if prefix.is_marked), 0)
        return replace(self, read_tokens=read, kept_tokens=max(0, marked - read))

    @staticmethod
    def parse(body: bytes) -> "Request":
        """Raises KeyError, ValueError, IndexError or TypeError for a body that is no Messages request."""
        sent = json.loads(body)
        content = sent["messages"][-1]["content"]
        blocks: list[dict[str, Any]] = content
        if isinstance(content, str):
            blocks = [{"type": "text", "text": content}]
        results = tuple(block for block in blocks if block["type"] == "search_result")
        spoken = [block["text"] for block in blocks if block["type"] == "text"]
        texts = tuple("".join(part["text"] for part in result["content"]) for result in results)
        schema = sent.get("output_config", {}).get("format", {}).get("schema", {})
        wanted = next((name for name in KINDS if name in schema.get("properties", {})), "")
        lines = [json.loads(line) for line in "".join(spoken).split("\n")] if wanted else []
        question = next(line["question"] for line in lines if "question" in line) if wanted else spoken[-1]
        enveloped = tuple(line["text"] for line in lines if "passage" in line)
        return Request(
            kind=KINDS[wanted] if wanted else "generator",
            wanted=wanted,
            model=sent["model"],
            question=question,
            passages=enveloped or texts,
            lines=tuple(lines),
            results=results,
            max_tokens=sent["max_tokens"],
            is_streamed=bool(sent.get("stream")),
            input_tokens=len(body) // 4,
            prefixes=prefixes_of(sent),
        )


def prefixes_of(sent: dict[str, Any]) -> "tuple[Prefix, ...]":
    """What of a request can be kept: all up to each block that is marked, and where it is marked what may have been kept up to the LOOKBACK
    blocks before it; longest first. What decides is the model, the form that is asked for, and every byte before."""
    so_far = json.dumps([sent["model"], sent.get("output_config"), sent.get("system")])
    found: list[Prefix] = []
    for message in sent["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            is_marked = "cache_control" in block
            so_far += json.dumps([message["role"], {k: v for k, v in block.items() if k != "cache_control"}])
            found.append(Prefix(so_far, is_marked))
    last = max((place for place, prefix in enumerate(found) if prefix.is_marked), default=-1)
    return tuple(reversed(found[max(0, last - LOOKBACK) : last + 1]))


@dataclass(frozen=True, slots=True)
class Prefix:
    """The beginning of a request; `is_marked`: to be kept."""

    text: str
    is_marked: bool

    @property
    def tokens(self) -> int:
        return len(self.text) // 4


def error_reply(status: int, kind: str, message: str, *, due_s: float = 0.0, retry_after: int = 0) -> Reply:
    """An answer that is an error from its status on."""
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_scripted"})
    return Reply(iter([Part(due_s, body.encode())]), status, "application/json", due_s=due_s, retry_after=retry_after)


def generator_reply(request: Request, script: Script, wire: Wire, attempt: int, draft: int) -> Reply:
    """What the scripted model answers to draft number `draft` of `attempt`."""
    fault = script.fault(draft)
    if fault.after is None and fault.kind in ERRORS:
        return error_reply(*ERRORS[fault.kind], retry_after=wire.retry_after)
    if fault.after is None and fault.kind is FaultKind.STALL:
        return Reply(iter(()), due_s=None, end="never")
    answer = Answer(request, script, wire, attempt, draft)
    if not request.is_streamed:
        return Reply(answer.whole(), content_type="application/json", due_s=answer.over_s)
    return Reply(answer.parts(), end=answer.end, linger_s=wire.linger_ms / 1000, split=wire.split)


def judging_reply(request: Request, script: Script, wire: Wire, attempt: int) -> Reply:
    """What the scripted model answers when it is asked to grade, rewrite or verify."""
    fault, due_s = fault_and_due(request, script, attempt)
    match fault:
        case GraderFault.FAIL:
            return error_reply(*ERRORS[FaultKind.OVERLOADED], retry_after=wire.retry_after)
        case GraderFault.RATE_LIMITED:
            return error_reply(*ERRORS[FaultKind.RATE_LIMITED], retry_after=wire.retry_after)
        case GraderFault.STALL:
            return Reply(iter(()), due_s=None, end="never")
        case _:
            text, stop = said_text(answered(request, script, attempt), fault)
    content = [{"type": "text", "text": text}] if text else []
    message = {**_message(request, content, stop), "usage": _usage(request, len(text) // 4)}
    body = json.dumps(message, ensure_ascii=False).encode()
    return Reply(iter([Part(due_s, body)]), content_type="application/json", due_s=due_s, tokens=len(text) // 4)


def fault_and_due(request: Request, script: Script, attempt: int) -> tuple[GraderFault, float]:
    """How the answer goes wrong, and when it is due, in seconds."""
    match request.kind:
        case "rewriter":
            return script.rewriter_fault, script.rewrite_s
        case "verifier":
            return script.verifier_fault, script.verify_ms / 1000
        case _:
            return script.grader_fault(attempt), script.grade_s(attempt)


def answered(request: Request, script: Script, attempt: int) -> dict[str, Any]:
    """The good answer, as an object."""
    grade = script.grade(attempt, len(request.passages))
    match request.wanted:
        case "parts":
            known = ["the question"] if grade.relevant else []
            parts = [*known, *([grade.missing] if grade.missing else [])]
            states = [
                {"passage": n, "states": [1] if n in grade.relevant else []}
                for n in range(1, len(request.passages) + 1)
            ]
            return {"parts": parts, "passages": states, "conflicts": grade.conflicts}
        case "query":
            return {"query": script.searched_next(script.rewrite)}
        case "questions":
            return {"questions": [script.searched_next(part) for part in script.parts]}
        case "question":
            return {"question": script.marked_too(script.alone)}
        case "filters":
            offered = [line for line in request.lines if "filter" in line]
            return {"filters": [line["filter"] for line in offered if str(line["value"]) in request.question]}
        case "sentences":
            claims = [line for line in request.lines if "sentence" in line]
            return {"sentences": [{"sentence": c["sentence"], "supported": script.supports(c["text"])} for c in claims]}
        case _:
            return {
                "relevant": grade.relevant,
                "conflicts": grade.conflicts,
                "missing": grade.missing,
                "verdict": grade.verdict.value,
            }


def said_text(value: dict[str, Any], fault: GraderFault) -> tuple[str, str]:
    """The answer as a model says it, well or badly, and its stop reason."""
    if fault is GraderFault.BACKTICKS and "missing" in value:
        value = {**value, "missing": f"{value['missing'] or ''} ```json\n{{}}\n```"}
    good = json.dumps(value)
    match fault:
        case GraderFault.NONSENSE:
            return "They look {fine} to me, I suppose.", "end_turn"
        case GraderFault.REFUSAL:
            return "", "refusal"
        case GraderFault.MAX_TOKENS:
            return good[: len(good) // 2], "max_tokens"
        case GraderFault.FENCED:
            return f"```json\n{good}\n```", "end_turn"
        case GraderFault.PROSE:
            return f"I looked at {{all}} of them. My verdict:\n\n{good}\n\nIs that of help?", "end_turn"
        case GraderFault.BOM:
            return f"\ufeff{good}", "end_turn"
        case GraderFault.TWICE:
            return f"{good}\n{good}", "end_turn"
        case _:
            return good, "end_turn"


class Answer:
    """One scripted draft, as events and as a whole message."""

    def __init__(self, request: Request, script: Script, wire: Wire, attempt: int, draft: int) -> None:
        self._request, self._script, self._wire = request, script, wire
        words = script.words(attempt, draft)
        self._due_s = script.due_s(attempt, draft)
        self._fault = script.fault(draft)
        after = self._fault.after
        self._stop_reason = "end_turn"
        if len(words) > request.max_tokens:
            self._stop_reason = "max_tokens"
        self._words = words[: request.max_tokens]
        if after is not None and after <= len(self._words):
            self._stop_reason = STOP_REASONS.get(self._fault.kind, self._stop_reason)
            self._words = self._words[:after]
        else:
            self._fault = Fault()
        self._results = [r for r in request.results if r.get("citations", {}).get("enabled")]
        self._index = 0

    @property
    def is_broken(self) -> bool:
        """Whether it ends without a stop reason."""
        return self._fault.kind not in (FaultKind.NONE, FaultKind.UNSTOPPED, *STOP_REASONS)

    @property
    def end(self) -> BodyEnd:
        """How the body ends."""
        match self._fault.kind:
            case FaultKind.CUT:
                return "cut"
            case FaultKind.STALL:
                return "never"
            case _:
                return "cut" if self._wire.break_end else "whole"

    @property
    def over_s(self) -> float:
        """When its last token is due."""
        return self._due_s[len(self._words) - 1] if self._words else self._script.ttft_ms / 1000

    def whole(self) -> Iterator[Part]:
        """The answer of a request that is not streamed."""
        content = [{"type": "text", "text": "".join(self._words), "citations": None}] if self._words else []
        message = _message(self._request, content, self._stop_reason)
        message["usage"] = _usage(self._request, len(self._words))
        yield Part(self.over_s, json.dumps(message).encode(), tokens=len(self._words))

    def parts(self) -> Iterator[Part]:
        """The events of a streamed answer, each with the moment it is due."""
        yield Part(0.0, self._beginning())
        yield from self._text()
        yield from self._ending()

    def _beginning(self) -> bytes:
        message = {**_message(self._request, [], None), "usage": _usage(self._request, 1)}
        events = [self._event({"type": "message_start", "message": message})]
        if self._wire.thinking:
            events += self._thinking()
        if self._wire.unknown:
            events += self._unknown()
        events += [self._event({"type": "ping"}) for _ in range(self._wire.pings)]
        return b"".join(events)

    def _text(self) -> Iterator[Part]:
        script, said = self._script, 0
        pending = b""
        for word in self._words:
            if said == 0 or (script.cite and said % script.cite == 0):
                pending += self._open_block()
                if self._wire.cite_first:
                    pending += self._citation(script.block(said))
            due_s = self._due_s[said]
            delta = {"type": "text_delta", "text": word}
            said += 1
            data = pending + self._event({"type": "content_block_delta", "index": self._index, "delta": delta})
            pending = b""
            if script.ends_block(said, len(self._words)) and not (said == len(self._words) and self.is_broken):
                data += b"" if self._wire.cite_first else self._citation(script.block(said - 1))
                data += self._close_block()
            yield Part(due_s, data, tokens=1)
        if said and not script.cite and not self.is_broken:
            yield Part(self.over_s, self._close_block())

    def _ending(self) -> Iterator[Part]:
        kind = self._fault.kind
        if kind in ERRORS:
            _, error_type, message = ERRORS[kind]
            error = {"type": error_type, "message": message}
            yield Part(self.over_s, self._event({"type": "error", "error": error, "request_id": "req_scripted"}))
        if kind is FaultKind.STALL and self._wire.ping_ms:
            step_s = self._wire.ping_ms / 1000
            for n in range(1, 10_000):
                yield Part(self.over_s + n * step_s, self._event({"type": "ping"}))
        if self.is_broken:
            return
        delta = {"stop_reason": self._stop_reason, "stop_sequence": None}
        usage = {"output_tokens": len(self._words)}
        last = self._event({"type": "message_delta", "delta": delta, "usage": usage})
        if kind is not FaultKind.UNSTOPPED:
            last += self._event({"type": "message_stop"})
        yield Part(self.over_s, last)

    def _thinking(self) -> Iterator[bytes]:
        yield self._open_block({"type": "thinking", "thinking": "", "signature": ""})
        for _ in range(self._wire.thinking):
            yield self._delta({"type": "thinking_delta", "thinking": THINKING})
        yield self._delta({"type": "signature_delta", "signature": "c2ln"})
        yield self._close_block()

    def _unknown(self) -> Iterator[bytes]:
        yield self._event({"type": "brand_new_event", "of": ["things", {"to": "come"}]})
        yield self._open_block({"type": "brand_new_block", "text": THINKING})
        yield self._delta({"type": "brand_new_delta", "text": THINKING})
        yield self._close_block()

    def _open_block(self, block: dict[str, Any] | None = None) -> bytes:
        shown = block or {"type": "text", "text": "", **({"citations": []} if self._results else {})}
        return self._event({"type": "content_block_start", "index": self._index, "content_block": shown})

    def _close_block(self) -> bytes:
        data = self._event({"type": "content_block_stop", "index": self._index})
        self._index += 1
        return data

    def _citation(self, block: int) -> bytes:
        if not self._results or not self._script.cite:
            return b""
        index = block % len(self._results)
        result = self._results[index]
        citation = {
            "type": "search_result_location",
            "cited_text": result["content"][0]["text"],
            "search_result_index": index,
            "source": result["source"],
            "title": result["title"],
            "start_block_index": 0,
            "end_block_index": 1,
        }
        strange = self._delta({"type": "citations_delta", "citation": {**citation, "search_result_index": 99}})
        return (strange if self._wire.unknown else b"") + self._delta({"type": "citations_delta", "citation": citation})

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return self._event({"type": "content_block_delta", "index": self._index, "delta": delta})

    def _event(self, value: dict[str, Any]) -> bytes:
        end = "\r\n" if self._wire.crlf else "\n"
        return f"event: {value['type']}{end}data: {json.dumps(value, ensure_ascii=False)}{end}{end}".encode()


def _message(request: Request, content: list[dict[str, Any]], stop_reason: str | None) -> dict[str, Any]:
    return {
        "id": "msg_scripted",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
    }


def _usage(request: Request, output_tokens: int) -> dict[str, int]:
    return {
        "input_tokens": request.input_tokens - request.kept_tokens - request.read_tokens,
        "cache_creation_input_tokens": request.kept_tokens,
        "cache_read_input_tokens": request.read_tokens,
        "output_tokens": output_tokens,
    }
