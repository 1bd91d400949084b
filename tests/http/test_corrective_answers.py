"""The corrective loop as a client sees it: every row of the policy, every budget, every fault of a judge, every way to verify.

The scripted provider plays; the events that come and the calls upstream, as their spans count them, are what is asserted.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gateway.providers.script import GraderFault, Script
from gateway.providers.scripted import ScriptedRetriever
from grading.correct import DEFAULT_POLICY, Cause
from grading.grade import Verdict
from retrieval.passage import Passage
from retrieval.sources import Source, house
from streaming.budget import Conflicts, Limits, Verify
from tests.support.clients import Told, ask
from tests.support.gateway_app import Spans, running, scripted_house, with_parts

pytestmark = pytest.mark.anyio

QUICK = Script.parse("[[retrieve_ms=1 grade_ms=20 ttft_ms=1 tps=5000 tokens=8 rewrite_ms=1 verify_ms=1]]")
CALLS = {"retrieval default": "search", "rerank": "rerank", "rewrite": "rewrite", "verify": "verify"}


class Best:
    """A reranker that keeps the order (retrieval.ports.Reranker)."""

    async def rerank(self, question: str, passages: tuple[Passage, ...], k: int) -> tuple[Passage, ...]:
        return passages[:k]


@dataclass(frozen=True, slots=True)
class Played:
    """The events of an answer, and how often each part upstream was asked."""

    told: Told
    calls: dict[str, int]

    @property
    def names(self) -> list[str]:
        """The events in order, runs of tokens and citations as one `text`."""
        names: list[str] = []
        for name in self.told.names:
            word = "text" if name in ("token", "citation") else name
            if word != "status" and names[-1:] != [word]:
                names.append(word)
        return names

    @property
    def corrections(self) -> list[str]:
        return [retry["correction"] for retry in self.told.data("retry")]

    @property
    def path(self) -> str:
        return str(self.told.one("done")["path"])


async def play(question: str, limits: Limits | None = None, *, web: bool = False, **body: Any) -> Played:
    spans = Spans()
    built = scripted_house(QUICK, limits, (spans,))
    sources = house(ScriptedRetriever(QUICK))
    if web:
        sources = (*sources, Source("web", ScriptedRetriever(QUICK), external=True))
    async with running(with_parts(built, reranker=Best(), sources=sources)) as server:
        told = await ask(server.base_url, question, **body)
    folded = [
        event.name for span in spans.ended for event in span.events
    ]  # what would be too much is an event of the span above
    count = Counter(CALLS.get(name, name) for name in [*(span.name for span in spans.ended), *folded])
    attributes = [dict(span.attributes or {}) for span in spans.ended if span.name == "chat scripted"]
    drafts = sum("gateway.draft" in each for each in attributes)
    asked = {name: count[name] for name in CALLS.values() if count[name]}
    return Played(told, {**asked, "grade": len(attributes) - drafts, "draft": drafts})


# ---------------------------------------------------------------- the policy

RECOVERED = ["started", "retry", "sources", "text", "done"]


@dataclass(frozen=True, slots=True)
class Row:
    """A question whose first set fails for one cause, what corrects it by default, and the calls that takes."""

    marks: str
    correction: str
    calls: dict[str, int]
    verify: str = "off"


ROWS: dict[tuple[Verdict, Cause], Row] = {
    (Verdict.PARTIAL, Cause.GAP): Row(
        "verdict=partial,sufficient missing='the year'", "gap_query", {"search": 2, "grade": 2, "draft": 2}
    ),
    (Verdict.PARTIAL, Cause.UNSTATED): Row(
        "verdict=partial,sufficient missing=none parts='one,two'",
        "decompose",
        {"search": 3, "rewrite": 1, "grade": 2, "draft": 2},
    ),
    (Verdict.PARTIAL, Cause.CONFLICT): Row(
        "verdict=partial,sufficient conflicts='1 and 2 differ,none'",
        "broaden",
        {"search": 2, "rerank": 1, "grade": 2, "draft": 2},
    ),
    (Verdict.PARTIAL, Cause.UNGROUNDED): Row(
        "sentence=4 unsupported=a1d1w1", "gap_query", {"search": 2, "grade": 2, "draft": 2, "verify": 2}, "gate"
    ),
    (Verdict.INSUFFICIENT, Cause.EMPTY): Row(
        "passages=0,5", "broaden", {"search": 2, "rerank": 1, "grade": 1, "draft": 1}
    ),
    (Verdict.INSUFFICIENT, Cause.OFF_TOPIC): Row(
        "verdict=insufficient,sufficient", "broaden", {"search": 2, "rerank": 1, "grade": 2, "draft": 2}
    ),
    (Verdict.INSUFFICIENT, Cause.CONFLICT): Row(
        "verdict=insufficient,sufficient conflicts='1 and 2 differ,none'",
        "broaden",
        {"search": 2, "rerank": 1, "grade": 2, "draft": 2},
    ),
}


def test_every_row_of_the_policy_is_played() -> None:
    assert set(ROWS) == set(DEFAULT_POLICY)
    assert {row: played.correction for row, played in ROWS.items()} == {
        row: strategies[0] for row, strategies in DEFAULT_POLICY.items()
    }


@pytest.mark.parametrize("row", ROWS, ids="-".join)
async def test_a_set_that_fails_is_corrected_by_the_reason_it_failed(row: tuple[Verdict, Cause]) -> None:
    wanted = ROWS[row]
    played = await play(f"Is it? [[{wanted.marks}]]", options={"verify": wanted.verify})
    checked = ["verification"] if wanted.verify == "gate" else []
    assert played.names == [*RECOVERED[:-1], *checked, "done"]
    (retry,) = played.told.data("retry")
    assert (retry["attempt"], retry["verdict"], retry["correction"]) == (1, row[0], wanted.correction)
    assert (played.path, played.calls) == ("recovered", wanted.calls)
    assert "a1d1w" not in played.told.text  # a word of the discarded draft
    assert played.told.one("done")["usage"]["discarded_tokens"] == (0 if row[1] is Cause.EMPTY else 8)


async def test_after_the_first_strategy_the_next_of_its_row_is_tried() -> None:
    question = "Is it? [[verdict=insufficient rewrite='other words' parts='one,two']]"
    played = await play(question, Limits(max_retries=2))
    assert (played.corrections, played.path) == (["broaden", "rewrite"], "refused")
    assert played.calls == {"search": 3, "rerank": 1, "rewrite": 1, "grade": 3, "draft": 3}
    refusal = played.told.one("refusal")
    assert refusal["reason"] == "insufficient_evidence"
    assert [query.split(" [[")[0] for query in refusal["searched"]] == ["Is it?", "other words"]


async def test_the_next_source_is_asked_when_the_house_has_nothing() -> None:
    played = await play("Is it? [[passages=0,0,5]]", Limits(max_retries=2), web=True)
    assert played.corrections == ["broaden", "next_source"]
    assert played.calls["search"] == 3


async def test_a_conflict_is_named_after_the_answer_or_refused() -> None:
    question = "Is it? [[conflicts='1 and 2 differ']]"
    named = await play(question)
    assert named.told.text.endswith("\n\nThe sources disagree: 1 and 2 differ")
    assert (named.path, named.calls) == ("clean", {"search": 1, "grade": 1, "draft": 1})
    refused = await play(question, Limits(conflicts=Conflicts.REFUSE))
    assert (refused.path, refused.told.text, refused.corrections) == ("refused", "", ["broaden"])
    assert refused.told.one("refusal")["missing"] == "The sources disagree: 1 and 2 differ"
    assert refused.calls == {"search": 2, "rerank": 1, "grade": 2, "draft": 2}


# ---------------------------------------------------------------- budgets

REFUSED = ["started", "refusal", "done"]
BUDGETS: dict[str, tuple[str, Limits, str, dict[str, int]]] = {
    "attempts": (
        "verdict=partial",
        Limits(max_retries=0),
        "insufficient_evidence",
        {"search": 1, "grade": 1, "draft": 1},
    ),
    "time": ("grade_ms=9999", Limits(deadline_s=0.3), "budget_exhausted", {"search": 1, "grade": 1, "draft": 1}),
    "input tokens": ("", Limits(total_input_tokens=1), "budget_exhausted", {"search": 1, "grade": 0, "draft": 0}),
    "output tokens": (
        "fault=cut@8,none",
        Limits(total_output_tokens=8),
        "budget_exhausted",
        {"search": 1, "grade": 1, "draft": 1},
    ),
}


@pytest.mark.parametrize("budget", BUDGETS)
async def test_a_budget_that_is_spent_is_a_refusal_that_sends_nothing(budget: str) -> None:
    marks, limits, reason, calls = BUDGETS[budget]
    played = await play(f"Is it? [[{marks}]]", limits)
    assert (played.names, played.told.text) == (REFUSED, "")
    assert (played.told.one("refusal")["reason"], played.path, played.calls) == (reason, "refused", calls)


@pytest.mark.parametrize("allowed", [0, 1])
async def test_searches_outside_the_house_are_spent_and_no_more(allowed: int) -> None:
    question, limits = "Is it? [[passages=0]]", Limits(max_retries=2, external_searches=allowed)
    played = await play(question, limits, web=True)
    assert played.corrections == ["broaden", "next_source"][: 1 + allowed]
    asked = {} if allowed else {"rewrite": 1}  # what comes after the next source in its row, and has nothing to say
    assert played.calls == {"search": 2 + allowed, "rerank": 1, **asked, "grade": 0, "draft": 0}


# ---------------------------------------------------------------- faults of a judge

EVERY_FAULT = list(GraderFault)
# Those after REFUSAL are good verdicts that are badly said: tests/fault/test_messages_grader.py.
FAULTS = EVERY_FAULT[1 : EVERY_FAULT.index(GraderFault.REFUSAL) + 1]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("attempt", [1, 2])
async def test_a_grader_that_gives_no_verdict_releases_nothing(fault: GraderFault, attempt: int) -> None:
    faults = ",".join(["none"] * (attempt - 1) + [fault])
    played = await play(f"Is it? [[verdict=partial grader_fault={faults}]]", Limits(grade_timeout_s=0.5))
    assert played.names == ["started", *["retry"] * (attempt - 1), "refusal", "done"]
    assert played.told.one("refusal")["reason"] == "grader_unavailable"
    assert (played.told.text, played.calls) == ("", {"search": attempt, "grade": attempt, "draft": attempt})


# ---------------------------------------------------------------- ways to verify

SAID = "sentence=4 tokens=8"
ANSWERED = ["started", "sources", "text"]
VERIFIED: list[tuple[str, str, list[str], str, dict[str, int]]] = [
    (Verify.OFF, "", [*ANSWERED, "done"], "clean", {}),
    (Verify.OFF, "unsupported=a1d1w1", [*ANSWERED, "done"], "clean", {}),
    (Verify.ANNOTATE, "", [*ANSWERED, "verification", "done"], "clean", {"verify": 1}),
    (Verify.ANNOTATE, "unsupported=a1d1w1", [*ANSWERED, "verification", "done"], "clean", {"verify": 1}),
    (Verify.ANNOTATE, "verifier_fault=fail", [*ANSWERED, "verification", "done"], "clean", {"verify": 1}),
    (Verify.ANNOTATE, "verifier_fault=stall", [*ANSWERED, "verification", "done"], "clean", {"verify": 1}),
    (Verify.GATE, "", [*ANSWERED, "verification", "done"], "clean", {"verify": 1}),
    (Verify.GATE, "unsupported=a1d1w5", [*ANSWERED, "refusal", "done"], "refused", {"verify": 1}),
    (Verify.GATE, "unsupported=a1d1w1,a1d2w1", ["started", "retry", "refusal", "done"], "refused", {"verify": 2}),
    (Verify.GATE, "verifier_fault=fail", ["started", "retry", "refusal", "done"], "refused", {"verify": 2}),
    (Verify.GATE, "verifier_fault=stall", ["started", "retry", "refusal", "done"], "refused", {"verify": 2}),
]


@pytest.mark.parametrize(("mode", "marks", "names", "path", "checks"), VERIFIED)
async def test_an_answer_is_checked_as_the_mode_says(
    mode: str, marks: str, names: list[str], path: str, checks: dict[str, int]
) -> None:
    limits = replace(Limits(grade_timeout_s=0.5), verify=Verify(mode))
    played = await play(f"Is it? [[{SAID} {marks}]]", limits)
    assert (played.names, played.path) == (names, path)
    attempts = 1 + len(played.corrections)
    assert played.calls == {"search": attempts, **checks, "grade": attempts, "draft": attempts}
    if "refusal" in names:
        assert played.told.one("refusal")["reason"] == "ungrounded"
