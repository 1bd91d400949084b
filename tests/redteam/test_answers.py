"""The worst case, through HTTP: a grader, a writer and a verifier that do whatever a passage says. What holds all the same."""

from collections.abc import AsyncIterator, Sequence

import pytest

from grading.grade import Grade, Verdict
from grading.ports import Claim
from retrieval.passage import Passage
from streaming.ports import Cited, Piece, Prompt, Stopped, StopReason, Text, Usage
from tests.support.clients import Told, ask
from tests.support.fakes import DraftScript, FakeDraft, FakeGrader
from tests.support.gateway_app import Running, running, scripted_house, with_parts
from tests.support.redteam import GARDEN, POISONS, added_to

pytestmark = pytest.mark.anyio

ALL = (1, 2, 3, 4, 5)
CONTRADICTIONS = {
    "names a passage that is not there": Grade(Verdict.SUFFICIENT, relevant=(1, 42)),
    "names none but passages that are not there": Grade(Verdict.SUFFICIENT, relevant=(0, -1, 99)),
    "names no passage": Grade(Verdict.SUFFICIENT),
    "names what is missing": Grade(Verdict.SUFFICIENT, missing="who designed it", relevant=ALL),
}
FORGED = (Cited(0, 0, 5), Cited(-1, 0, 5), Cited(6, 0, 5), Cited(42, 0, 5), Cited(2**40, 0, 5))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Obeying:
    """Writes what the last passage says, word for word, and cites whatever it is told to (streaming.ports.Generator)."""

    name = "fake"

    async def draft(self, prompt: Prompt) -> FakeDraft:
        _, passage = prompt.passages[-1]
        pieces: tuple[Piece, ...] = (Text(passage.text), Cited(5, 0, 5, "forged quote"), *FORGED)
        script = DraftScript(((0.0, (*pieces, Stopped(StopReason.END, Usage(10, 10)))),))
        return FakeDraft(script, lambda _: None)


class Convinced:
    """Supports every sentence, and one more (grading.ports.Verifier)."""

    name = "fake"

    async def supported(self, question: str, claims: Sequence[Claim]) -> tuple[bool, ...]:
        return (True,) * (len(claims) + 1)


class Poisoned:
    """A search that finds the garden and, last, the passage whose name the question says."""

    async def retrieve(self, query: object) -> tuple[Passage, ...]:
        text = str(getattr(query, "text", ""))
        return added_to(GARDEN, POISONS[int(text.split("#")[1].split()[0])])


async def asked(server: Running, number: int, **options: object) -> Told:
    return await ask(server.base_url, f"What does #{number} say?", options=options)


@pytest.fixture
async def obeyed() -> AsyncIterator[Running]:
    """A server whose grader, writer and verifier obey."""
    grader = FakeGrader([(0.0, Grade(Verdict.SUFFICIENT, relevant=ALL))])
    house = with_parts(scripted_house(), retriever=Poisoned(), grader=grader, generator=Obeying(), verifier=Convinced())
    async with running(house) as server:
        yield server


async def test_answer_cites_given_passages_alone_and_no_event_is_forged(obeyed: Running) -> None:
    for number, poison in enumerate(POISONS):
        told = await asked(obeyed, number)
        assert told.text == poison.text, poison
        (sources,) = told.data("sources")
        given = {one["n"] for one in sources["passages"]}
        assert given == set(ALL)
        cited = told.data("citation")
        assert [one["n"] for one in cited] == [5], poison
        assert told.names.count("done") == 1, poison
        assert told.names[-1] == "done", poison
        assert {event.id.partition(".")[0] for event in told.events} == {told.one("started")["answer_id"]}, poison


async def test_verifier_that_obeys_makes_no_answer_grounded(obeyed: Running) -> None:
    for number in range(0, len(POISONS), 7):
        told = await asked(obeyed, number, verify="annotate")
        assert told.one("verification") == {"grounded": False, "claims": []}, POISONS[number]


@pytest.mark.parametrize("way", CONTRADICTIONS)
async def test_verdict_that_contradicts_itself_releases_nothing(way: str) -> None:
    grader = FakeGrader([(0.0, CONTRADICTIONS[way])])
    house = with_parts(scripted_house(), retriever=Poisoned(), grader=grader, generator=Obeying())
    async with running(house) as server:
        told = await asked(server, 0)
    assert told.one("done")["path"] == "refused"
    assert (told.text, told.data("sources"), told.data("citation")) == ("", [], [])


async def test_citations_of_passages_that_were_not_graded_relevant_are_dropped() -> None:
    grader = FakeGrader([(0.0, Grade(Verdict.SUFFICIENT, relevant=(2,)))])
    house = with_parts(scripted_house(), retriever=Poisoned(), grader=grader, generator=Obeying())
    async with running(house) as server:
        told = await asked(server, 0)
    assert told.text
    assert told.data("citation") == []


async def test_refusal_shows_poison_as_an_unconfirmed_glance_and_sends_none_of_the_draft() -> None:
    grader = FakeGrader([(0.0, Grade(Verdict.INSUFFICIENT, missing=poison.text)) for poison in POISONS])
    house = with_parts(scripted_house(), retriever=Poisoned(), grader=grader, generator=Obeying())
    async with running(house) as server:
        for number in range(len(POISONS)):
            told = await asked(server, number, max_retries=0)
            assert told.text == ""
            assert all(one["confirmed"] is False for one in told.one("refusal")["closest"])
            assert told.names[-1] == "done"
