"""The seven ways that an answer can go, as its events come: what every wire format is shown to say."""

from collections.abc import Mapping

from retrieval.passage import Passage
from streaming.events import (
    Citation,
    Claim,
    Done,
    Event,
    Failed,
    Path,
    Reason,
    Refusal,
    Retry,
    Sources,
    Started,
    Status,
    Token,
    Verification,
)

Batches = tuple[tuple[Event, ...], ...]

ANSWER_ID = "a1"
TRACE_ID = "t1"
LINKED = Passage("doc_1:0", "doc_1", "How it works", "A draft is held.", url="https://docs.example/how", score=0.8)
BARE = Passage("doc_2:3", "doc_2", "Notes", "Nothing of it is sent.", score=0.5)

STARTED = (Started(ANSWER_ID, TRACE_ID, "What is a draft?", "default"),)
SEARCHED = ((Status(1, "retrieving"),), (Status(1, "grading"),))
AGAIN = (
    (Retry(1, "partial", "the price", "gap_query", "What is a draft? the price"), Status(2, "correcting", "gap_query")),
    (Status(2, "retrieving"),),
    (Status(2, "grading"),),
)
USAGE: Mapping[str, int | bool] = {
    "input_tokens": 40,
    "released_tokens": 6,
    "discarded_tokens": 2,
    "still_billing_tokens": 0,
    "exact": True,
}
TIMES: Mapping[str, float] = {"retrieval": 20.5, "total": 900.0}


def released(attempt: int) -> Batches:
    """What comes with the verdict, and the first words, odd ones among them."""
    return (
        (
            Status(attempt, "generating"),
            Sources(attempt, ((1, LINKED), (2, BARE))),
            Token("A draft "),
            Token("is held."),
        ),
        (Citation(1, 0, 16, "is held"),),
    )


def done(path: Path, finish_reason: str, attempts: int) -> tuple[Event, ...]:
    return (Done(path, finish_reason, attempts, USAGE, TIMES),)


def refusal(reason: Reason, message: str, missing: str | None) -> Refusal:
    return Refusal(reason, message, missing, ("What is a draft?", "What is a draft? the price"), "gap_1", (BARE,))


FAILED = Failed("generator_unavailable", "the model's service failed", retryable=True)

SCENARIOS: Mapping[str, Batches] = {
    "clean": (
        STARTED,
        *SEARCHED,
        *released(1),
        (Token(' "é" 𝄞\r\n\n\u2028'),),
        (Citation(2, 17, 22),),
        done(Path.CLEAN, "stop", 1),
    ),
    "retry then clean": (
        STARTED,
        *SEARCHED,
        *AGAIN,
        *released(2),
        (Status(2, "verifying"),),
        (Verification(True, (Claim(0, 16, True, (1,)),)),),
        done(Path.RECOVERED, "stop", 2),
    ),
    "refusal": (
        STARTED,
        *SEARCHED,
        *AGAIN,
        (refusal(Reason.INSUFFICIENT_EVIDENCE, "What I found does not answer this. Missing: the price", "the price"),),
        done(Path.REFUSED, "refusal", 2),
    ),
    "ungrounded": (
        STARTED,
        *SEARCHED,
        *released(1),
        (refusal(Reason.UNGROUNDED, "I stopped: part of the answer was not supported.", None),),
        done(Path.REFUSED, "refusal", 1),
    ),
    "fault before release": (STARTED, *SEARCHED, (FAILED,), done(Path.FAILED, "error", 1)),
    "fault after release": (STARTED, *SEARCHED, *released(1), (FAILED,), done(Path.FAILED, "error", 1)),
    "max_tokens": (STARTED, *SEARCHED, *released(1), done(Path.CLEAN, "length", 1)),
}
