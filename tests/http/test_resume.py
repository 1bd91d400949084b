"""Resumable answers over real sockets: cut anywhere and read on, never twice, never paid twice, nothing left behind."""

import json
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import anyio
import httpx2
import pytest

from gateway.access.keys import Keys
from gateway.house import House
from gateway.keeping.keeper import Keeper, Keeping, open_keeper
from gateway.keeping.recordings import Shared
from gateway.providers.script import Script
from gateway.providers.scripted import ScriptedGenerator
from streaming.ports import Prompt
from tests.support.clients import ask, client
from tests.support.cut_client import read_with_cuts
from tests.support.gateway_app import Running, Spans, eventually, running, scripted_house, with_parts
from tests.support.leftovers import assert_nothing_is_left
from tests.support.raw_client import read_until, request_bytes
from tests.support.scripted_text import undrafted

pytestmark = pytest.mark.anyio

RESUMABLE: dict[str, Any] = {"options": {"resumable": True}}
SLOW = "[[grade_ms=1 ttft_ms=1 tps=40 tokens=4000]]"
QUICK = Script.parse("[[retrieve_ms=1 grade_ms=5 ttft_ms=5 tps=2000 tokens=40]]")


class Counted(ScriptedGenerator):
    """Counts the drafts that were begun."""

    begun = 0

    def draft(self, prompt: Prompt) -> Any:
        self.begun += 1
        return super().draft(prompt)


@dataclass(frozen=True)
class Served:
    server: Running
    spans: Spans
    generator: Counted

    @property
    def url(self) -> str:
        return self.server.base_url

    @property
    def keeper(self) -> Keeper:
        assert self.server.house.keeper is not None
        return self.server.house.keeper


@asynccontextmanager
async def served(
    keeping: Keeping | None = None, shared: Shared | None = None, grace_s: float = 0.0, **house: Any
) -> AsyncIterator[Served]:
    spans, generator = Spans(), Counted(QUICK)
    built: House = with_parts(scripted_house(QUICK, processors=[spans]), generator=generator)
    async with (
        open_keeper(keeping, shared) as keeper,
        running(replace(built, keeper=keeper, **house), grace_s) as server,
    ):
        yield Served(server, spans, generator)


async def left_after(served: Served, mark: bytes, question: str, headers: str = "", **fields: Any) -> str:
    """Asks a resumable question, reads until `mark` and is gone; the answer's id."""
    request = request_bytes(question, **{**RESUMABLE, **fields})
    if headers:
        request = request.replace(b"host: localhost\r\n", f"host: localhost\r\n{headers}\r\n".encode())
    async with await anyio.connect_tcp("127.0.0.1", served.server.port) as stream:
        await stream.send(request)
        seen = await read_until(stream, mark)
    return seen.partition(b'"answer_id":"')[2][:24].decode()


async def resumed(url: str, answer_id: str, last: str | None = None, **headers: str) -> httpx2.Response:
    async with client(url) as http:
        sent = headers | ({} if last is None else {"last-event-id": last})
        return await http.get(f"/v1/answers/{answer_id}/events", headers=sent)


def events_of(body: bytes) -> list[tuple[str, str, dict[str, Any]]]:
    found = []
    for frame in body.split(b"\n\n"):
        fields = dict(line.split(b": ", 1) for line in frame.splitlines() if not line.startswith(b":"))
        if fields:
            found.append((fields[b"id"].decode(), fields[b"event"].decode(), json.loads(fields[b"data"])))
    return found


def said(events: list[tuple[str, str, dict[str, Any]]]) -> str:
    return undrafted("".join(data["text"] for _, name, data in events if name == "token"))


def error(response: httpx2.Response, status: int, type_: str) -> None:
    assert response.status_code == status, response.text
    assert response.json()["error"]["type"] == type_


async def test_a_resumable_answer_is_the_same_stream_as_any_other() -> None:
    async with served() as it:
        plain = await ask(it.url, "Is it?")
        kept = await ask(it.url, "Is it?", **RESUMABLE)
        assert set(kept.names) == set(plain.names)
        assert (kept.names[0], kept.names[-1]) == ("started", "done")
        assert undrafted(kept.text) == undrafted(plain.text)
        assert [event.id.partition(".")[2] for event in kept.events] == [str(n + 1) for n in range(len(kept.events))]


async def test_an_answer_that_was_left_goes_on_and_is_read_to_its_end_from_where_it_was_left() -> None:
    async with served() as it:
        whole = undrafted((await ask(it.url, "Is it?")).text)
        answer_id = await left_after(it, b"event: sources", "Is it?")
        everything = events_of((await resumed(it.url, answer_id)).content)
        assert everything[0][1] == "started"
        assert everything[-1][1] == "done"
        assert said(everything) == whole
        for at in (1, 3, len(everything) - 1):
            rest = events_of((await resumed(it.url, answer_id, f"{answer_id}.{at}")).content)
            assert rest == everything[at:]


async def test_60_answers_cut_at_random_bytes_are_joined_byte_by_byte() -> None:
    async with served() as it:
        whole = undrafted((await ask(it.url, "Is it?")).text)
        seed = random.randrange(2**32)

        async def one(number: int) -> None:
            chance = random.Random(seed + number)
            key = f"k{number}"
            read = await read_with_cuts([it.server.port], "Is it?", chance, cuts=4, bytes_most=1500, key=key)
            assert undrafted(read.text) == whole, (seed, number)
            ids = [int(each.partition(".")[2]) for each, _, _ in read.events]
            assert ids == list(range(1, len(ids) + 1)), (seed, number)

        async with anyio.create_task_group() as tasks:
            for number in range(60):
                tasks.start_soon(one, number)
        assert it.generator.begun == 61
        await assert_nothing_is_left(it.server, it.spans)


async def test_nothing_of_a_discarded_attempt_is_ever_replayed() -> None:
    async with served() as it:
        question = "Is it? [[verdict=partial,sufficient grade_ms=40]]"
        answer_id = await left_after(it, b"event: retry", question)
        events = events_of((await resumed(it.url, answer_id)).content)
        names = [name for _, name, _ in events]
        assert names.index("retry") < names.index("sources") < names.index("token")
        plain = await ask(it.url, question)
        assert said(events) == undrafted(plain.text)


async def test_after_the_end_there_is_nothing_to_resume() -> None:
    async with served() as it:
        told = await ask(it.url, "Is it?", **RESUMABLE)
        answer_id, last = told.one("started")["answer_id"], told.events[-1].id
        response = await resumed(it.url, answer_id, last)
        assert (response.status_code, response.content) == (204, b"")


@pytest.mark.parametrize(
    "last", ["x", "1", "abc.", ".5", "abc.x", "ABC.1", "é", f"{'a' * 65}.1", "other.1", "a.1234567890"]
)
async def test_a_last_event_id_that_is_none_of_the_answer_s_is_400(last: str) -> None:
    async with served() as it:
        told = await ask(it.url, "Is it?", **RESUMABLE)
        answer_id = told.one("started")["answer_id"]
        async with client(it.url) as http:
            path = f"/v1/answers/{answer_id}/events"
            error(await http.get(path, headers=[(b"last-event-id", last.encode())]), 400, "bad_last_event_id")
            beyond = f"{answer_id}.{len(told.events) + 1}"
            error(await http.get(path, headers={"last-event-id": beyond}), 400, "bad_last_event_id")
            foreign = f"{'0' * 24}.1"
            error(await http.get(path, headers={"last-event-id": foreign}), 400, "bad_last_event_id")


async def test_an_answer_that_is_unknown_not_resumable_or_somebody_else_s_is_404() -> None:
    async with served(keys=Keys(["mine", "yours"])) as it:
        mine, yours = {"authorization": "Bearer mine"}, {"authorization": "Bearer yours"}
        kept = (await ask(it.url, "Is it?", mine, **RESUMABLE)).one("started")["answer_id"]
        plain = (await ask(it.url, "Is it?", mine)).one("started")["answer_id"]
        assert (await resumed(it.url, kept, **mine)).status_code == 200
        error(await resumed(it.url, kept, **yours), 404, "answer_not_found")
        error(await resumed(it.url, plain, **mine), 404, "answer_not_found")
        error(await resumed(it.url, "0" * 24, **mine), 404, "answer_not_found")
        error(await resumed(it.url, kept), 401, "unauthorized")


async def test_without_resumable_leaving_cancels_everything_and_nothing_is_kept() -> None:
    async with served() as it:
        async with await anyio.connect_tcp("127.0.0.1", it.server.port) as stream:
            await stream.send(request_bytes(f"Is it? {SLOW}"))
            await read_until(stream, b"event: token")
        await assert_nothing_is_left(it.server, it.spans)
        assert it.keeper.count == 0


async def test_when_the_grace_runs_out_everything_is_cancelled_and_nothing_is_left() -> None:
    async with served(Keeping(grace_s=0.8)) as it:
        answer_id = await left_after(it, b"event: token", f"Is it? {SLOW}")
        assert it.server.house.open_answers.count == 1
        await assert_nothing_is_left(it.server, it.spans)
        await eventually(lambda: it.keeper.count == 0)
        error(await resumed(it.url, answer_id), 404, "answer_not_found")
    (root,) = [span for span in it.spans.ended if span.parent is None and span.name == "POST /v1/answers"]
    assert root.attributes is not None
    assert root.attributes["gateway.path"] == "abandoned"


async def test_a_reader_that_comes_back_within_the_grace_stays_as_long_as_it_likes() -> None:
    async with served(Keeping(grace_s=1.5)) as it:
        question = "Is it? [[grade_ms=1 ttft_ms=1 tps=60 tokens=150]]"
        answer_id = await left_after(it, b"event: token", question)
        events = events_of((await resumed(it.url, answer_id)).content)
        assert events[-1][2]["path"] == "clean"


async def test_what_is_finished_is_forgotten_after_its_time() -> None:
    async with served(Keeping(keep_s=0.0)) as it:
        told = await ask(it.url, "Is it?", **RESUMABLE)
        await assert_nothing_is_left(it.server, it.spans)
        await it.keeper.sweep()
        assert it.keeper.count == 0
        error(await resumed(it.url, told.one("started")["answer_id"]), 404, "answer_not_found")


async def test_a_question_that_comes_again_under_its_key_is_not_paid_twice() -> None:
    async with served() as it:
        key = {"idempotency-key": "one"}
        question = "Is it? [[grade_ms=1 ttft_ms=1 tps=200 tokens=60]]"
        told: list[Any] = []

        async def once() -> None:
            told.append(await ask(it.url, question, key))

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(once)
        told.append(await ask(it.url, question, key))
        assert it.generator.begun == 1
        assert len({each.one("started")["answer_id"] for each in told}) == 1
        assert len({each.text for each in told}) == 1
        other = await ask(it.url, question, {"idempotency-key": "two"})
        assert other.one("started")["answer_id"] != told[0].one("started")["answer_id"]
        assert it.generator.begun == 2


async def test_a_key_that_comes_with_another_body_is_422_and_another_owner_s_is_another_key() -> None:
    async with served(keys=Keys(["mine", "yours"])) as it, client(it.url) as http:
        headers = {"authorization": "Bearer mine", "idempotency-key": "one"}
        first = await http.post("/v1/answers", json={"question": "Is it?", "stream": False}, headers=headers)
        again = await http.post("/v1/answers", json={"stream": False, "question": "Is it?"}, headers=headers)
        assert first.json() == again.json()
        wrong = await http.post("/v1/answers", json={"question": "Is it not?", "stream": False}, headers=headers)
        error(wrong, 422, "idempotency_key_reused")
        headers["authorization"] = "Bearer yours"
        other = await http.post("/v1/answers", json={"question": "Is it not?", "stream": False}, headers=headers)
        assert other.json()["answer_id"] != first.json()["answer_id"]


@pytest.mark.parametrize("key", ["", "x" * 256, "é"])
async def test_a_key_that_is_none_is_422(key: str) -> None:
    async with served() as it, client(it.url) as http:
        headers = [(b"idempotency-key", key.encode())]
        error(await http.post("/v1/answers", json={"question": "Is it?"}, headers=headers), 422, "invalid_request")


async def test_a_whole_answer_under_a_key_is_the_same_as_one_without() -> None:
    async with served() as it, client(it.url) as http:
        for question in ("Is it?", "Is it? [[verdict=insufficient]]", "Is it? [[verdict=partial,sufficient]]"):
            body = {"question": question, "stream": False}
            plain = (await http.post("/v1/answers", json=body)).json()
            kept = (await http.post("/v1/answers", json=body, headers={"idempotency-key": question})).json()
            assert plain.keys() == kept.keys()
            for name in plain.keys() - {"answer_id", "trace_id", "timings_ms", "answer", "citations", "usage"}:
                assert plain[name] == kept[name], name
            assert re.sub(r"d\d+", "", plain["answer"]) == re.sub(r"d\d+", "", kept["answer"])
            assert [each["n"] for each in plain["citations"]] == [each["n"] for each in kept["citations"]]


async def test_a_fault_is_no_answer_asked_again_it_is_asked_anew() -> None:
    async with served() as it, client(it.url) as http:
        body = {"question": "Is it? [[fault=overloaded]]", "stream": False}
        first = await http.post("/v1/answers", json=body, headers={"idempotency-key": "one"})
        assert first.json()["error"]["type"] == "generator_overloaded"
        begun = it.generator.begun
        again = await http.post("/v1/answers", json=body, headers={"idempotency-key": "one"})
        assert again.json()["error"]["answer_id"] != first.json()["error"]["answer_id"]
        assert it.generator.begun > begun


async def test_a_question_with_the_id_of_its_last_event_reads_on_and_never_begins_a_second_draft() -> None:
    async with served() as it, client(it.url) as http:
        body: dict[str, Any] = {"question": "Is it?", **RESUMABLE}
        told = await ask(it.url, **body)
        answer_id = told.one("started")["answer_id"]
        rest = await http.post("/v1/answers", json=body, headers={"last-event-id": f"{answer_id}.2"})
        assert [event for event, _, _ in events_of(rest.content)] == [event.id for event in told.events[2:]]
        end = await http.post("/v1/answers", json=body, headers={"last-event-id": told.events[-1].id})
        assert end.status_code == 204
        assert it.generator.begun == 1
        for headers in ({"last-event-id": f"{'0' * 24}.2"}, {"last-event-id": f"{answer_id}.2"}):
            other = {**body, "question": "Is it not?"}
            error(await http.post("/v1/answers", json=other, headers=headers), 409, "nothing_to_resume")
        assert it.generator.begun == 1


async def test_a_server_that_stops_ends_kept_answers_with_failed_and_done() -> None:
    async with served() as it:
        answer_id = await left_after(it, b"event: token", f"Is it? {SLOW}")
        responses: list[httpx2.Response] = []

        async def follow() -> None:
            responses.append(await resumed(it.url, answer_id))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await eventually(lambda: it.keeper.readers == 1)
            it.server.server.stop()
    names = [name for _, name, _ in events_of(responses[0].content)]
    assert names[-2:] == ["failed", "done"]
    assert not it.spans.open


async def test_a_keeper_that_closes_leaves_no_task_and_no_draft() -> None:
    async with served() as it:
        await left_after(it, b"event: token", f"Is it? {SLOW}")
        assert it.server.house.open_answers.count == 1
        it.server.server.stop_now()
    assert it.generator.open_drafts == 0
    assert not it.spans.open
    assert it.server.house.open_answers.count == 0
