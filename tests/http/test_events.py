"""Every native event on the wire, in order, for every way that an answer can go; read by an independent parser."""

import json

import anyio
import pytest

from gateway.providers.script import Script
from retrieval.faults import RetrievalUnavailable
from retrieval.passage import Passage
from retrieval.ports import Query
from streaming.budget import Limits
from tests.support.clients import Told, ask, client
from tests.support.gateway_app import running, scripted_house, with_parts

pytestmark = pytest.mark.anyio

BEGUN = ["started", "status", "status"]
CLEAN_STAGES = ["retrieving", "grading", "generating"]


def outline(told: Told) -> list[str]:
    """The names in order, runs of answer text and citations as one."""
    names: list[str] = []
    for name in told.names:
        shown = "answer" if name in ("token", "citation") else name
        if shown != "answer" or names[-1:] != ["answer"]:
            names.append(shown)
    return names


def stages(told: Told) -> list[str]:
    return [status["stage"] for status in told.data("status")]


def assert_well_formed(told: Told) -> None:
    """What holds of every stream: ids count up under the answer's id, `started` is first, one `done` is last."""
    answer_id = told.one("started")["answer_id"]
    assert [event.id for event in told.events] == [f"{answer_id}.{n}" for n in range(1, len(told.events) + 1)]
    assert told.names[0] == "started"
    assert told.names[-1] == "done"
    assert told.names.count("done") == 1
    assert all(isinstance(json.loads(event.data), dict) for event in told.events)
    assert all(event.retry is None for event in told.events)


async def test_clean_answer_shows_its_sources_then_its_text_then_done() -> None:
    async with running(scripted_house()) as server:
        told = await ask(server.base_url, "What is it? [[passages=3 tokens=12 cite=6]]")
    assert_well_formed(told)
    assert outline(told) == [*BEGUN, "status", "sources", "answer", "done"]
    assert stages(told) == CLEAN_STAGES
    assert told.text == Script().text(1)[: len(told.text)]
    assert told.text.count("w") == 12
    sources = told.one("sources")
    assert [passage["n"] for passage in sources["passages"]] == [1, 2, 3]
    assert all(passage.keys() >= {"n", "id", "title", "snippet", "score"} for passage in sources["passages"])
    done = told.one("done")
    assert (done["path"], done["finish_reason"], done["attempts"]) == ("clean", "stop", 1)
    assert done["usage"]["released_tokens"] == 12
    assert done["timings_ms"]["total"] >= done["timings_ms"]["retrieval"] > 0


async def test_citations_point_into_the_text_that_came_before_them() -> None:
    async with running(scripted_house()) as server:
        told = await ask(server.base_url, "What is it? [[tokens=24 cite=4]]")
    position = 0
    citations = 0
    for event in told.events:
        if event.event == "token":
            position += len(json.loads(event.data)["text"])
        elif event.event == "citation":
            cited = json.loads(event.data)
            citations += 1
            assert 0 <= cited["start"] < cited["end"] <= position
    assert citations == 6


async def test_discarded_attempt_is_told_as_retry_and_none_of_its_text_is_sent() -> None:
    async with running(scripted_house()) as server:
        told = await ask(server.base_url, 'Is it? [[verdict=partial,sufficient missing="the year" grade_ms=60]]')
    assert_well_formed(told)
    assert outline(told) == [*BEGUN, "retry", *["status"] * 4, "sources", "answer", "done"]
    assert stages(told) == ["retrieving", "grading", "correcting", "retrieving", "grading", "generating"]
    retry = told.one("retry")
    assert (retry["attempt"], retry["verdict"], retry["correction"]) == (1, "partial", "gap_query")
    assert "the year" in retry["missing"]
    assert told.one("sources")["attempt"] == 2
    assert "a1d1" not in "".join(event.data for event in told.events)
    assert "a2d1" in told.text
    assert told.one("done")["path"] == "recovered"


async def test_refused_answer_sends_no_token_and_says_what_was_searched() -> None:
    async with running(scripted_house()) as server:
        told = await ask(server.base_url, "Is it? [[verdict=insufficient]]")
    assert_well_formed(told)
    assert outline(told) == [*BEGUN, "retry", "status", "status", "status", "refusal", "done"]
    refusal = told.one("refusal")
    assert refusal["reason"] == "insufficient_evidence"
    assert refusal["searched"]
    assert refusal.keys() == {"reason", "message", "missing", "searched", "gap_id", "closest"}
    assert refusal["closest"]
    assert all(passage["confirmed"] is False for passage in refusal["closest"])
    done = told.one("done")
    assert (done["path"], done["finish_reason"], done["attempts"]) == ("refused", "refusal", 2)


async def test_grader_that_fails_refuses_rather_than_answers() -> None:
    async with running(scripted_house()) as server:
        told = await ask(server.base_url, "Is it? [[grader_fault=fail]]")
    assert_well_formed(told)
    assert outline(told) == [*BEGUN, "refusal", "done"]
    assert told.one("refusal")["reason"] == "grader_unavailable"


async def test_spent_deadline_refuses() -> None:
    async with running(scripted_house()) as server:
        told = await ask(server.base_url, "Is it? [[grade_ms=60000]]", options={"deadline_s": 0.2})
    assert_well_formed(told)
    assert told.one("refusal")["reason"] == "budget_exhausted"
    assert told.one("done")["finish_reason"] == "budget"


async def test_model_that_declines_is_a_refusal() -> None:
    async with running(scripted_house()) as server:
        told = await ask(server.base_url, "Is it? [[fault=refusal]]")
    assert_well_formed(told)
    assert told.one("refusal")["reason"] == "declined"


async def test_fault_before_release_is_retried_unseen() -> None:
    async with running(scripted_house()) as server:
        told = await ask(server.base_url, "Is it? [[fault=overloaded,none grade_ms=80 ttft_ms=1]]")
    assert_well_formed(told)
    assert outline(told) == [*BEGUN, "status", "sources", "answer", "done"]
    assert "a1d2" in told.text
    assert "a1d1" not in told.text


async def test_fault_after_release_ends_with_failed_and_done() -> None:
    async with running(scripted_house()) as server:
        told = await ask(server.base_url, "Is it? [[fault=server_error@8 grade_ms=1 ttft_ms=150]]")
    assert_well_formed(told)
    assert outline(told) == [*BEGUN, "status", "sources", "answer", "failed", "done"]
    failed = told.one("failed")
    assert failed["type"] == "generator_unavailable"
    assert failed["retryable"] is True
    assert told.one("done")["path"] == "failed"


async def test_answer_cut_by_the_token_limit_says_so() -> None:
    async with running(scripted_house(limits=Limits(output_tokens=5))) as server:
        told = await ask(server.base_url, "Is it? [[tokens=40]]")
    assert_well_formed(told)
    assert told.text.count("w") == 5
    assert told.one("done")["finish_reason"] == "length"


class Down:
    """A retriever whose database is away."""

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        raise RetrievalUnavailable("the database did not answer within 5 s")


class Buggy:
    """A retriever with a defect that names what nobody should read."""

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        raise RuntimeError("postgresql://admin:hunter2@db/answers")


async def test_search_that_fails_is_a_failed_event() -> None:
    async with running(with_parts(scripted_house(), retriever=Down())) as server:
        told = await ask(server.base_url, "Is it?")
    assert_well_formed(told)
    assert outline(told) == ["started", "status", "failed", "done"]
    assert told.one("failed")["type"] == "retrieval_unavailable"


async def test_defect_of_ours_is_in_the_log_and_not_on_the_wire(caplog: pytest.LogCaptureFixture) -> None:
    async with running(with_parts(scripted_house(), retriever=Buggy())) as server:
        told = await ask(server.base_url, "Is it?")
    assert_well_formed(told)
    assert told.one("failed")["type"] == "internal_error"
    assert not any("hunter2" in event.data or "RuntimeError" in event.data for event in told.events)
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [RuntimeError]


class Slow:
    """A retriever that never comes back."""

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        await anyio.sleep_forever()
        return ()


async def test_started_leaves_while_retrieval_still_runs() -> None:
    async with (
        running(with_parts(scripted_house(), retriever=Slow())) as server,
        client(server.base_url) as http,
        http.stream("POST", "/v1/answers", json={"question": "Is it?"}) as response,
    ):
        async for line in response.aiter_lines():
            if line.startswith("event: started"):
                break
        else:
            pytest.fail("the stream ended without `started`")


async def test_headers_keep_proxies_from_buffering_and_name_the_bare_media_type() -> None:
    async with running(scripted_house()) as server:
        told = await ask(server.base_url, "Is it?")
    assert told.headers["content-type"] == "text/event-stream"
    assert told.headers["cache-control"] == "no-cache, no-transform"
    assert told.headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in told.headers
