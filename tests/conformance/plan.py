"""The plan: which questions are asked, what the scripted models do to each, and when the client leaves."""

from dataclasses import dataclass
from typing import Literal

from gateway.providers.script import Script

Leaves = Literal["never", "while held", "while told"]
STEADY = "retrieve_ms=1 grade_ms=300 ttft_ms=30 tps=200 tokens=60"
LONG = "retrieve_ms=1 grade_ms=300 ttft_ms=30 tps=200 tokens=4000"  # 20 s: whoever does not cut it is seen


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of question. `is_whole`: its answer must come, to its last byte. `breaks`: a model fails in it; such cases come last,
    because a gateway may leave models alone for a while that fail often."""

    name: str
    script: str
    leaves: Leaves = "never"
    is_whole: bool = False
    breaks: bool = False


CASES: tuple[Case, ...] = (
    Case("clean", f"[[{STEADY}]]", is_whole=True),
    Case("drafted before the verdict", f"[[{STEADY} grade_ms=700]]", is_whole=True),
    Case("one attempt discarded", f"[[{STEADY} verdict=partial,sufficient]]", is_whole=True),
    Case("every attempt discarded", f"[[{LONG} verdict=insufficient]]"),
    Case("silent model, bad verdict", f"[[{STEADY} verdict=insufficient fault=stall]]"),
    Case("model silent after five tokens, bad verdict", f"[[{STEADY} verdict=insufficient fault=stall@5]]"),
    Case("client leaves while the draft is held", f"[[{LONG} grade_ms=20000]]", "while held"),
    Case("client leaves while it is told", f"[[{LONG}]]", "while told"),
    Case("model breaks off", f"[[{STEADY} grade_ms=1 fault=cut@8]]", breaks=True),
    Case("model ends without a stop", f"[[{STEADY} grade_ms=1 fault=ends@8]]", breaks=True),
    Case("model overloaded", f"[[{STEADY} fault=overloaded]]", breaks=True),
    Case("model overloaded half way", f"[[{STEADY} grade_ms=1 fault=overloaded@8]]", breaks=True),
    Case("grader fails", f"[[{STEADY} grader_fault=fail]]", breaks=True),
    Case("grader talks nonsense", f"[[{STEADY} grader_fault=nonsense]]", breaks=True),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One question that is asked; no other has its number."""

    number: int
    case: Case

    @property
    def mark(self) -> str:
        return f"Conformance question {self.number}:"

    @property
    def question(self) -> str:
        return f"{self.mark} what is said of it? {self.case.script}"

    @property
    def script(self) -> Script:
        return Script.parse(self.question)


def waves(rounds: int) -> tuple[list[Asked], list[Asked]]:
    """Every case `rounds` times: those in which no model breaks, then those in which one does."""
    every = [Asked(number + 1, CASES[number % len(CASES)]) for number in range(rounds * len(CASES))]
    return [each for each in every if not each.case.breaks], [each for each in every if each.case.breaks]
