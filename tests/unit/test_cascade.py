"""The cascade: who is asked, who decides, and that no failure passes as sufficient."""

from collections.abc import Callable

import anyio
import pytest

from grading.cascade import Cascade, Rung
from grading.faults import GraderUnavailable
from grading.grade import Grade, Verdict
from grading.ports import Grader
from retrieval.passage import Passage

pytestmark = pytest.mark.anyio

SET = (Passage("p1", "d1", "", "text"),)
LIMIT_S = 0.05


class Says:
    """A grader that gives one grade, or fails, or never answers; it counts how often it was asked."""

    def __init__(self, name: str, outcome: Grade | Exception | None) -> None:
        self.name = name
        self._outcome = outcome
        self.asked = 0

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:
        self.asked += 1
        if self._outcome is None:
            await anyio.sleep_forever()
        if isinstance(self._outcome, Exception):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome


def sure(p: float, verdict: Verdict = Verdict.SUFFICIENT, name: str = "first") -> Says:
    return Says(name, Grade(verdict, relevant=(1,), grader=name, p_sufficient=p))


def cascade(*graders: Grader) -> Cascade:
    return Cascade([Rung(each, LIMIT_S, low=0.2, high=0.9) for each in graders])


@pytest.mark.parametrize(
    ("p", "verdict"), [(0.9, Verdict.SUFFICIENT), (1.0, Verdict.SUFFICIENT), (0.19, Verdict.INSUFFICIENT)]
)
async def test_a_sure_first_grader_is_the_only_one_asked(p: float, verdict: Verdict) -> None:
    second = sure(1.0, name="second")
    grade = await cascade(sure(p, verdict), second).grade("q", SET)
    assert (grade.verdict, grade.grader, second.asked) == (verdict, "first", 0)
    assert [each.grader for each in grade.rungs] == ["first"]


@pytest.mark.parametrize("p", [0.2, 0.5, 0.89])
async def test_what_the_first_is_unsure_of_the_next_decides(p: float) -> None:
    second = Says("second", Grade(Verdict.PARTIAL, "the price", (1,), grader="second"))
    grade = await cascade(sure(p), second).grade("q", SET)
    assert (grade.verdict, grade.grader, grade.missing) == (Verdict.PARTIAL, "second", "the price")
    assert [(each.grader, each.verdict, each.p_sufficient) for each in grade.rungs] == [
        ("first", Verdict.SUFFICIENT, p),
        ("second", Verdict.PARTIAL, None),
    ]
    assert all(each.took_s >= 0 for each in grade.rungs)


async def test_the_last_one_decides_however_unsure() -> None:
    grade = await cascade(sure(0.5, Verdict.PARTIAL)).grade("q", SET)
    assert grade.verdict is Verdict.PARTIAL


FAULTS: dict[str, Callable[[], Says]] = {
    "grader_unavailable": lambda: Says("first", GraderUnavailable("down")),
    "internal_error": lambda: Says("first", ZeroDivisionError()),
    "timeout": lambda: Says("first", None),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_grader_that_fails_or_stalls_falls_to_the_next(fault: str) -> None:
    grade = await cascade(FAULTS[fault](), sure(0.5, Verdict.INSUFFICIENT, "second")).grade("q", SET)
    assert (grade.verdict, grade.grader) == (Verdict.INSUFFICIENT, "second")
    assert [each.fault for each in grade.rungs] == [fault, None]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("p", [0.5, 0.85])
async def test_an_unsure_verdict_does_not_count_when_every_later_grader_fails(fault: str, p: float) -> None:
    with pytest.raises(GraderUnavailable, match=r"first unsure after .* s, second .* after"):
        await cascade(sure(p), named_second(FAULTS[fault]())).grade("q", SET)


def named_second(grader: Says) -> Says:
    grader.name = "second"
    return grader


async def test_cancelled_no_other_grader_begins() -> None:
    second = sure(1.0, name="second")
    slow = Cascade([Rung(Says("first", None), 60.0), Rung(second, 60.0)])
    with anyio.move_on_after(0.02) as scope:
        await slow.grade("q", SET)
    assert scope.cancelled_caught
    assert second.asked == 0


async def test_wrapped_each_grader_is_replaced_and_the_bands_stay() -> None:
    seen: list[str] = []

    def wrap(grader: Grader) -> Grader:
        seen.append(grader.name)
        return grader

    original = cascade(sure(0.5), sure(0.5, name="second"))
    assert original.wrapped(wrap).rungs == original.rungs
    assert seen == ["first", "second"]


def test_a_cascade_of_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one grader"):
        Cascade([])
