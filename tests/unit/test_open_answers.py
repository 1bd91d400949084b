"""Draining: answers that are open may finish, those that outlast the grace are told, new ones are turned away. In virtual time."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import anyio.lowlevel
import pytest

from gateway.open_answers import OpenAnswers
from gateway.problems import ShuttingDown
from streaming.halt import Halt
from tests.support.clock import run_virtual

GRACE_S, LAST_S = 10.0, 3.0

Run = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture(params=["asyncio", "trio"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine function in virtual time."""
    return lambda function: run_virtual(request.param, function)


async def answer_for(answers: OpenAnswers, seconds: float, halted_at: list[float], close_s: float = 0.0) -> None:
    """An open answer that takes so long, or until it is halted; then it closes for a while."""
    with answers.one() as halt:
        with anyio.CancelScope() as scope:
            halt.bind(scope)
            await anyio.sleep(seconds)
        if halt.fault is not None:
            halted_at.append(anyio.current_time())
        await anyio.sleep(close_s)


async def drained_s(answers: OpenAnswers) -> float:
    """How long the drain took."""
    began = anyio.current_time()
    await answers.drain(GRACE_S, LAST_S)
    return round(anyio.current_time() - began, 3)


def test_idle_server_drains_at_once(run: Run) -> None:
    async def scene() -> None:
        assert await drained_s(OpenAnswers()) == 0.0

    run(scene)


def test_answers_within_the_grace_finish_unhurt(run: Run) -> None:
    async def scene() -> None:
        answers, halted_at = OpenAnswers(), list[float]()
        async with anyio.create_task_group() as tasks:
            for seconds in (1.0, 4.0, 9.0):
                tasks.start_soon(answer_for, answers, seconds, halted_at)
            await anyio.sleep(0.5)
            assert await drained_s(answers) == 8.5
        assert halted_at == []

    run(scene)


def test_answers_that_outlast_the_grace_are_halted_and_waited_for(run: Run) -> None:
    async def scene() -> None:
        answers, halted_at = OpenAnswers(), list[float]()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer_for, answers, 1.0, halted_at)
            tasks.start_soon(answer_for, answers, 600.0, halted_at, 2.0)
            await anyio.wait_all_tasks_blocked()
            assert await drained_s(answers) == GRACE_S + 2.0
            assert answers.count == 0
        assert [round(at) for at in halted_at] == [GRACE_S]

    run(scene)


def test_answer_that_does_not_close_is_not_waited_for_for_ever(run: Run) -> None:
    async def scene() -> None:
        answers = OpenAnswers()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer_for, answers, 600.0, [], 600.0)
            await anyio.wait_all_tasks_blocked()
            assert await drained_s(answers) == GRACE_S + LAST_S
            assert answers.count == 1
            tasks.cancel_scope.cancel()

    run(scene)


def test_draining_server_takes_no_new_answer(run: Run) -> None:
    async def scene() -> None:
        answers = OpenAnswers()
        answers.begin_drain()
        assert answers.is_draining
        with pytest.raises(ShuttingDown), answers.one():
            pass
        assert answers.count == 0

    run(scene)


def test_answer_is_not_open_any_more_however_it_ends(run: Run) -> None:
    async def scene() -> None:
        answers = OpenAnswers()
        with suppress(RuntimeError), answers.one():
            assert answers.count == 1
            raise RuntimeError
        assert answers.count == 0

    run(scene)


def test_halt_before_the_answer_runs_ends_it_as_soon_as_it_does(run: Run) -> None:
    async def scene() -> None:
        answers = OpenAnswers()
        with answers.one() as halt:
            answers.halt_all()
            with anyio.CancelScope() as scope:
                halt.bind(scope)
                await anyio.sleep(600)
            assert isinstance(halt.fault, ShuttingDown)
            assert anyio.current_time() < 1.0

    run(scene)


def test_first_halt_is_the_one_that_is_told() -> None:
    halt, first = Halt(), ShuttingDown("first")
    halt.now(first)
    halt.now(ShuttingDown("second"))
    assert halt.fault is first
