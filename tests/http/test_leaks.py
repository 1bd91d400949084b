"""Answers one after another, half of them left by the client: nothing remains. The long version is `make bench-leaks`."""

import os

import anyio
import psycopg
import pytest

from retrieval.pool import open_pool
from tests.bench.leaks import measure
from tests.bench.stage import workshop
from tests.support.census import Counter, OpenSpans
from tests.support.gateway_app import running, scripted_house

pytestmark = pytest.mark.anyio


@pytest.mark.slow
@pytest.mark.timeout(150)
async def test_36_answers_half_of_them_left_leave_everything_as_it_was(database_url: str) -> None:
    with workshop() as folder:
        figures = await measure(36, seed=3, database_url=database_url, folder=folder, warm_up=12)
    assert figures["more"] == {}
    assert figures["left"] >= 12
    assert sum(figures["whole"].values()) == 18
    assert figures["whole"].keys() == {"clean", "recovered", "refused"}


async def test_census_notices_whatever_is_held(database_url: str) -> None:
    spans = OpenSpans()
    async with (
        open_pool(database_url, size=2) as pool,
        running(scripted_house(processors=[spans])) as server,
        anyio.create_task_group() as tasks,
    ):
        counter = Counter(server, spans, pool, os.getpid())
        await pool.ping()
        before = await counter.take()
        trace = server.house.telemetry.request({}, method="POST", route="/")
        async with (
            await anyio.connect_tcp("127.0.0.1", server.port),
            await psycopg.AsyncConnection.connect(database_url),
        ):
            tasks.start_soon(anyio.sleep_forever)
            with server.house.open_answers.one():
                more = (await counter.take()).more_than(before)
        trace.end(None)
        tasks.cancel_scope.cancel()
    assert more.keys() == {"tasks", "slots", "spans", "connections", "backends", "upstream", "sockets", "descriptors"}
