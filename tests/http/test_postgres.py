"""The edge over a real PostgreSQL: no connection is held while tokens stream, none is left when a client leaves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import anyio
import psycopg
import pytest

from gateway.gaps import PostgresGaps
from gateway.library import KnownCollections
from retrieval.pool import Pool, open_pool
from retrieval.postgres import PostgresRetriever
from retrieval.store import PassageStore
from streaming.ports import Generator, Piece, Prompt, Stopped, StopReason, Text
from tests.support.clients import Told, ask, client
from tests.support.embedders import HashingEmbedder
from tests.support.gateway_app import Running, Spans, eventually, running, scripted_house, with_parts
from tests.support.leftovers import assert_nothing_is_left
from tests.support.library import shelve
from tests.support.postgres import emptied
from tests.support.raw_client import read_until, request_bytes

pytestmark = pytest.mark.anyio

TEXTS = {f"doc{n}": f"The {n}th gate opens when its set is graded sufficient." for n in range(8)}


@dataclass(frozen=True, slots=True)
class Stocked:
    """A server over a database with a few documents."""

    server: Running
    pool: Pool
    spans: Spans


@asynccontextmanager
async def stocked(url: str, generator: Generator | None = None) -> AsyncIterator[Stocked]:
    spans, embedder = Spans(), HashingEmbedder()
    async with open_pool(emptied(url), size=5) as pool:
        await shelve(pool, embedder, TEXTS)
        house = with_parts(
            scripted_house(processors=[spans]),
            retriever=PostgresRetriever(pool, embedder),
            gaps=PostgresGaps(pool),
        )
        if generator is not None:
            house = with_parts(house, generator=generator)
        house = replace(house, collections=KnownCollections(PassageStore(pool), embedder))
        async with running(house) as server:
            yield Stocked(server, pool, spans)


class UntilTold:
    """A generator whose drafts go on until all are told to end."""

    name = "until-told"

    def __init__(self) -> None:
        self.speaking = 0
        self.may_end = anyio.Event()

    async def draft(self, prompt: Prompt) -> "UntilTold":
        return self

    def __aiter__(self) -> AsyncIterator[tuple[Piece, ...]]:
        return self._batches()

    async def _batches(self) -> AsyncIterator[tuple[Piece, ...]]:
        yield (Text("It opens "),)
        self.speaking += 1
        await self.may_end.wait()
        yield Text("so."), Stopped(StopReason.END)

    def cut(self) -> None:
        """Holds nothing."""

    async def aclose(self) -> None:
        """Holds nothing."""


async def test_50_streams_on_5_connections_hold_none_while_they_stream(database_url: str) -> None:
    told: list[Told] = []
    generator = UntilTold()

    async def one(n: int) -> None:
        told.append(await ask(at.server.base_url, f"gate {n} [[grade_ms=1]]"))

    async with stocked(database_url, generator) as at, anyio.create_task_group() as tasks:
        for n in range(50):
            tasks.start_soon(one, n)
        await eventually(lambda: generator.speaking == 50, 30)
        await eventually(lambda: at.pool.in_use == 0)
        assert at.server.house.open_answers.count == 50
        generator.may_end.set()
    assert [one.one("done")["path"] for one in told] == ["clean"] * 50
    assert {one.text for one in told} == {"It opens so."}
    assert all(len(one.one("sources")["passages"]) == 5 for one in told)


async def test_client_that_leaves_during_a_search_gives_its_connection_back(database_url: str) -> None:
    async with stocked(database_url) as at, await psycopg.AsyncConnection.connect(database_url) as other:
        await other.execute("LOCK TABLE passage IN ACCESS EXCLUSIVE MODE")  # every search now waits
        async with await anyio.connect_tcp("127.0.0.1", at.server.port) as stream:
            await stream.send(request_bytes("gate"))
            await read_until(stream, b'"retrieving"')
            await eventually(lambda: at.pool.in_use == 1)
        await assert_nothing_is_left(at.server, at.spans)
        await eventually(lambda: at.pool.in_use == 0)
        await other.rollback()
        assert (await ask(at.server.base_url, "gate")).one("done")["path"] == "clean"


async def test_collection_that_was_never_filled_is_404(database_url: str) -> None:
    async with stocked(database_url) as at, client(at.server.base_url) as http:
        response = await http.post("/v1/answers", json={"question": "gate", "collection": "nowhere"})
        assert response.status_code == 404
        assert response.json()["error"]["type"] == "collection_not_found"


@pytest.mark.parametrize(
    "question", ["a\u0000b gate", "gate \ud83d", "gate \U000e0041", "gate'; DROP TABLE passage; --", "%s $1 gate"]
)
async def test_question_that_a_driver_chokes_on_is_answered(database_url: str, question: str) -> None:
    async with stocked(database_url) as at:
        told = await ask(at.server.base_url, question, filters={})
    assert told.one("done")["path"] == "clean"


async def test_refusal_is_recorded_as_a_gap(database_url: str) -> None:
    async with stocked(database_url) as at:
        told = await ask(at.server.base_url, "gate? [[verdict=insufficient]]")
    gap_id = told.one("refusal")["gap_id"]
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        rows = await (await connection.execute("SELECT question FROM coverage_gap WHERE id = %s", (gap_id,))).fetchall()
    assert rows == [("gate? [[verdict=insufficient]]",)]
