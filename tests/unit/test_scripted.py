"""The scripted search, and how scripted adapters tell attempts apart over passages that are not scripted."""

from dataclasses import replace

import pytest

from gateway.providers.script import Script
from gateway.providers.scripted import REMEMBERED, ScriptedGenerator, ScriptedGrader, ScriptedRetriever, Tally
from grading.faults import GraderUnavailable
from grading.grade import Verdict
from retrieval.faults import RetrievalMisconfigured
from retrieval.passage import Passage
from retrieval.ports import Query, SearchMode
from streaming.faults import GeneratorMisconfigured
from streaming.ports import Prompt
from tests.support.generators import prompt, read, text_of

QUICK = Script(retrieve_ms=0, grade_ms=0, ttft_ms=0, tps=100_000, tokens=5)


def real(*names: str) -> tuple[Passage, ...]:
    return tuple(Passage(id=name, document_id="d", title="t", text=f"ordinary text {name}") for name in names)


@pytest.mark.anyio
async def test_a_search_finds_the_same_again_and_a_correction_finds_other_passages() -> None:
    retriever = ScriptedRetriever(QUICK)
    first, again = await retriever.retrieve(Query("q")), await retriever.retrieve(Query("q"))
    widened = await retriever.retrieve(Query("q", k=20, mode=SearchMode.HYBRID))
    assert first == again
    assert len(first) == len(widened) == 5
    assert not {p.id for p in first} & {p.id for p in widened}


@pytest.mark.anyio
async def test_a_search_finds_no_more_than_asked_and_as_few_as_scripted() -> None:
    retriever = ScriptedRetriever(QUICK)
    assert len(await retriever.retrieve(Query("q", k=2))) == 2
    assert await retriever.retrieve(Query("q [[passages=0,4]]")) == ()
    assert len(await retriever.retrieve(Query("q [[passages=0,4]]", mode=SearchMode.HYBRID))) == 4


@pytest.mark.anyio
async def test_over_ordinary_passages_each_new_set_of_a_question_is_an_attempt() -> None:
    grader, generator = ScriptedGrader(QUICK), ScriptedGenerator(QUICK)
    question = "q [[verdict=insufficient,sufficient]]"
    for attempt, names in ((1, "ab"), (2, "cd"), (1, "ab")):
        grade = await grader.grade(question, real(*names))
        text = text_of(await read(await generator.draft(Prompt(question, tuple(enumerate(real(*names), 1))))))
        assert grade.verdict is (Verdict.INSUFFICIENT if attempt == 1 else Verdict.SUFFICIENT)
        assert text.startswith(f"a{attempt}d")


@pytest.mark.anyio
async def test_a_marker_that_is_not_understood_is_a_named_fault_of_each_port() -> None:
    bad = "q [[speed=9]]"
    with pytest.raises(RetrievalMisconfigured, match="speed"):
        await ScriptedRetriever(QUICK).retrieve(Query(bad))
    with pytest.raises(GraderUnavailable, match="speed"):
        await ScriptedGrader(QUICK).grade(bad, ())
    with pytest.raises(GeneratorMisconfigured, match="speed"):
        await ScriptedGenerator(QUICK).draft(prompt(bad))


@pytest.mark.anyio
async def test_open_drafts_are_counted() -> None:
    generator = ScriptedGenerator(replace(QUICK, tokens=50))
    draft = await generator.draft(prompt("q"))
    assert generator.open_drafts == 1
    await draft.aclose()
    assert generator.open_drafts == 0


def test_a_tally_forgets_the_oldest_question() -> None:
    tally = Tally()
    assert [tally.count("first"), tally.count("first")] == [1, 2]
    assert [tally.number("first", given) for given in "aab"] == [1, 1, 2]
    for n in range(REMEMBERED):
        tally.count(n)
        tally.number(n, "a")
    assert tally.count("first") == 1
    assert tally.number("first", "b") == 1
