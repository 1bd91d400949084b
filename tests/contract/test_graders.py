"""What every grader promises: the contract of grading.ports.Grader, over each adapter and each event loop it runs on."""

import anyio
import pytest

from gateway.providers.script import Script
from grading.faults import GraderUnavailable
from grading.grade import Grade, Verdict
from tests.support.graders import GRADERS, GraderCase, passages

pytestmark = pytest.mark.anyio

QUICK = Script(grade_ms=5)
SOON_S = 2.0  # bounds every wait; nothing is timed against it
Case = tuple[GraderCase, str]
EVERY = [(case, backend) for case in GRADERS for backend in case.backends]
SCRIPTED = [(case, backend) for case, backend in EVERY if case.is_scripted]


@pytest.fixture
def anyio_backend(case: Case) -> str:
    return case[1]


every = pytest.mark.parametrize("case", EVERY, ids=lambda case: f"{case[0]}-{case[1]}")
scripted = pytest.mark.parametrize("case", SCRIPTED, ids=lambda case: f"{case[0]}-{case[1]}")


@every
async def test_a_grade_is_signed_and_names_passages_of_the_set(case: Case) -> None:
    async with case[0].open(QUICK) as grader:
        grade = await grader.grade("Which passage is the second?", passages(4))
    assert grade.grader == grader.name
    assert set(grade.relevant) <= {1, 2, 3, 4}


@every
async def test_sets_graded_at_the_same_time_do_not_mix(case: Case) -> None:
    sizes = (1, 2, 3, 4)
    async with case[0].open(QUICK) as grader:
        alone = [await grader.grade(f"q{n}", passages(n)) for n in sizes]
        together: dict[int, Grade] = {}

        async def one(n: int) -> None:
            together[n] = await grader.grade(f"q{n}", passages(n))

        async with anyio.create_task_group() as tasks:
            for n in sizes:
                tasks.start_soon(one, n)
    assert [together[n] for n in sizes] == alone


@scripted
@pytest.mark.parametrize("verdict", list(Verdict))
async def test_each_verdict_arrives_with_what_is_missing(case: Case, verdict: Verdict) -> None:
    async with case[0].open(QUICK) as grader:
        grade = await grader.grade(f"q [[verdict={verdict} missing='the price']]", passages(3))
    assert grade.verdict is verdict
    assert grade.missing == (None if verdict is Verdict.SUFFICIENT else "the price (search 1)")
    assert grade.is_sufficient == (grade.relevant == (1, 2, 3))


@scripted
async def test_each_attempt_has_its_own_verdict(case: Case) -> None:
    question = "q [[verdict=insufficient,partial,sufficient]]"
    async with case[0].open(QUICK) as grader:
        verdicts = [(await grader.grade(question, passages(2, search))).verdict for search in (1, 2, 3, 4)]
    assert verdicts == [Verdict.INSUFFICIENT, Verdict.PARTIAL, Verdict.SUFFICIENT, Verdict.SUFFICIENT]


@scripted
@pytest.mark.parametrize("fault", ["fail", "rate_limited", "nonsense", "refusal", "max_tokens"])
async def test_a_grader_that_fails_is_unavailable_and_not_a_bad_grade(case: Case, fault: str) -> None:
    async with case[0].open(QUICK) as grader:
        with pytest.raises(GraderUnavailable), anyio.fail_after(SOON_S):
            await grader.grade(f"q [[grader_fault={fault}]]", passages())


@scripted
async def test_cancelled_while_it_is_silent_it_returns_at_once(case: Case) -> None:
    async with case[0].open(QUICK) as grader:
        with anyio.fail_after(SOON_S), anyio.move_on_after(0.05) as waiting:
            await grader.grade("q [[grader_fault=stall]]", passages())
    assert waiting.cancelled_caught
