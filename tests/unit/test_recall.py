"""Recalling verified answers: what is kept, when it is sent again, and that it says so."""

from dataclasses import dataclass, field, replace
from typing import Any, get_type_hints

import pytest

from grading.grade import Grade, Verdict
from retrieval.passage import Scalar
from streaming.ask import Ask
from streaming.budget import Limits, Verify
from streaming.events import Citation, Done, Sources, Status, Token
from streaming.ports import Cited, Kept, Stopped, StopReason, Text, Turn
from streaming.recall import FROM_CACHE, events_of, find, keep
from tests.support.fakes import (
    DraftScript,
    FakeGenerator,
    FakeGrader,
    FakeRetriever,
    FakeRewriter,
    FakeVerifier,
    passages,
)
from tests.support.loop import QUESTION, Loop, play

GOOD = Grade(Verdict.SUFFICIENT, relevant=(1, 2))
SAID = (Text("Roses need the sun. "), Cited(2, 0, 20), Text("Ferns need some shade."))
KEPT = Kept("Roses need the sun.", (Cited(2, 0, 19),), tuple(enumerate(passages(2), 1)))


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@dataclass
class FakeCache:
    """Knows the answers to the questions it was given."""

    known: dict[str, Kept] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def find(self, question: str, collection: str, tenant: str) -> Kept | None:
        self.asked.append(f"{tenant}/{collection}: {question}")
        return self.known.get(question)

    async def keep(self, question: str, collection: str, tenant: str, answer: Kept) -> None:
        self.known[question] = answer


def asked(cache: FakeCache, verify: Verify = Verify.ANNOTATE, lie: str = "\0", **more: Any) -> Loop:
    return Loop(
        FakeGrader([(0.0, more.pop("grade", GOOD))]),
        FakeGenerator([DraftScript(((0.0, SAID), (0.0, (Stopped(StopReason.END),))))]),
        FakeRetriever([(0.0, passages(2, "a"))]),
        verifier=FakeVerifier(lie=lie),
        limits=Limits(verify=verify, max_retries=0),
        cache=cache,
        **more,
    )


def test_a_kept_answer_says_where_it_comes_from_then_its_sources_its_text_and_its_citations() -> None:
    assert events_of(KEPT) == (
        Status(0, "generating", FROM_CACHE),
        Sources(0, KEPT.passages),
        Token("Roses need the sun."),
        Citation(2, 0, 19),
    )


def test_a_hit_is_sent_at_once_and_nobody_upstream_is_asked(backend: str) -> None:
    loop = play(backend, asked(FakeCache({QUESTION: KEPT})))
    assert loop.names == ["Started", "Status", "Sources", "Token", "Citation", "Done"]
    assert (loop.journal, loop.took_s) == ([], 0.0)
    assert [(d.path, d.finish_reason, d.usage["released_tokens"]) for d in loop.of(Done)] == [("clean", "stop", 0)]


@pytest.mark.parametrize("verify", [Verify.ANNOTATE, Verify.GATE])
def test_an_answer_whose_every_sentence_is_supported_is_kept_and_found_again(backend: str, verify: Verify) -> None:
    cache = FakeCache()
    first = play(backend, asked(cache, verify))
    assert cache.known[QUESTION] == Kept(first.text, (Cited(2, 0, 20),), tuple(enumerate(passages(2, "a"), 1)))
    again = play(backend, asked(cache, verify))
    assert (again.text, again.journal) == (first.text, [])


@pytest.mark.parametrize(
    "more",
    [
        {"verify": Verify.OFF},
        {"lie": "Ferns"},
        {"lie": "Ferns", "verify": Verify.GATE},
        {"grade": Grade(Verdict.INSUFFICIENT)},
        {"filters": {"year": 2024}},
        {"grade": replace(GOOD, conflicts="20 or 30 days")},
    ],
    ids=["unchecked", "unsupported", "ungrounded", "refused", "filtered", "contradicted"],
)
def test_what_is_not_verified_or_not_the_answer_to_the_whole_collection_is_not_kept(
    backend: str, more: dict[str, Any]
) -> None:
    cache = FakeCache()
    play(backend, asked(cache, **more))
    assert cache.known == {}


def test_a_filtered_question_is_not_answered_from_the_cache(backend: str) -> None:
    filters: dict[str, Scalar] = {"year": 2024}
    loop = play(backend, asked(FakeCache({QUESTION: KEPT}), filters=filters))
    assert loop.calls("search") == 1


def test_the_stand_alone_question_is_what_is_kept_and_found(backend: str) -> None:
    cache = FakeCache()
    follow_up = asked(
        cache, rewriter=FakeRewriter(alone=QUESTION), history=(Turn("user", "Hello?"),), question="And it?"
    )
    play(backend, follow_up)
    assert list(cache.known) == [QUESTION]
    assert cache.asked == [f"default/default: {QUESTION}"]


def test_a_cut_answer_of_the_cache_is_a_copy_of_what_was_sent(backend: str) -> None:
    cache = FakeCache({QUESTION: replace(KEPT, text="x" * 20_000)})
    loop = play(backend, asked(cache))
    assert loop.text == "x" * 20_000


def test_recalling_knows_what_is_asked_without_knowing_the_answer() -> None:
    """The two once imported each other, and the hints could not be resolved."""
    assert get_type_hints(find)["ask"] is Ask
    assert get_type_hints(keep)["ask"] is Ask
