"""The strategies that a bench compares: this gateway in its three modes, plain retrieval and the published corrective loop.

The last two are put together from the same parts: only the grader or the policy differs, so that what is compared is the strategy.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, get_args

from gateway.house import House
from gateway.providers.script import Script, at, stamped_search
from gateway.speculation import Speculate
from grading.correct import DEFAULT_POLICY, Policy
from grading.correct import Strategy as Correction
from grading.grade import Grade, Verdict
from retrieval.passage import Passage

Strategy = Literal["plain", "classic", "never", "always", "adaptive"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
SPECULATE: Mapping[Strategy, Speculate] = {
    "plain": "never",
    "classic": "never",
    "never": "never",
    "always": "always",
    "adaptive": "adaptive",
}
CLASSIC: Policy = dict.fromkeys(DEFAULT_POLICY, (Correction.REWRITE,))
"""A model says the question in other words before each retry (arXiv:2401.15884, section 4, without the search of the web)."""


class Granted:
    """Finds every set sufficient, at once (grading.ports.Grader): there is no grading."""

    name = "none"

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:  # noqa: ARG002
        """A grade that keeps every passage."""
        return Grade(Verdict.SUFFICIENT, relevant=tuple(range(1, len(passages) + 1)), grader=self.name)


def house_for(strategy: Strategy, house: House) -> House:
    """`house` as it answers by `strategy`, given that requests ask for the speculation of SPECULATE."""
    match strategy:
        case "plain":
            return replace(house, parts=replace(house.parts, grader=Granted()), graders={})
        case "classic":
            return replace(house, parts=replace(house.parts, policy=CLASSIC))
        case "never" | "always" | "adaptive":
            return house


def told_odds(question: str, passages: tuple[Passage, ...]) -> float:
    """p(sufficient) as the question's script says that the signals of that search say it (streaming.speculate.Odds)."""
    return at(Script.parse(question).odds, stamped_search("\n".join(each.text for each in passages)) or 1)
