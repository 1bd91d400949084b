"""The database's span: under the search that asks, over a real server, and under nothing else."""

from collections.abc import AsyncIterator

import anyio
import pytest

from gateway.observing.openmetrics import MetricsText, parsed
from gateway.observing.request_trace import RequestTrace
from gateway.observing.traced_pool import TracedPool
from gateway.traced import TracedRetriever
from retrieval.faults import CollectionNotFound
from retrieval.passage import Passage
from retrieval.pool import Connection, open_pool
from retrieval.ports import Query
from retrieval.postgres import PostgresRetriever
from streaming.facts import AttemptBegan
from tests.support.embedders import HashingEmbedder
from tests.support.span_trees import ROUTE, Recording, ask, attributes

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """psycopg is asyncio only."""
    return "asyncio"


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[TracedPool]:
    async with open_pool(database_url, size=1) as pool:
        yield TracedPool(pool)


@pytest.fixture
def recording() -> Recording:
    return Recording()


@pytest.fixture
def trace(recording: Recording) -> RequestTrace:
    trace = recording.start().request({}, "POST", ROUTE)
    trace.begin_answer(ask(), generator="g", grader="r", provider="p")
    trace.note(AttemptBegan(1, None, "q"))
    return trace


class Sleeping:
    """A retriever whose search takes long in the server."""

    def __init__(self, pool: TracedPool) -> None:
        self._pool = pool
        self.running = anyio.Event()

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        async def work(connection: Connection) -> None:
            self.running.set()
            await connection.execute("SELECT pg_sleep(30)")

        await self._pool.run(work, 40)
        return ()


async def test_a_search_has_the_databases_span_under_it_and_a_fault_marks_both(
    pool: TracedPool, trace: RequestTrace, recording: Recording
) -> None:
    retriever = TracedRetriever(PostgresRetriever(pool, HashingEmbedder()), trace)
    with pytest.raises(CollectionNotFound):
        await retriever.retrieve(Query("a question", collection="docs"))
    trace.end(200)

    assert recording.tree().splitlines()[3:5] == ["      retrieval docs failed", "        SELECT passage failed"]
    assert (
        attributes(recording.named("SELECT passage")[0]).items()
        >= {
            "db.system.name": "postgresql",
            "db.operation.name": "SELECT",
            "db.collection.name": "passage",
            "error.type": "collection_not_found",
        }.items()
    )


async def test_a_search_is_in_the_metric_of_the_database_with_its_fault(pool: TracedPool, recording: Recording) -> None:
    telemetry = recording.start()
    trace = telemetry.request({}, "POST", ROUTE)
    trace.begin_answer(ask(), generator="g", grader="r", provider="p")
    trace.note(AttemptBegan(1, None, "q"))
    with pytest.raises(CollectionNotFound):
        await TracedRetriever(PostgresRetriever(pool, HashingEmbedder()), trace).retrieve(Query("q", collection="docs"))
    trace.end(200)

    text = MetricsText().written(telemetry.metrics.collect(), openmetrics=True)
    (counted,) = [each for each in parsed(text) if each[0] == "db_client_operation_duration_seconds_count"]
    assert (counted[1]["error_type"], counted[2]) == ("collection_not_found", 1)


async def test_other_work_of_the_pool_has_no_span(pool: TracedPool, trace: RequestTrace, recording: Recording) -> None:
    await pool.ping()
    trace.end(200)

    assert recording.named("SELECT passage") == []
    assert pool.in_use == 0


async def test_a_client_that_leaves_during_the_search_ends_both_spans_and_frees_the_connection(
    pool: TracedPool, trace: RequestTrace, recording: Recording
) -> None:
    sleeping = Sleeping(pool)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(TracedRetriever(sleeping, trace).retrieve, Query("q", collection="docs"))
            await sleeping.running.wait()
            tasks.cancel_scope.cancel()
    trace.end(None)

    recording.assert_sound()
    assert recording.tree().splitlines()[3:5] == [
        "      retrieval docs client_gone",
        "        SELECT passage client_gone",
    ]
    assert pool.in_use == 0


async def test_two_searches_at_once_keep_their_own_statements(pool: TracedPool) -> None:
    recordings = Recording(), Recording()
    async with anyio.create_task_group() as tasks:
        for n, recording in enumerate(recordings):
            trace = recording.start().request({}, "POST", ROUTE)
            trace.begin_answer(ask(), generator="g", grader="r", provider="p")
            trace.note(AttemptBegan(1, None, "q"))
            tasks.start_soon(searched, pool, trace, f"c{n}")

    for n, recording in enumerate(recordings):
        recording.assert_sound()
        assert recording.tree().splitlines()[3:5] == [f"      retrieval c{n} failed", "        SELECT passage failed"]


async def searched(pool: TracedPool, trace: RequestTrace, collection: str) -> None:
    with pytest.raises(CollectionNotFound):
        await TracedRetriever(PostgresRetriever(pool, HashingEmbedder()), trace).retrieve(Query("q", collection))
    trace.end(200)
