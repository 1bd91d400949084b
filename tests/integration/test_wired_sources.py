"""A house wired by settings, with local models: what is verified is recalled, what is not covered is tried elsewhere and recorded."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.decision_log import DecisionLog
from gateway.decisions import NoDecisions
from gateway.request import Options
from gateway.settings import read_settings
from gateway.wiring import Wired, wired
from grading.correct import Cause, Strategy
from grading.grade import Verdict
from retrieval.ingest import ingest
from streaming.answer import answer
from streaming.ask import Ask
from streaming.events import Event, Refusal, Status, Token
from streaming.recall import FROM_CACHE
from tests.support.postgres import emptied
from tests.support.search_api import BRAVE, KEY, SearchApi, search_api

pytestmark = pytest.mark.anyio

QUESTION = "When does the gate open?"
GATE = """# The gate

The gate opens when the set of passages is graded sufficient. Then the held draft is released to the client.
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database_url: str) -> None:
    for name in list(os.environ):
        if name.startswith(("GATEWAY_", "ANTHROPIC_", "OTEL_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GATEWAY_DATABASE_URL", emptied(database_url))


@pytest.fixture
def api() -> Iterator[SearchApi]:
    with search_api(BRAVE) as api:
        yield api


class Unobserved:
    def note(self, fact: object) -> None:
        pass


async def told(built: Wired, question: str) -> list[Event]:
    """Every event of one answer."""
    events: list[Event] = []

    async def emit(batch: tuple[Event, ...]) -> None:
        events.extend(batch)

    house = built.house
    await answer(Ask("a", "t", question), house.parts_for(Options()), house.limits, emit, Unobserved())
    return events


def text(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Token))


async def test_a_verified_answer_is_recalled_until_its_document_changes(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "gate.md").write_text(GATE)
    async with wired(read_settings(cache="verified", verify="annotate")) as built:
        books = built.library
        assert books is not None
        await ingest(folder, books.store, books.embedder)
        first, second = await told(built, QUESTION), await told(built, "when does the gate open")
        (folder / "gate.md").write_text(GATE + "\nIt also opens on Sundays.\n")
        await ingest(folder, books.store, books.embedder)
        third = await told(built, QUESTION)
    recalled = [any(isinstance(e, Status) and e.detail == FROM_CACHE for e in each) for each in (first, second, third)]
    assert recalled == [False, True, False]
    assert "graded sufficient" in text(first)
    assert text(second) == text(first)


async def test_a_question_that_is_not_covered_is_searched_outside_and_recorded(tmp_path: Path, api: SearchApi) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "gate.md").write_text(GATE)
    api.status = 500
    table = {"kind": "brave", "key": KEY, "url": api.url, "parallel": True}
    async with wired(read_settings(sources=[table])) as built:
        books = built.library
        assert books is not None
        await ingest(folder, books.store, books.embedder)
        events = await told(built, "Which year was the lighthouse of Alexandria destroyed?")
        (group,) = await built.house.gaps.newest()
    (refusal,) = [event for event in events if isinstance(event, Refusal)]
    assert refusal.gap_id == group.id
    assert len(api.queries) == 1


async def test_what_is_set_of_the_loop_reaches_the_house() -> None:
    policy = "partial.gap=next_source; insufficient.empty="
    async with wired(
        read_settings(policy=policy, conflicts="refuse", first_search="lexical", decision_rows=0)
    ) as built:
        parts = built.house.parts
        assert built.house.limits.conflicts == "refuse"
        assert parts.policy[Verdict.PARTIAL, Cause.GAP] == (Strategy.NEXT_SOURCE,)
        assert parts.policy[Verdict.INSUFFICIENT, Cause.EMPTY] == ()
        assert parts.router("When does the gate open?").mode == "lexical"
        assert isinstance(built.house.decisions, NoDecisions)


async def test_by_default_a_question_is_searched_for_as_it_asks_and_its_attempts_are_logged() -> None:
    async with wired(read_settings()) as built:
        parts = built.house.parts
        assert parts.router("ORA-00942").mode == "lexical"
        assert parts.similarity is not None
        assert await parts.similarity("the price of tea", "what tea costs") > 0.6
        assert isinstance(built.house.decisions, DecisionLog)
