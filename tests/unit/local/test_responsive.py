"""The models never block the event loop."""

import anyio
import pytest

from gateway.providers.local.slots import Slots, Urgency
from streaming.ports import Prompt
from tests.support.generators import read
from tests.support.local import numbered, passages, shared_models

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """The one a server runs on; that the models do their work on both is in the contract suites."""
    return "asyncio"


class Ticker:
    """Notes the longest time in which the loop did not come round."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.ticks = 0

    async def run(self) -> None:
        last = anyio.current_time()
        while True:
            await anyio.sleep(0.005)
            now = anyio.current_time()
            self.longest_s = max(self.longest_s, now - last)
            self.ticks += 1
            last = now


async def test_the_loop_keeps_turning_while_embeddings_grades_and_drafts_run(anyio_backend: str) -> None:
    models = shared_models()
    found = passages(
        *(f"Passage {n} tells {anyio_backend} how ferns grow in the shade of wall {n}. " * 5 for n in range(5))
    )
    await models.grader.grade("warm", found[:1])
    await models.embedder.embed_query("warm")
    ticker = Ticker()
    began = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ticker.run)
        async with anyio.create_task_group() as work:
            for n in range(20):
                work.start_soon(models.embedder.embed_query, f"How do ferns of kind {n} grow?")
            for n in range(5):
                work.start_soon(models.grader.grade, f"Where do ferns of kind {n} grow?", found)
            work.start_soon(models.embedder.embed_passages, [each.text for each in found])
            work.start_soon(read, await models.generator.draft(Prompt("Where do ferns grow?", numbered(found))))
        took_s = anyio.current_time() - began
        tasks.cancel_scope.cancel()
    assert ticker.longest_s < took_s / 2  # work on the loop itself would hold it for nearly all of the time
    assert ticker.ticks > 10


async def test_a_search_does_not_wait_for_an_ingest() -> None:
    models = shared_models()
    slots: Slots = models.slots
    order: list[str] = []

    async def ingest() -> None:
        await models.embedder.embed_passages([f"passage {n} " + "word " * 150 for n in range(12)])
        order.append("ingest")

    async def search() -> None:
        await models.embedder.embed_query("ferns")
        order.append("search")

    await slots.run(Urgency.VERDICT, lambda: None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ingest)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(search)
    assert order == ["search", "ingest"]
