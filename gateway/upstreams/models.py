"""The models of a service, each behind its breaker."""

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.chat.profiles_of import Models
from gateway.graders import GraderName
from gateway.upstreams.breaker import Breakers, Role
from gateway.upstreams.guarded import GuardedGenerator, GuardedGrader
from grading.ports import Grader
from streaming.ports import Generator


@dataclass(frozen=True, slots=True)
class GuardedModels:
    """As `inner` makes them (gateway.chat.profiles_of.Models). Seconds: `silence_s` of a draft, `grade_s` of a whole grade.

    `asks_again`: whether a grader whose service fails is asked a second time; else somebody else is.
    """

    inner: Models
    breakers: Breakers
    silence_s: float
    grade_s: float
    asks_again: bool = True
    generates: Role = Role.GENERATOR
    grades: Role = Role.GRADER

    def generator(self, model: str) -> Generator:
        return GuardedGenerator(self.inner.generator(model), self.breakers.of(self.generates, model), self.silence_s)

    def graders(self, model: str) -> Mapping[GraderName, Grader]:
        breaker = self.breakers.of(self.grades, model)
        return {
            name: GuardedGrader(grader, breaker, self.grade_s, asks_again=self.asks_again)
            for name, grader in self.inner.graders(model).items()
        }
