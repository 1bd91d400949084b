"""Resumable answers of several gateways on one database: a client reads on from whichever it reaches."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest

from gateway.keeping import keeper as keeper_module
from gateway.keeping import recordings
from gateway.keeping.keeper import Keeping, open_keeper
from gateway.keeping.recordings import Claim
from gateway.keeping.stored_recordings import StoredRecordings
from gateway.providers.script import Script
from retrieval.pool import open_pool
from tests.support.clients import ask, client
from tests.support.cut_client import Read, read_with_cuts
from tests.support.embedders import HashingEmbedder
from tests.support.embeddings_api import embeddings_api
from tests.support.gateway_app import Running, Spans, eventually, running, scripted_house
from tests.support.gateway_process import GatewayProcess, gateway_process
from tests.support.leftovers import assert_nothing_is_left
from tests.support.library import shelve
from tests.support.raw_client import read_until, request_bytes
from tests.support.scripted_text import undrafted

pytestmark = pytest.mark.anyio

RESUMABLE: dict[str, Any] = {"options": {"resumable": True}}
QUICK = Script.parse("[[retrieve_ms=1 grade_ms=5 ttft_ms=5 tps=400 tokens=40]]")


@asynccontextmanager
async def two(url: str, keeping: Keeping | None = None) -> AsyncIterator[tuple[Running, Running, Spans]]:
    """Two gateways that share nothing but the database at `url`."""
    spans = Spans()
    async with (
        open_pool(url, size=4) as one,
        open_pool(url, size=4) as other,
        open_keeper(keeping, StoredRecordings(one)) as first,
        open_keeper(keeping, StoredRecordings(other)) as second,
        running(replace(scripted_house(QUICK, processors=[spans]), keeper=first)) as here,
        running(replace(scripted_house(QUICK), keeper=second)) as there,
    ):
        yield here, there, spans


def rows(url: str, statement: str, *values: object) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(statement.encode(), values)
        return found.fetchall() if found.description else []


async def left(server: Running, mark: bytes, question: str) -> str:
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        await stream.send(request_bytes(question, **RESUMABLE))
        seen = await read_until(stream, mark)
    return seen.partition(b'"answer_id":"')[2][:24].decode()


async def resumed(server: Running, answer_id: str, last: int | None = None) -> tuple[int, Read]:
    headers = {} if last is None else {"last-event-id": f"{answer_id}.{last}"}
    async with client(server.base_url) as http:
        response = await http.get(f"/v1/answers/{answer_id}/events", headers=headers)
    read = Read()
    if response.status_code == 200:
        for frame in response.content.split(b"\n\n"):
            read.take(frame)
    return response.status_code, read


async def test_answers_that_are_cut_and_read_on_anywhere_are_joined_byte_by_byte(database_url: str) -> None:
    async with two(database_url) as (here, there, spans):
        whole = undrafted((await ask(here.base_url, "Is it?")).text)
        seed = random.randrange(2**32)
        ports: set[int] = set()

        async def one(number: int) -> None:
            chance = random.Random(seed + number)
            read = await read_with_cuts(
                [here.port, there.port], "Is it?", chance, cuts=4, bytes_most=1500, key=f"k{seed}.{number}"
            )
            assert undrafted(read.text) == whole, (seed, number)
            ids = [int(each.partition(".")[2]) for each, _, _ in read.events]
            assert ids == list(range(1, len(ids) + 1)), (seed, number)
            ports.update(read.ports)

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(one, number)
        assert ports == {here.port, there.port}
        await assert_nothing_is_left(here, spans)


@pytest.mark.parametrize("answer_id", ["%00", "a%00b", "%F0%9F%8D%B5", "x" * 300])
async def test_an_id_that_no_answer_has_is_404_whatever_it_holds(database_url: str, answer_id: str) -> None:
    async with two(database_url) as (here, _, _), client(here.base_url) as http:
        for response in (
            await http.get(f"/v1/answers/{answer_id}/events"),
            await http.delete(f"/v1/answers/{answer_id}"),
        ):
            assert (response.status_code, response.json()["error"]["type"]) == (404, "answer_not_found")


async def test_a_key_stands_for_one_answer_on_every_gateway(database_url: str) -> None:
    async with two(database_url) as (here, there, _), client(there.base_url) as http:
        key = {"idempotency-key": "one"}
        told: list[Any] = []

        async def once(server: Running) -> None:
            told.append(await ask(server.base_url, "Is it?", key))

        async with anyio.create_task_group() as tasks:
            for server in (here, there, here, there):
                tasks.start_soon(once, server)
        told.append(await ask(there.base_url, "Is it?", key))
        assert len({each.one("started")["answer_id"] for each in told}) == 1
        assert len({each.text for each in told}) == 1
        wrong = await http.post("/v1/answers", json={"question": "Is it not?"}, headers=key)
        assert wrong.json()["error"]["type"] == "idempotency_key_reused"


async def test_a_reader_elsewhere_keeps_an_answer_going(database_url: str) -> None:
    async with two(database_url, Keeping(grace_s=1.5)) as (here, there, spans):
        answer_id = await left(here, b"event: token", "Is it? [[grade_ms=1 ttft_ms=1 tps=60 tokens=150]]")
        status, read = await resumed(there, answer_id)
        assert (status, read.events[-1][2]["path"]) == (200, "clean")
        await assert_nothing_is_left(here, spans)
        status, _ = await resumed(there, answer_id, len(read.events))
        assert status == 204


async def test_an_answer_that_nobody_reads_anywhere_is_given_up_everywhere(database_url: str) -> None:
    async with two(database_url, Keeping(grace_s=0.2)) as (here, there, spans):
        answer_id = await left(here, b"event: token", "Is it? [[grade_ms=1 ttft_ms=1 tps=40 tokens=4000]]")
        await assert_nothing_is_left(here, spans)
        await eventually(lambda: not rows(database_url, "SELECT 1 FROM recording WHERE answer_id = %s", answer_id))
        assert not rows(database_url, "SELECT 1 FROM recording_chunk WHERE answer_id = %s", answer_id)
        assert (await resumed(there, answer_id))[0] == 404


async def test_an_answer_whose_server_is_gone_ends_with_failed_and_done(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "DOUBT_S", 0.5)
    async with two(database_url) as (here, there, _):
        told = await ask(here.base_url, "Is it?", **RESUMABLE)
        answer_id = told.one("started")["answer_id"]
        await eventually(
            lambda: rows(database_url, "SELECT 1 FROM recording WHERE answer_id = %s AND is_ended", answer_id)
        )
        rows(
            database_url,
            "UPDATE recording SET is_ended = false, last = 5, alive_at = now() - interval '1 minute' WHERE answer_id = %s",
            answer_id,
        )
        rows(database_url, "DELETE FROM recording_chunk WHERE answer_id = %s AND last > 5", answer_id)
        _, read = await resumed(there, answer_id)
        assert [name for _, name, _ in read.events][-2:] == ["failed", "done"]
        assert read.events[-2][2]["type"] == "answer_lost"
        ids = [int(each.partition(".")[2]) for each, _, _ in read.events]
        assert ids == list(range(1, len(ids) + 1))


async def test_a_database_that_comes_back_without_recordings_is_told_them_anew(database_url: str) -> None:
    async with two(database_url) as (here, there, spans):
        answer_id = await left(here, b"event: token", "Is it? [[grade_ms=1 ttft_ms=1 tps=40 tokens=4000]]")
        rows(database_url, "DELETE FROM recording WHERE answer_id = %s", answer_id)  # as a crash of the server does
        known = "SELECT 1 FROM recording_chunk WHERE answer_id = %s AND first = 1"
        await eventually(lambda: rows(database_url, known, answer_id), 20.0)
        async with await anyio.connect_tcp("127.0.0.1", there.port) as stream:
            await stream.send(f"GET /v1/answers/{answer_id}/events HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            seen = await read_until(stream, b"event: token")
        assert b"event: started" in seen
        async with client(there.base_url) as http:
            assert (await http.delete(f"/v1/answers/{answer_id}")).status_code == 204
        await assert_nothing_is_left(here, spans)


async def test_what_has_expired_is_swept_and_a_dead_server_s_key_is_free_again(database_url: str) -> None:
    async with open_pool(database_url, size=1) as pool:
        recordings = StoredRecordings(pool).of("default")
        assert await recordings.claim(Claim("a1", "me", "d", "k"), -1.0) is None
        assert await recordings.claim(Claim("a2", "me", "d", "k"), 60.0) is None
        held = await recordings.claim(Claim("a3", "me", "d", "k"), 60.0)
        assert held is not None
        assert held.answer_id == "a2"
        rows(database_url, "UPDATE recording SET alive_at = now() - interval '1 minute' WHERE answer_id = 'a2'")
        assert await recordings.claim(Claim("a3", "me", "d", "k"), -1.0) is None
        await StoredRecordings(pool).sweep()
        assert not rows(database_url, "SELECT 1 FROM recording WHERE answer_id IN ('a1', 'a2', 'a3')")


async def test_a_database_that_is_away_keeps_no_answer_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "CLAIM_LIMIT_S", 0.2)
    async with (
        open_pool("postgresql://127.0.0.1:1/none", size=1) as pool,
        open_keeper(shared=StoredRecordings(pool)) as keeper,
        running(replace(scripted_house(QUICK), keeper=keeper)) as server,
    ):
        told = await ask(server.base_url, "Is it?", **RESUMABLE)
        assert told.one("done")["path"] == "clean"
        status, read = await resumed(server, told.one("started")["answer_id"])
        assert (status, read.text) == (200, told.text)


async def test_a_resume_lands_on_another_process(database_url: str, tmp_path: Path) -> None:
    async with open_pool(database_url, size=1) as pool:
        await shelve(pool, HashingEmbedder(), {"tea": "Green tea is steeped at eighty degrees."})
    with embeddings_api() as embeddings:
        settings = {
            "GATEWAY_DATABASE_URL": database_url,
            "GATEWAY_RETRIEVER": "postgres",
            "GATEWAY_EMBEDDINGS_URL": embeddings.base_url,
            "GATEWAY_EMBEDDINGS_MODEL": "hashing",
            "GATEWAY_EMBEDDINGS_DIMENSIONS": "32",
        }
        gateways: list[GatewayProcess] = []
        async with gateway_process(tmp_path, **settings) as one, gateway_process(tmp_path, **settings) as other:
            gateways = [one, other]
            ports = [int(each.base_url.rpartition(":")[2]) for each in gateways]
            question = "How is green tea steeped? [[grade_ms=5 ttft_ms=5 tps=200 tokens=40]]"
            whole = undrafted((await ask(one.base_url, question)).text)
            for number in range(6):
                chance = random.Random(number)
                read = await read_with_cuts(ports, question, chance, cuts=3, bytes_most=900, key=f"p{number}")
                assert undrafted(read.text) == whole, number
