"""Admission: a bound in all and for each key, a short queue, first come first served; rates over every minute."""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import anyio
import pytest

from gateway.admission import KEYS_KEPT, Admission, Bounds
from gateway.hold import Hold
from gateway.problems import Overloaded, RateExceeded, TooManyStreams
from streaming.facts import DraftClosed
from tests.support.clock import run_virtual


@pytest.fixture(params=["asyncio", "trio"])
def play(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[Any]]], Any]:
    backend = str(request.param)
    return lambda function: run_virtual(backend, function)


Play = Callable[[Callable[[], Awaitable[Any]]], Any]


def test_as_many_as_may_are_let_in_and_the_next_waits_for_one_to_leave(play: Play) -> None:
    async def story() -> list[tuple[float, str]]:
        admission, seen = Admission(Bounds(streams=2, wait_s=5.0)), list[tuple[float, str]]()

        async def ask(name: str, stays_s: float) -> None:
            slot = await admission.slot(name)
            seen.append((anyio.current_time() - began, name))
            await anyio.sleep(stays_s)
            slot.let_go()

        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for name, stays_s in (("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 1.0)):
                tasks.start_soon(ask, name, stays_s)
                await anyio.wait_all_tasks_blocked()
        assert (admission.open, admission.waiting) == (0, 0)
        return seen

    assert play(story) == [(0.0, "a"), (0.0, "b"), (1.0, "c"), (2.0, "d")]


def test_who_waits_too_long_or_behind_too_many_is_turned_away(play: Play) -> None:
    async def story() -> None:
        admission = Admission(Bounds(streams=1, waiting=1, wait_s=1.0))
        held = await admission.slot("a")
        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:

            async def in_vain() -> None:
                with pytest.raises(Overloaded):
                    await admission.slot("b")
                assert anyio.current_time() - began == pytest.approx(1.0)

            tasks.start_soon(in_vain)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(Overloaded):
                await admission.slot("c")
            assert anyio.current_time() == began
        held.let_go()
        assert (admission.open, admission.waiting) == (0, 0)
        (await admission.slot("d")).let_go()

    play(story)


@pytest.mark.parametrize("is_handed_over", [False, True])
def test_who_leaves_while_waiting_takes_no_slot_along(play: Play, is_handed_over: bool) -> None:
    async def story() -> None:
        admission = Admission(Bounds(streams=1, wait_s=9.0))
        held = await admission.slot("a")
        later: list[Hold] = []

        async def wait() -> None:
            later.append(await admission.slot("c"))

        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:

                async def leave() -> None:
                    await anyio.sleep(1)
                    if is_handed_over:
                        held.let_go()  # in the very moment in which the one who waits is cancelled
                    scope.cancel()

                tasks.start_soon(leave)
                await anyio.sleep(0.5)
                (await admission.slot("b")).let_go()  # cancelled, or handed over just before
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            if not is_handed_over:
                held.let_go()
        assert len(later) == 1
        later[0].let_go()
        assert (admission.open, admission.waiting) == (0, 0)

    play(story)


def test_a_slot_that_is_handed_to_one_who_has_just_been_cancelled_goes_on_to_the_next(play: Play) -> None:
    async def story() -> None:
        admission = Admission(Bounds(streams=1, wait_s=9.0))
        held = await admission.slot("a")
        later: list[Hold] = []

        async def wait(name: str, scope: anyio.CancelScope) -> None:
            with scope:
                later.append(await admission.slot(name))

        scopes = [anyio.CancelScope() for _ in range(3)]
        async with anyio.create_task_group() as tasks:
            for name, scope in zip("bcd", scopes, strict=True):
                tasks.start_soon(wait, name, scope)
                await anyio.wait_all_tasks_blocked()
            scopes[0].cancel()
            scopes[1].cancel()
            held.let_go()  # to "b", who knows already that it is cancelled, as "c" does
        assert len(later) == 1
        assert (admission.open, admission.waiting) == (1, 0)
        later[0].let_go()
        assert (admission.open, admission.waiting) == (0, 0)

    play(story)


@pytest.mark.parametrize("leaves_at", [None, 0.5])
def test_a_key_whose_question_has_waited_in_vain_may_ask_again(play: Play, leaves_at: float | None) -> None:
    async def story() -> None:
        admission = Admission(Bounds(streams=1, streams_per_key=1, wait_s=1.0))
        held = await admission.slot("a")
        for _ in range(3):
            if leaves_at is None:
                with pytest.raises(Overloaded):
                    await admission.slot("b")
            else:
                with anyio.move_on_after(leaves_at) as scope:
                    await admission.slot("b")
                assert scope.cancelled_caught
        held.let_go()
        (await admission.slot("b")).let_go()

    play(story)


def test_one_key_cannot_have_them_all(play: Play) -> None:
    async def story() -> None:
        admission = Admission(Bounds(streams=10, streams_per_key=2))
        slots = [await admission.slot("greedy") for _ in range(2)]
        with pytest.raises(TooManyStreams):
            await admission.slot("greedy")
        slots.append(await admission.slot("modest"))
        slots[0].let_go()
        slots[0] = await admission.slot("greedy")
        for slot in slots:
            slot.let_go()
        assert admission.open == 0

    play(story)


def test_a_slot_is_free_when_the_last_holder_has_left(play: Play) -> None:
    async def story() -> None:
        admission = Admission(Bounds(streams=1))
        slot = await admission.slot("a")
        with slot.held():
            slot.let_go()
            assert admission.open == 1
        assert admission.open == 0

    play(story)


def test_a_key_asks_so_often_in_any_minute_and_is_told_when_it_may_again(play: Play) -> None:
    async def story() -> None:
        now = [1_000.5]
        admission = Admission(Bounds(requests_per_minute=3), lambda: now[0])
        for _ in range(3):
            (await admission.slot("a")).let_go()
        with pytest.raises(RateExceeded) as refused:
            await admission.slot("a")
        assert refused.value.wait_s == 61
        (await admission.slot("b")).let_go()
        now[0] += 61
        (await admission.slot("a")).let_go()

    play(story)


def test_who_is_told_when_to_come_again_is_let_in_then(play: Play) -> None:
    """Not when the oldest of what was spent is forgotten: when enough of it is."""

    async def story() -> None:
        now = [1_000.0]
        admission = Admission(Bounds(tokens_per_minute=100), lambda: now[0])
        meter = admission.meter("a")
        assert meter is not None
        meter.note(DraftClosed(1, 1, "released", 5, 5, True, 0.0))
        now[0] += 50
        meter.note(DraftClosed(1, 1, "released", 400, 100, True, 0.0))
        with pytest.raises(RateExceeded) as refused:
            await admission.slot("a")
        now[0] += refused.value.wait_s
        (await admission.slot("a")).let_go()

    play(story)


def test_a_key_that_has_spent_nothing_waits_for_nothing_whatever_the_clock_does(play: Play) -> None:
    async def story() -> None:
        ticks = count(1_000)
        admission = Admission(Bounds(tokens_per_minute=100, requests_per_minute=100), lambda: next(ticks) / 7)
        for _ in range(3):
            (await admission.slot("a")).let_go()

    play(story)


def test_tokens_of_every_draft_count_against_the_rate_of_their_key(play: Play) -> None:
    async def story() -> None:
        now = [1_000.0]
        admission = Admission(Bounds(tokens_per_minute=100), lambda: now[0])
        meter = admission.meter("a")
        assert meter is not None
        meter.note(DraftClosed(1, 1, "discarded", 60, 20, True, 0.0))
        (await admission.slot("a")).let_go()
        meter.note(DraftClosed(2, 1, "released", 60, 20, True, 0.0))
        with pytest.raises(RateExceeded):
            await admission.slot("a")
        (await admission.slot("b")).let_go()
        assert Admission().meter("a") is None

    play(story)


def test_the_minutes_of_many_keys_are_not_kept_for_ever(play: Play) -> None:
    async def story() -> int:
        now = [0.0]
        admission = Admission(Bounds(requests_per_minute=1), lambda: now[0])
        for number in range(KEYS_KEPT + 5):
            if number == KEYS_KEPT:
                now[0] += 100
            (await admission.slot(str(number))).let_go()
        return len(admission._requests)

    assert play(story) <= 5
