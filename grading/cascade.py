"""Several graders in order, cheap ones first: the next judges only what the last was unsure of, or failed on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import anyio

from grading.faults import GraderUnavailable
from grading.grade import Grade, RungJudged
from grading.ports import Grader
from retrieval.faults import GatewayFault
from retrieval.passage import Passage


@dataclass(frozen=True, slots=True)
class Rung:
    """A grader with its own time limit. `low` <= p_sufficient < `high` is its borderline band, which goes to the next rung.

    A grade without a probability is never borderline. The last rung's band means nothing: it decides.
    """

    grader: Grader
    deadline_s: float
    low: float = 0.0
    high: float = 0.0

    @property
    def can_be_sure(self) -> bool:
        """Whether there is a probability outside its band."""
        return self.low > 0.0 or self.high < 1.0

    def is_unsure(self, grade: Grade) -> bool:
        return grade.p_sufficient is not None and self.low <= grade.p_sufficient < self.high


class Cascade:
    """grading.ports.Grader: the first sure verdict of its rungs counts, signed by the rung that gave it.

    A rung that fails, stalls past its deadline or answers nonsense is passed over. A verdict its own rung was unsure of never counts:
    when every later rung fails, nothing is known, and GraderUnavailable says so. So no failure can release an answer.
    """

    name = "cascade"

    def __init__(self, rungs: Sequence[Rung]) -> None:
        if not rungs:
            raise ValueError("a cascade needs at least one grader")
        self.rungs = tuple(rungs)

    def wrapped(self, wrap: Callable[[Grader], Grader]) -> "Cascade":
        """The same cascade with each grader replaced by `wrap(grader)`, for instance by one with a span around it."""
        return Cascade([replace(rung, grader=wrap(rung.grader)) for rung in self.rungs])

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:
        """As the port says; the grade's `rungs` say what each one asked judged, in what time. On cancellation no other rung begins."""
        told: list[RungJudged] = []
        for place, rung in enumerate(self.rungs, 1):
            grade, judged = await _asked(rung, question, passages)
            told.append(judged)
            if grade is not None and (place == len(self.rungs) or not rung.is_unsure(grade)):
                return replace(grade, rungs=tuple(told))
        said = ", ".join(f"{each.grader} {each.fault or 'unsure'} after {each.took_s:.2f} s" for each in told)
        raise GraderUnavailable(f"no grader gave a verdict to rely on: {said}")


async def _asked(rung: Rung, question: str, passages: tuple[Passage, ...]) -> tuple[Grade | None, RungJudged]:
    """The rung's grade, or None and the type of its fault: `timeout`, a GatewayFault's own, else `internal_error`."""
    began = anyio.current_time()
    grade: Grade | None = None
    fault = "timeout"
    with anyio.move_on_after(rung.deadline_s):
        try:
            grade, fault = await rung.grader.grade(question, passages), ""
        except GatewayFault as error:
            fault = error.type
        except Exception:  # whatever breaks in one rung, the next can still judge
            fault = GatewayFault.type
    took_s = anyio.current_time() - began
    if grade is None:
        return None, RungJudged(rung.grader.name, None, None, took_s, fault)
    return grade, RungJudged(rung.grader.name, grade.verdict, grade.p_sufficient, took_s)
