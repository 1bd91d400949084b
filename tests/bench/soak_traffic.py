"""The traffic of a soak: questions on every route and requests to all others, each with what must come of it."""

import json
import random
import re
from collections.abc import Mapping as Dict
from dataclasses import dataclass
from pathlib import Path

from gateway.providers.script import Script
from tests.conformance.mapping import Mapping, read_mapping
from tests.conformance.sse import events_of

MAPPINGS: Dict[str, Mapping] = {
    mapping.path: mapping
    for name in ("native", "chat-completions", "ai-sdk")
    for mapping in [read_mapping(Path(__file__).parents[1] / "conformance" / "mappings" / f"{name}.toml")]
}
STREAMED = ("/v1/answers", "/v1/answers", "/v1/answers", "/v1/chat/completions", "/api/chat")
PACE = "grade_ms=20 ttft_ms=20 tps=400 tokens=24"
VERDICTS = ("sufficient", "sufficient", "sufficient", "partial,sufficient", "insufficient")
FAULTS = ("overloaded", "server_error", "cut@6", "ends@6", "overloaded@6", "stall@6", "refusal", "max_tokens@12")
GRADER_FAULTS = ("fail", "nonsense", "max_tokens")
FAULT_SHARE, LEAVE_SHARE = 0.08, 0.15
LONGEST_VISIT_S = 0.25  # a client that leaves does so within
DRAFTED = re.compile(r"a(\d+)d(\d+)w\d+")
FORMAT_END = b"0\r\n\r\n"
BESIDE = (
    "/v1/gaps",
    "/v1/models",
    "/v1/documents",
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/v1/answers/{}/events",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `script` is None for one that asks no question; `leaves_after_s` for a client that stays."""

    number: int
    path: str
    request: bytes
    script: Script | None
    is_streamed: bool
    is_faulty: bool
    leaves_after_s: float | None


def asked(number: int, seed: int) -> Asked:
    """Request `number` of the run of `seed`: always the same one."""
    chance = random.Random(seed * 1_000_003 + number)
    leaves = chance.uniform(0.0, LONGEST_VISIT_S) if chance.random() < LEAVE_SHARE else None
    kind = chance.random()
    if kind < 0.1:
        return beside(number, chance, leaves)
    is_faulty = chance.random() < FAULT_SHARE
    question = f"How is green tea steeped, {seed}.{number}? [[{script_of(chance, is_faulty=is_faulty)}]]"
    path, whole = chance.choice(STREAMED), kind < 0.2
    body = MAPPINGS[path].request(question)
    if whole:
        path, body = "/v1/answers", json.dumps({"question": question, "stream": False}).encode()
    request = posted(path, body)
    return Asked(number, path, request, Script.parse(question), not whole, is_faulty, leaves)


def script_of(chance: random.Random, *, is_faulty: bool) -> str:
    verdict = chance.choice(VERDICTS)
    if not is_faulty:
        return f"{PACE} verdict={verdict}"
    if chance.random() < 0.3:
        return f"{PACE} verdict={verdict} grader_fault={chance.choice(GRADER_FAULTS)}"
    return f"{PACE} verdict={verdict} fault={chance.choice(FAULTS)}"


def beside(number: int, chance: random.Random, leaves: float | None) -> Asked:
    """A request that asks no question."""
    if chance.random() < 0.2:
        body = json.dumps({"title": f"Tea {number % 20}", "text": f"Tea number {number}. " * 20}).encode()
        return Asked(number, "/v1/documents", posted("/v1/documents", body), None, False, False, leaves)
    path = chance.choice(BESIDE).format(f"{number:024x}")
    request = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()
    return Asked(number, path, request, None, False, False, leaves)


def posted(path: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a request: nothing wrong, or wrong only because something was being broken on purpose, or wrong."""

    ended: str
    wrong: str = ""
    excusable: str = ""


def outcome(asked: Asked, raw: bytes, *, has_left: bool) -> Outcome:
    """What `raw`, a response as bytes, says. `excusable` may happen while a database or a server is being broken, and only then."""
    if has_left:
        return Outcome("left", wrong=mixed(asked, raw))
    head, _, body = raw.partition(b"\r\n\r\n")
    if not raw:
        return Outcome("unanswered", excusable="the connection broke before a response")
    status = int(head.split(b" ")[1])
    if asked.script is None:
        expected = {200, 201} | ({404} if asked.path.endswith("/events") else set())
        if status in expected:
            return Outcome(str(status))
        return (
            Outcome(str(status), excusable=f"status {status}: {why(body)}")
            if status >= 500
            else Outcome(str(status), wrong=f"status {status}")
        )
    if not asked.is_streamed:
        return whole(asked, status, body, asked.script)
    if status != 200:
        refused = f"status 503: {why(body)}" if status == 503 else ""
        return Outcome(str(status), wrong="" if refused else f"status {status}", excusable=refused)
    if not raw.endswith(FORMAT_END):
        return Outcome("broken", wrong=mixed(asked, raw), excusable="the body broke off")
    return streamed(asked, unchunked(body), asked.script)


def streamed(asked: Asked, body: bytes, script: Script) -> Outcome:
    mapping = MAPPINGS[asked.path]
    events = list(events_of([(0.0, body)]))
    ends = [place for place, event in enumerate(events) if mapping.is_terminal(event)]
    if len(ends) != 1 or ends[0] != len(events) - 1:
        return Outcome("unended", wrong=f"terminal events at {ends} of {len(events)}")
    text = "".join(mapping.text_of(event) or "" for event in events)
    return judged(asked, text, script, why(body))


def whole(asked: Asked, status: int, body: bytes, script: Script) -> Outcome:
    if status >= 500:
        return (
            Outcome(str(status)) if asked.is_faulty else Outcome(str(status), excusable=f"status {status}: {why(body)}")
        )
    if status != 200:
        return Outcome(str(status), wrong=f"status {status}")
    return judged(asked, json.loads(body)["answer"], script, why(body))


def why(body: bytes) -> str:
    """The type of the fault or refusal that a body tells of, for whoever reads the report."""
    found = re.findall(rb'"(?:type|code|reason)": ?"([a-z]+_[a-z_]+)"', body)
    return str(found[-1].decode()) if found else "no reason"


def judged(asked: Asked, text: str, script: Script, told: str) -> Outcome:
    """The text against what the script's model writes, byte by byte."""
    found = {(int(a), int(d)) for a, d in DRAFTED.findall(text)}
    if len(found) > 1:
        return Outcome("mixed", wrong=f"text of drafts {sorted(found)}")
    if not found:
        is_owed = not asked.is_faulty and script.verdicts[-1].value == "sufficient"
        return (
            Outcome("nothing", excusable=f"no answer, where one was owed: {told}") if is_owed else Outcome("no answer")
        )
    ((attempt, draft),) = found
    if script.grade(attempt, 1).verdict.value != "sufficient":
        return Outcome("leaked", wrong=f"text of attempt {attempt}, which was not sufficient")
    written = script.text(attempt, draft)
    if asked.is_faulty:
        said = text[: max(match.end() for match in DRAFTED.finditer(text))]
        return Outcome("in part") if written.startswith(said) else Outcome("altered", wrong="not what the model wrote")
    if text == written:
        return Outcome("answered")
    return (
        Outcome("short", excusable=f"a part of the answer: {told}")
        if written.startswith(text)
        else Outcome("altered", wrong="not what the model wrote")
    )


def mixed(asked: Asked, raw: bytes) -> str:
    """What is wrong with a part of a response: text of two drafts, or of an attempt that was not sufficient."""
    found = {(int(a), int(d)) for a, d in DRAFTED.findall(raw.decode("latin-1"))}
    bad = [pair for pair in found if asked.script and asked.script.grade(pair[0], 1).verdict.value != "sufficient"]
    return f"text of drafts {sorted(found)}" if len(found) > 1 or bad else ""


def unchunked(body: bytes) -> bytes:
    """The data of a body in chunks."""
    found = bytearray()
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        found += body[:length]
        body = body[length + 2 :]
    return bytes(found)
