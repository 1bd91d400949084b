"""Upstreams that fail are left alone for a while, then tried with one call; what we cut ourselves counts for nothing."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from gateway.upstreams.breaker import CONFIG, Breaker, Breakers, LeftAlone, Role
from gateway.upstreams.guarded import (
    LONG_CHARACTERS,
    GuardedGenerator,
    GuardedGrader,
    GuardedRetriever,
    GuardedRewriter,
)
from grading.cascade import Cascade, Rung
from grading.faults import GraderUnavailable, RewriterUnavailable
from grading.grade import Grade, Verdict
from retrieval.faults import CollectionNotFound, GatewayFault, RetrievalMisconfigured, RetrievalUnavailable
from retrieval.ports import Query
from streaming.faults import (
    AnswerIncomplete,
    GeneratorFault,
    GeneratorMisconfigured,
    GeneratorOverloaded,
    GeneratorUnavailable,
)
from streaming.ports import Draft, Prompt, Stopped, StopReason, Text
from streaming.silence import Silence
from tests.support.clock import run_virtual
from tests.support.fakes import DraftScript, FakeGenerator, FakeGrader, FakeRetriever, FakeRewriter, passages

GOOD = Grade(Verdict.SUFFICIENT, relevant=(1,))
WHOLE = DraftScript(((0.1, (Text("a word"),)), (0.1, (Stopped(StopReason.END),))))
DOWN = GeneratorUnavailable("the model's service failed")
PROMPT = Prompt("q", ())
FAILURES = CONFIG.minimum_number_of_calls
PAUSE_S = CONFIG.wait_duration_in_open

Play = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture(params=["asyncio", "trio"])
def play(request: pytest.FixtureRequest) -> Play:
    return lambda scene: run_virtual(str(request.param), scene)


class VirtualClock:
    def monotonic(self) -> float:
        return anyio.current_time()


def breaker() -> Breaker:
    return Breaker("the model", VirtualClock())


async def drafted(generator: GuardedGenerator) -> str:
    """The text of a draft that is read to its end and closed."""
    said, draft = "", await generator.draft(PROMPT)
    try:
        async for pieces in draft:
            said += "".join(piece.text for piece in pieces if isinstance(piece, Text))
    finally:
        await draft.aclose()
    return said


async def failed(generator: GuardedGenerator, times: int = FAILURES) -> None:
    for _ in range(times):
        with pytest.raises(GeneratorFault):
            await drafted(generator)


def model(guard: Breaker, *scripts: DraftScript, limit_s: float = 20.0) -> tuple[GuardedGenerator, FakeGenerator]:
    inner = FakeGenerator(list(scripts))
    return GuardedGenerator(inner, guard, limit_s), inner


BROKEN = DraftScript((), fault=DOWN)


def test_a_model_that_only_fails_is_asked_no_more_and_then_by_one_call_alone(play: Play) -> None:
    async def scene() -> None:
        guard = breaker()
        generator, inner = model(guard, *[BROKEN] * FAILURES, WHOLE)
        await failed(generator)
        assert (guard.state, guard.openings) == ("open", 1)
        with pytest.raises(GeneratorUnavailable, match="left alone") as alone:
            await generator.draft(PROMPT)
        assert alone.value.retryable
        assert len(inner.prompts) == FAILURES
        await anyio.sleep(PAUSE_S)
        probe = await generator.draft(PROMPT)
        assert guard.state == "half_open"
        with pytest.raises(GeneratorUnavailable, match="left alone"):
            await generator.draft(PROMPT)
        assert len(inner.prompts) == FAILURES + 1
        async for _ in probe:
            pass
        assert guard.state == "closed"
        await probe.aclose()
        assert await drafted(generator) == "a word"

    play(scene)


def test_a_probe_that_fails_opens_it_again_for_twice_as_long(play: Play) -> None:
    async def scene() -> None:
        guard = breaker()
        generator, inner = model(guard, BROKEN)
        await failed(generator)
        await anyio.sleep(PAUSE_S)
        await failed(generator, 1)
        assert (guard.state, guard.openings, len(inner.prompts)) == ("open", 2, FAILURES + 1)
        await anyio.sleep(PAUSE_S)
        await failed(generator, 1)
        assert len(inner.prompts) == FAILURES + 1
        await anyio.sleep(PAUSE_S)
        await failed(generator, 1)
        assert len(inner.prompts) == FAILURES + 2

    play(scene)


def test_a_model_that_speaks_is_not_kept_from_others_until_the_last_word_of_its_probe(play: Play) -> None:
    async def scene() -> None:
        guard = breaker()
        generator, _ = model(guard, *[BROKEN] * FAILURES, WHOLE)
        await failed(generator)
        await anyio.sleep(PAUSE_S)
        probe = await generator.draft(PROMPT)
        await anext(aiter(probe))
        assert guard.state == "closed"
        await probe.aclose()

    play(scene)


def test_some_failures_among_many_answers_open_nothing(play: Play) -> None:
    async def scene() -> None:
        guard = breaker()
        generator, _ = model(guard, *[WHOLE, BROKEN] * 20)
        for _ in range(20):
            await drafted(generator)
            await failed(generator, 1)
        assert (guard.state, guard.openings) == ("closed", 0)

    play(scene)


async def discarded(draft: Draft) -> None:
    """A draft that a verdict or a leaving client cuts while its model is silent."""

    async def read() -> None:
        async for _ in draft:
            pass

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    await draft.aclose()


async def left_while_opening(generator: GuardedGenerator) -> None:
    with anyio.move_on_after(0.01):
        await generator.draft(PROMPT)


def test_a_thousand_discards_open_nothing_also_where_one_more_failure_would(play: Play) -> None:
    async def scene() -> None:
        guard = breaker()
        silent = DraftScript((), hangs=True)
        cut = [silent, DraftScript((), open_s=9.0)]
        generator, inner = model(guard, *[BROKEN] * (FAILURES - 1), *cut * 500, BROKEN)
        await failed(generator, FAILURES - 1)
        for number in range(1000):
            if number % 2:
                await left_while_opening(generator)
            else:
                await discarded(await generator.draft(PROMPT))
        assert (guard.state, len(inner.prompts)) == ("closed", FAILURES - 1 + 1000)
        await failed(generator, 1)
        assert guard.state == "open"

    play(scene)


@pytest.mark.parametrize("where", ["opening", "reading", "unread"])
def test_a_probe_that_is_cut_locks_nothing(play: Play, where: str) -> None:
    """The trap: nobody says what came of the probe, and no other is let through."""

    async def scene() -> None:
        guard = breaker()
        silent = DraftScript((), hangs=True) if where != "opening" else DraftScript((), open_s=9.0)
        generator, _ = model(guard, *[BROKEN] * FAILURES, *[silent] * 20, WHOLE)
        await failed(generator)
        await anyio.sleep(PAUSE_S)
        for _ in range(20):
            match where:
                case "opening":
                    await left_while_opening(generator)
                case "reading":
                    await discarded(await generator.draft(PROMPT))
                case _:
                    await (await generator.draft(PROMPT)).aclose()
            assert guard.state == "half_open"
        assert await drafted(generator) == "a word"
        assert guard.state == "closed"

    play(scene)


def test_a_draft_of_before_says_nothing_of_what_came_since(play: Play) -> None:
    async def scene() -> None:
        guard = breaker()
        slow = DraftScript(((1.0, (Text("late"),)), (0.1, (Stopped(StopReason.END),))))
        generator, _ = model(guard, slow, BROKEN)
        old = await generator.draft(PROMPT)
        await failed(generator)
        async for _ in old:
            pass
        await old.aclose()
        assert guard.state == "open"

    play(scene)


@pytest.mark.parametrize("silent", [DraftScript((), open_s=99.0), DraftScript((), hangs=True)])
def test_silence_that_is_cut_at_its_limit_counts_against_the_model(play: Play, silent: DraftScript) -> None:
    async def scene() -> None:
        guard = breaker()
        generator, _ = model(guard, silent, limit_s=4.0)
        for _ in range(FAILURES):
            with pytest.raises(GeneratorUnavailable, match="silent"), Silence(4.0):
                await drafted(generator)
        assert guard.state == "open"

    play(scene)


@pytest.mark.parametrize(
    "fault",
    [GeneratorMisconfigured("the key is wrong"), ValueError("a defect of ours")],
)
def test_a_service_that_answers_no_is_there(play: Play, fault: Exception) -> None:
    async def scene() -> None:
        guard = breaker()
        generator, _ = model(guard, DraftScript((), fault=fault))
        for _ in range(FAILURES * 2):
            with pytest.raises(type(fault)):
                await drafted(generator)
        assert guard.state == "closed"

    play(scene)


@pytest.mark.parametrize("fault", [GeneratorOverloaded("busy"), DOWN, AnswerIncomplete("broke off")])
def test_whatever_may_pass_counts(play: Play, fault: GeneratorFault) -> None:
    async def scene() -> None:
        guard = breaker()
        generator, _ = model(guard, DraftScript(((0.0, (Text("some"),)),), fault=fault))
        await failed(generator)
        assert guard.state == "open"

    play(scene)


def unavailable(outage: GeneratorFault | None) -> GraderUnavailable:
    fault = GraderUnavailable("no answer")
    fault.__cause__ = outage
    return fault


@dataclass
class Judging:
    """A grader behind a breaker, and how long it took to answer or fail."""

    inner: FakeGrader
    guard: Breaker
    grader: GuardedGrader

    async def grade(self) -> tuple[float, Grade | None]:
        began = anyio.current_time()
        grade = None
        with suppress(GraderUnavailable):
            grade = await self.grader.grade("q", passages(1))
        return anyio.current_time() - began, grade


def judging(*grades: tuple[float, Any], asks_again: bool = True, limit_s: float = 7.0) -> Judging:
    inner, guard = FakeGrader(list(grades)), breaker()
    return Judging(inner, guard, GuardedGrader(inner, guard, limit_s, asks_again=asks_again))


@pytest.mark.parametrize(
    ("outage", "took_s", "calls"),
    [
        (GeneratorOverloaded("busy", 2.0), 2.0, 2),  # as long as the service says
        (GeneratorOverloaded("busy"), 0.2, 2),
        (DOWN, 0.2, 2),
        (GeneratorOverloaded("busy", 30.0), 0.0, 1),  # no grade would come in time
        (GeneratorMisconfigured("wrong key"), 0.0, 1),
        (None, 0.0, 1),  # it answered: nonsense, or a refusal
    ],
)
def test_a_grader_whose_service_fails_is_asked_once_more_within_its_time(
    play: Play, outage: GeneratorFault | None, took_s: float, calls: int
) -> None:
    async def scene() -> None:
        judge = judging((0.0, unavailable(outage)), (0.0, GOOD))
        took, grade = await judge.grade()
        assert took == pytest.approx(took_s)
        assert judge.inner.calls == calls
        assert (grade is not None) == (calls == 2)

    play(scene)


def test_where_another_grader_stands_by_the_first_is_asked_once(play: Play) -> None:
    async def scene() -> None:
        judge = judging((0.0, unavailable(DOWN)), asks_again=False)
        await judge.grade()
        assert judge.inner.calls == 1

    play(scene)


def test_nonsense_of_a_grader_shuts_nobody_out(play: Play) -> None:
    """Passages can bring it about: whoever wrote them could close the grader to everybody."""

    async def scene() -> None:
        judge = judging((0.0, unavailable(None)))
        for _ in range(FAILURES * 3):
            await judge.grade()
        assert judge.guard.state == "closed"

    play(scene)


def test_a_grader_that_is_left_alone_is_passed_over_for_the_next_rung(play: Play) -> None:
    async def scene() -> None:
        judge, second = judging((0.0, unavailable(DOWN)), asks_again=False), FakeGrader([(0.0, GOOD)], name="second")
        cascade = Cascade([Rung(judge.grader, 5.0), Rung(second, 5.0)])
        for _ in range(FAILURES + 3):
            assert (await cascade.grade("q", passages(1))).is_sufficient
        assert judge.inner.calls == FAILURES
        assert second.calls == FAILURES + 3

    play(scene)


def test_a_grader_that_stalls_past_its_rung_is_left_alone(play: Play) -> None:
    async def scene() -> None:
        judge = judging((99.0, GOOD), asks_again=False, limit_s=5.0)
        cascade = Cascade([Rung(judge.grader, 5.0)])
        for _ in range(FAILURES + 1):
            with pytest.raises(GraderUnavailable):
                await cascade.grade("q", passages(1))
        assert (judge.inner.calls, judge.guard.state) == (FAILURES, "open")

    play(scene)


def test_a_thousand_grades_cut_by_a_client_open_nothing(play: Play) -> None:
    async def scene() -> None:
        judge = judging((9.0, GOOD))
        for _ in range(1000):
            with anyio.move_on_after(0.01):
                await judge.grade()
        assert (judge.guard.state, judge.inner.calls, judge.inner.running) == ("closed", 1000, 0)

    play(scene)


def test_a_rewriter_of_a_service_that_is_left_alone_fails_at_once(play: Play) -> None:
    async def scene() -> None:
        judge = judging((0.0, unavailable(DOWN)), asks_again=False)
        for _ in range(FAILURES):
            await judge.grade()
        rewriter = GuardedRewriter(FakeRewriter("other words"), judge.guard, 20.0)
        with pytest.raises(RewriterUnavailable, match="left alone"):
            await rewriter.rewrite("q", None)

    play(scene)


@pytest.mark.parametrize(
    ("fault", "is_open"),
    [
        (RetrievalUnavailable("away"), True),
        (RetrievalUnavailable("sent something that is no list of results", is_outage=False), False),
        (RetrievalMisconfigured("refuses its key"), False),
        (CollectionNotFound("none"), False),
    ],
)
def test_a_source_that_is_away_is_left_alone_and_one_that_says_no_is_not(
    play: Play, fault: GatewayFault, is_open: bool
) -> None:
    async def scene() -> None:
        inner, guard = FakeRetriever([(0.0, fault)]), breaker()
        source = GuardedRetriever(inner, guard, 5.0)
        for _ in range(FAILURES + 2):
            with pytest.raises(type(fault)):
                await source.retrieve(Query("q"))
        assert (guard.state == "open") == is_open
        assert len(inner.queries) == (FAILURES if is_open else FAILURES + 2)

    play(scene)


@pytest.mark.parametrize("is_silent", [False, True])
@pytest.mark.parametrize(("characters", "is_open"), [(LONG_CHARACTERS, True), (LONG_CHARACTERS + 1, False)])
def test_a_question_long_enough_to_be_slow_shuts_nobody_out_of_a_source(
    play: Play, characters: int, is_open: bool, is_silent: bool
) -> None:
    async def scene() -> None:
        guard = breaker()
        source = GuardedRetriever(
            FakeRetriever([(9.0, ()) if is_silent else (0.0, RetrievalUnavailable("slow"))]), guard, 5.0
        )
        for _ in range(FAILURES):
            with suppress(RetrievalUnavailable), anyio.move_on_after(5.0):
                await source.retrieve(Query("q" * characters))
        assert (guard.state == "open") == is_open

    play(scene)


def test_breakers_are_one_for_each_upstream_and_told_by_role(play: Play) -> None:
    async def scene() -> None:
        breakers = Breakers(VirtualClock())
        one, other = breakers.of(Role.SOURCE, "web"), breakers.of(Role.SOURCE, "wiki")
        assert breakers.of(Role.SOURCE, "web") is one
        for _ in range(FAILURES):
            one.call(1.0).fail()
        with pytest.raises(LeftAlone):
            one.call(1.0)
        other.call(1.0).succeed()
        assert breakers.shown() == {"source web": "open", "source wiki": "closed"}
        counts = {labels["state"]: count for count, labels in breakers.states() if labels["upstream"] == "source"}
        assert counts == {"closed": 1, "half_open": 0, "open": 1}
        assert list(breakers.openings()) == [(1, {"upstream": "source"})]

    play(scene)
