"""Slots: a bound, an order, and cancellation that returns at once."""

import threading
from collections.abc import Callable
from functools import partial

import anyio
import pytest

from gateway.providers.local.slots import Slots, Urgency

pytestmark = pytest.mark.anyio

SOON_S = 10.0  # bounds every wait; nothing is timed against it


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Work:
    """Blocking functions that stop until they are let go, and the names of those that began and ended."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.began: list[str] = []
        self.ended: list[str] = []
        self.running = 0
        self.most = 0
        self._lock = threading.Lock()

    def named(self, name: str) -> Callable[[], str]:
        return partial(self._run, name)

    def _run(self, name: str) -> str:
        with self._lock:
            self.began.append(name)
            self.running += 1
            self.most = max(self.most, self.running)
        self.go.wait(SOON_S)
        with self._lock:
            self.running -= 1
            self.ended.append(name)
        return name


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(SOON_S):
        while not condition():  # noqa: ASYNC110  what is waited for happens on other threads
            await anyio.sleep(0.002)


async def test_what_a_function_returns_or_raises_comes_back() -> None:
    slots = Slots(1)
    assert await slots.run(Urgency.VERDICT, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await slots.run(Urgency.VERDICT, lambda: 1 // 0)
    assert await slots.run(Urgency.VERDICT, lambda: 8) == 8


async def test_no_more_run_at_once_than_there_are_slots() -> None:
    slots, work = Slots(2), Work()
    async with anyio.create_task_group() as tasks:
        for n in range(6):
            tasks.start_soon(slots.run, Urgency.VERDICT, work.named(str(n)))
        await until(lambda: len(work.began) == 2)
        await anyio.wait_all_tasks_blocked()
        assert len(work.began) == 2
        work.go.set()
    assert len(work.ended) == 6
    assert work.most == 2


async def test_the_urgent_run_first_and_equals_in_order() -> None:
    slots, work = Slots(1), Work()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(slots.run, Urgency.INGEST, work.named("first"))
        await until(lambda: work.began == ["first"])
        for urgency, name in (
            (Urgency.INGEST, "ingest"),
            (Urgency.DRAFT, "draft"),
            (Urgency.VERDICT, "verdict 1"),
            (Urgency.VERDICT, "verdict 2"),
        ):
            tasks.start_soon(slots.run, urgency, work.named(name))
            await anyio.wait_all_tasks_blocked()
        work.go.set()
    assert work.began == ["first", "verdict 1", "verdict 2", "draft", "ingest"]


async def test_cancelled_while_it_runs_it_returns_at_once_and_the_work_ends_unseen() -> None:
    slots, work = Slots(1), Work()
    with anyio.fail_after(SOON_S), anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(slots.run, Urgency.VERDICT, work.named("running"))
            await until(lambda: work.began == ["running"])
            scope.cancel()
    assert work.ended == []  # the caller did not wait for the thread
    work.go.set()
    await until(lambda: work.ended == ["running"])
    assert await slots.run(Urgency.VERDICT, lambda: "next") == "next"


async def test_cancelled_while_it_waits_it_never_begins_and_its_place_is_free() -> None:
    slots, work = Slots(1), Work()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(slots.run, Urgency.VERDICT, work.named("first"))
        await until(lambda: work.began == ["first"])
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as waiting:
                for n in range(3):
                    waiting.start_soon(slots.run, Urgency.VERDICT, work.named(f"waiting {n}"))
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        tasks.start_soon(slots.run, Urgency.INGEST, work.named("last"))
        await anyio.wait_all_tasks_blocked()
        work.go.set()
    assert work.ended == ["first", "last"]


async def test_abandoned_work_still_counts_against_the_bound() -> None:
    slots, work = Slots(1), Work()
    for n in range(5):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(slots.run, Urgency.VERDICT, work.named(str(n)))
                await (until(lambda: work.began == ["0"]) if n == 0 else anyio.wait_all_tasks_blocked())
                scope.cancel()
    work.go.set()
    assert await slots.run(Urgency.VERDICT, work.named("wanted")) == "wanted"
    assert work.most == 1
    assert work.ended == ["0", "wanted"]  # what was cancelled before it began never ran
