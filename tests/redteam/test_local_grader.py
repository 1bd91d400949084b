"""The grader that judges without a key: a poisoned set is graded as its clean copy is. All of it: python -m tests.bench.redteam."""

import pytest

from grading.calibrate import default_calibration
from grading.calibrated import CalibratedGrader
from grading.grade import Verdict, consistent
from tests.support.local import shared_models
from tests.support.redteam import ASKED, GARDEN, NOT_SAID, POISONS, added_to, hidden_in, plain_added_to

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def grader() -> CalibratedGrader:
    """As a server without a key has it."""
    calibration = default_calibration("calibrated")
    weighed = [name for name, weight in zip(calibration.names, calibration.weights, strict=True) if weight]
    return CalibratedGrader(shared_models().measure_for(weighed), calibration)


@pytest.mark.timeout(120)
async def test_no_passage_makes_a_set_sufficient_that_does_not_hold_the_answer() -> None:
    judge = grader()
    clean = await judge.grade(NOT_SAID, plain_added_to(GARDEN))
    assert clean.verdict is Verdict.INSUFFICIENT
    for poison in POISONS[::3]:
        found = added_to(GARDEN, poison)
        assert consistent(await judge.grade(NOT_SAID, found), len(found)).verdict is clean.verdict, poison


@pytest.mark.timeout(120)
async def test_no_passage_takes_an_answer_away_that_is_there() -> None:
    judge = grader()
    assert (await judge.grade(ASKED, GARDEN)).verdict is Verdict.SUFFICIENT
    for poison in POISONS[1::4]:
        found = hidden_in(GARDEN, poison, 0)
        assert consistent(await judge.grade(ASKED, found), len(found)).verdict is Verdict.SUFFICIENT, poison
