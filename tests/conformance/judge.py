"""The judge: what was seen of one question, held against what must never happen. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gateway.bench.messages_log import Exchange
from grading.grade import Verdict
from tests.conformance.mapping import Mapping
from tests.conformance.visit import Patience, Seen

DRAFTED = re.compile(rb"a(\d+)d(\d+)w\d+")
DRAFTED_TEXT = re.compile(DRAFTED.pattern.decode())
LONGEST_WORD_BYTES = 32


class Wrong(StrEnum):
    """What a gateway can be convicted of."""

    LEAKED = "leaked bytes"
    UNCUT = "uncut discards"
    WAITED = "verdicts that wait for a silent model"
    OUTLIVED = "work that outlives the client"
    UNENDED = "missing terminal events"
    ALTERED = "altered text"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, of one question."""

    wrong: Wrong
    number: int
    case: str
    said: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft of which something was seen by the client, and when its first byte was."""

    attempt: int
    draft: int
    first_s: float
    bytes: int


def judged(seen: Seen, mapping: Mapping, patience: Patience) -> tuple[Finding, ...]:
    """Everything that is wrong with one question."""
    every = (
        (Wrong.LEAKED, leaked(seen)),
        (Wrong.UNCUT, uncut(seen, patience)),
        (Wrong.WAITED, waited(seen, patience)),
        (Wrong.OUTLIVED, outlived(seen, patience)),
        (Wrong.UNENDED, unended(seen, mapping)),
        (Wrong.ALTERED, altered(seen, mapping)),
    )
    case = seen.asked.case
    return tuple(Finding(wrong, seen.asked.number, case.name, said) for wrong, found in every for said in found)


def drafts_seen(pieces: Sequence[tuple[float, bytes]]) -> list[Draft]:
    """The drafts whose words are among the bytes, in whatever field, comment or line."""
    first: dict[tuple[int, int], float] = {}
    tail = b""
    for at_s, piece in pieces:
        for match in DRAFTED.finditer(tail + piece):
            first.setdefault((int(match[1]), int(match[2])), at_s)
        tail = (tail + piece)[-LONGEST_WORD_BYTES:]
    whole = b"".join(piece for _, piece in pieces)
    return [
        Draft(*key, at_s, sum(len(m[0]) for m in DRAFTED.finditer(whole) if (int(m[1]), int(m[2])) == key))
        for key, at_s in first.items()
    ]


def leaked(seen: Seen) -> Iterator[str]:
    """Bytes of a draft before its set was found sufficient; of one that was not, at any time."""
    for draft in drafts_seen(seen.pieces):
        grade = grade_of(seen, draft.attempt)
        if grade is None or not is_sufficient(seen, draft.attempt):
            yield f"{draft.bytes} bytes of draft {draft.draft} of attempt {draft.attempt}, which was never found sufficient"
        elif grade.finished_s is None or draft.first_s < grade.finished_s:
            early_ms = 1000 * ((grade.finished_s or seen.ended_s) - draft.first_s)
            yield f"draft {draft.draft} of attempt {draft.attempt} was sent {early_ms:.0f} ms before its verdict"


def uncut(seen: Seen, patience: Patience) -> Iterator[str]:
    """Requests for drafts that were still open `act_s` after the verdict that they are of no use."""
    for draft in of_kind(seen, "generator"):
        grade = grade_of(seen, draft.attempt)
        if grade is None or grade.finished_s is None or is_sufficient(seen, draft.attempt):
            continue
        over_s = ended_s(draft, seen, patience) - grade.finished_s
        if over_s > patience.act_s:
            still = " and is not closed yet" if draft.is_open else ""
            yield f"the discarded draft of attempt {draft.attempt} went on for {1000 * over_s:.0f} ms{still}"


def waited(seen: Seen, patience: Patience) -> Iterator[str]:
    if seen.end == "waited":
        yield f"nothing happened for {1000 * patience.act_s:.0f} ms after the last verdict, while the model was silent"


def outlived(seen: Seen, patience: Patience) -> Iterator[str]:
    """Requests that were open, or began, `act_s` after the client had left."""
    if seen.end != "left":
        return
    for each in seen.exchanges:
        over_s = ended_s(each, seen, patience) - seen.ended_s
        if over_s > patience.act_s or (each.is_open and over_s > 0):
            yield f"a request of the {each.kind} went on for {1000 * over_s:.0f} ms or more after the client had left"


def unended(seen: Seen, mapping: Mapping) -> Iterator[str]:
    """A stream that does not end in exactly one terminal event. An answer that is an error from its status on is one."""
    if seen.end in ("left", "waited") or (seen.status >= 400 and seen.end == "whole"):
        return
    events = seen.events
    ends = [place for place, event in enumerate(events) if mapping.is_terminal(event)]
    if seen.end == "overdue":
        yield "no end within the time that any answer may take"
    elif not ends:
        yield f"the body ended ({seen.end}) without a terminal event, after {len(events)} events"
    elif len(ends) > 1:
        yield f"{len(ends)} terminal events"
    elif ends[0] != len(events) - 1:
        yield f"{len(events) - 1 - ends[0]} events after the terminal one"
    elif seen.end == "broken":
        yield "the terminal event came, and then the connection broke"


def altered(seen: Seen, mapping: Mapping) -> Iterator[str]:
    """Text that is not what the model wrote: not a prefix of one draft or, where the whole had to come, not all of it.

    What a gateway says itself, after the text, is its own affair.
    """
    found, is_whole = drafts_seen(seen.pieces), seen.asked.case.is_whole
    text = "".join(mapping.text_of(event) or "" for event in seen.events)
    if len(found) > 1:
        yield f"text of {len(found)} drafts in one answer"
    elif found:
        written = seen.asked.script.text(found[0].attempt, found[0].draft)
        last = max((match.end() for match in DRAFTED_TEXT.finditer(text)), default=0)
        if not written.startswith(text[:last]):
            yield "the text is not the beginning of what the model wrote"
        elif is_whole and not text.startswith(written):
            yield "the whole answer had to come, and only a part of it did"
    elif is_whole:
        yield "the whole answer had to come, and nothing of it did"


def ended_s(exchange: Exchange, seen: Seen, patience: Patience) -> float:
    """When an exchange ended; for one that is open, when we stopped looking."""
    return exchange.closed_s or exchange.finished_s or max(seen.ended_s + patience.act_s, exchange.received_s)


def of_kind(seen: Seen, kind: str) -> list[Exchange]:
    return [each for each in seen.exchanges if each.kind == kind]


def grade_of(seen: Seen, attempt: int) -> Exchange | None:
    """The first grade of an attempt."""
    return next((each for each in of_kind(seen, "grader") if each.attempt == attempt), None)


def is_sufficient(seen: Seen, attempt: int) -> bool:
    script = seen.asked.script
    return script.grade(attempt, 1).verdict is Verdict.SUFFICIENT and script.grader_fault(attempt) == "none"
