"""More than a server bears: who waits, who is turned away, before a stream opens; and what is free again afterwards."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import anyio
import pytest
from starlette.types import Message

from gateway.access.keys import Keys
from gateway.admission import Admission, Bounds
from gateway.answers import Answers
from gateway.decisions import Decision
from gateway.exchange import Exchange
from gateway.house import House
from gateway.keeping.keeper import open_keeper
from gateway.native_form import NativeForm
from gateway.settings import read_settings
from gateway.wiring import wired
from retrieval.passage import Passage
from retrieval.ports import Query, Retriever
from tests.support.clients import ask, client
from tests.support.gateway_app import eventually, running, scripted_house, with_parts

pytestmark = pytest.mark.anyio

LONG = "Is it? [[grade_ms=60000]]"
SHORT = "Is it?"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def bounded(**bounds: object) -> House:
    return replace(scripted_house(), admission=Admission(Bounds(**bounds)))  # type: ignore[arg-type]


def is_open(house: House, count: int) -> Callable[[], bool]:
    return lambda: house.admission.open == count


async def test_a_full_server_says_so_before_the_stream_and_when_to_come_again() -> None:
    house = bounded(streams=1, waiting=0)
    async with running(house) as server, client(server.base_url) as http, anyio.create_task_group() as tasks:
        tasks.start_soon(ask, server.base_url, LONG)
        await eventually(is_open(house, 1))
        for body in ({"question": SHORT}, {"question": SHORT, "stream": False}):
            refused = await http.post("/v1/answers", json=body)
            assert (refused.status_code, refused.json()["error"]["type"]) == (503, "overloaded")
            assert refused.json()["error"]["retryable"] is True
            assert int(refused.headers["retry-after"]) > 0
        chat = {"model": "gateway", "messages": [{"role": "user", "content": SHORT}], "stream": True}
        assert (await http.post("/v1/chat/completions", json=chat)).status_code == 503
        assert (await http.get("/readyz")).status_code == 200
        tasks.cancel_scope.cancel()
    assert house.admission.open == 0


async def test_a_question_waits_for_the_one_before_it_and_is_then_answered() -> None:
    house = bounded(streams=1, waiting=1, wait_s=30.0)
    async with running(house) as server, anyio.create_task_group() as tasks:
        tasks.start_soon(ask, server.base_url, "Is it? [[grade_ms=300]]")
        await eventually(is_open(house, 1))
        assert (await ask(server.base_url, SHORT)).one("done")["path"] == "clean"
    assert (house.admission.open, house.admission.waiting) == (0, 0)


@dataclass
class Counted:
    """A search that is counted (retrieval.ports.Retriever)."""

    inner: Retriever
    searches: int = 0

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        self.searches += 1
        return await self.inner.retrieve(query)

    def has_made(self, searches: int) -> bool:
        return self.searches == searches


@dataclass
class Rows:
    """Keeps decisions (gateway.decisions.Decisions)."""

    rows: list[Decision] = field(default_factory=list)

    def add(self, decisions: tuple[Decision, ...]) -> None:
        self.rows += decisions


async def test_as_load_rises_drafts_go_first_then_looking_ahead_and_new_work_last() -> None:
    settings = read_settings(
        provider="scripted", retriever="scripted", max_streams=6, busy_streams=2, waiting_streams=0, input_price=1.0
    )
    kept, seen = Rows(), list[tuple[int, str | None, int]]()
    async with wired(settings) as built:
        counted = Counted(built.house.parts.sources[0].retriever)
        speculation = replace(built.house.speculation, odds=lambda *_: 0.5)
        house = replace(with_parts(built.house, retriever=counted), speculation=speculation, decisions=kept)
        async with running(house) as server, client(server.base_url) as http, anyio.create_task_group() as tasks:
            for others in range(6):
                before = counted.searches
                assert (await ask(server.base_url, "Is it? [[grade_ms=150]]")).one("done")["path"] == "clean"
                await eventually(lambda: len(kept.rows) > len(seen))
                seen.append((others, kept.rows[-1].speculate, counted.searches - before))
                tasks.start_soon(partial(ask, server.base_url, LONG, options={"speculate": "never"}))
                await eventually(is_open(house, others + 1))
                await eventually(partial(counted.has_made, before + seen[-1][2] + 1))
            assert (await http.post("/v1/answers", json={"question": SHORT})).status_code == 503
            tasks.cancel_scope.cancel()
    assert seen == [
        (0, "likely", 2),
        (1, "likely", 2),
        (2, "pressed", 2),
        (3, "pressed", 2),
        (4, "pressed", 1),
        (5, "pressed", 1),
    ]


async def test_who_waits_is_in_the_metrics_beside_what_is_open() -> None:
    settings = read_settings(provider="scripted", retriever="scripted", max_streams=1, waiting_streams=2, wait_s=30.0)
    async with wired(settings) as built, running(built.house) as server, client(server.base_url) as http:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, server.base_url, LONG)
            await eventually(is_open(built.house, 1))
            tasks.start_soon(ask, server.base_url, SHORT)
            await eventually(lambda: built.house.admission.waiting == 1)
            text = (await http.get("/metrics")).text
            tasks.cancel_scope.cancel()
        assert re.findall(r"^gateway_answers_(open|waiting) (\S+)$", text, re.MULTILINE) == [
            ("open", "1"),
            ("waiting", "1"),
        ]


async def test_a_client_that_leaves_while_it_waits_is_forgotten() -> None:
    house = bounded(streams=1, waiting=1, wait_s=30.0)
    async with running(house) as server, anyio.create_task_group() as tasks:
        tasks.start_soon(ask, server.base_url, LONG)
        await eventually(is_open(house, 1))
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(ask, server.base_url, SHORT)
            await eventually(lambda: house.admission.waiting == 1)
            waiting.cancel_scope.cancel()
        await eventually(lambda: house.admission.waiting == 0)
        assert house.admission.open == 1
        tasks.cancel_scope.cancel()
    assert house.admission.open == 0


async def test_one_key_is_held_to_its_share_and_the_others_are_not() -> None:
    house = replace(bounded(streams=9, streams_per_key=1), keys=Keys(("one", "two")))
    async with running(house) as server, client(server.base_url) as http, anyio.create_task_group() as tasks:

        async def ask_as(key: str, question: str) -> int:
            headers = {"Authorization": f"Bearer {key}"}
            response = await http.post("/v1/answers", json={"question": question, "stream": False}, headers=headers)
            if response.status_code == 429:
                assert response.json()["error"]["type"] == "too_many_streams"
                assert response.headers["retry-after"] == "1"
            return response.status_code

        tasks.start_soon(ask_as, "one", LONG)
        await eventually(is_open(house, 1))
        assert await ask_as("one", SHORT) == 429
        assert await ask_as("two", SHORT) == 200
        assert await ask_as("three", SHORT) == 401
        tasks.cancel_scope.cancel()


async def test_a_question_that_comes_again_under_its_key_needs_no_slot_and_counts_no_second_time() -> None:
    house = bounded(streams_per_key=1, requests_per_minute=1)
    async with (
        open_keeper() as keeper,
        running(replace(house, keeper=keeper)) as server,
        client(server.base_url) as http,
        anyio.create_task_group() as tasks,
    ):
        headers, body = {"idempotency-key": "one"}, {"question": "Is it? [[grade_ms=700]]", "stream": False}
        told: list[str] = []

        async def once() -> None:
            response = await http.post("/v1/answers", json=body, headers=headers)
            told.append(response.json().get("answer_id", response.text))

        tasks.start_soon(once)
        await eventually(lambda: keeper.count == 1)
        await once()
        await once()
        await eventually(lambda: len(told) == 3)
        assert len(set(told)) == 1, told
        wrong = await http.post("/v1/answers", json={"question": SHORT}, headers=headers)
        assert (wrong.status_code, wrong.json()["error"]["type"]) == (422, "idempotency_key_reused")
        other = await http.post("/v1/answers", json=body, headers={"idempotency-key": "two"})
        assert (other.status_code, other.json()["error"]["type"]) == (429, "rate_limited")


async def test_a_rate_is_over_with_429_and_the_seconds_to_wait() -> None:
    async with running(bounded(tokens_per_minute=1)) as server, client(server.base_url) as http:
        assert (await http.post("/v1/answers", json={"question": SHORT})).status_code == 200
        refused = await http.post("/v1/answers", json={"question": SHORT})
        assert (refused.status_code, refused.json()["error"]["type"]) == (429, "rate_limited")
        assert 0 < int(refused.headers["retry-after"]) <= 61


async def test_a_kept_answer_has_its_slot_until_it_ends_not_until_its_client_leaves() -> None:
    house = bounded(streams=1, waiting=0)
    async with running(house) as server, client(server.base_url) as http:
        with anyio.move_on_after(0.3):
            await ask(server.base_url, "Is it? [[grade_ms=1500]]", options={"resumable": True})
        assert house.admission.open == 1
        assert (await http.post("/v1/answers", json={"question": SHORT})).status_code == 503
        await eventually(is_open(house, 0))
        assert (await http.post("/v1/answers", json={"question": SHORT})).status_code == 200
    assert house.admission.open == 0


async def test_a_request_that_is_cancelled_with_a_slot_in_hand_gives_it_back() -> None:
    """Between the moment in which it got one and that in which it knows that its client is still there."""
    house = bounded(streams=1, waiting=1, wait_s=30.0)
    held = await house.admission.slot("a")

    async def receive() -> Message:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await done_with.wait()
        raise AssertionError

    async def send(message: Message) -> None:
        raise AssertionError(message)

    done_with = anyio.Event()
    async with anyio.create_task_group() as tasks:
        exchange = Exchange({"type": "http"}, receive, send)
        tasks.start_soon(Answers(house, NativeForm())._slot, "b", exchange)
        await eventually(lambda: house.admission.waiting == 1)
        held.let_go()
        await anyio.wait_all_tasks_blocked()
        assert (house.admission.open, house.admission.waiting) == (1, 0)
        tasks.cancel_scope.cancel()
        done_with.set()
    assert house.admission.open == 0
