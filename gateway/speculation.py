"""Speculation: what a server has learnt of its models' pace and its tenants' waste, and a speculator for each answer."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from gateway.shedding import Shedding
from grading.calibrate import Calibration, default_calibration
from grading.score import free_odds
from retrieval.passage import Passage
from retrieval.tenancy import DEFAULT
from streaming.allowance import Allowance
from streaming.pace import Pace
from streaming.ports import Speculator
from streaming.speculate import Adaptive, Always, Lookouts, Never, Odds, Worth

Speculate = Literal["never", "always", "adaptive"]


@dataclass(frozen=True, slots=True)
class Terms:
    """What a second and a token are worth; how many tokens of discarded drafts a tenant may cause in a minute.

    At most `looking_ahead` answers at once prepare a wider set beside one that will hardly do. `shedding`: what goes first under load.
    """

    worth: Worth = field(default_factory=lambda: Worth(0.4, 0.0, 0.0))
    waste_tokens: int = 60_000
    looking_ahead: int = 128
    shedding: Shedding = field(default_factory=Shedding)


@dataclass(slots=True)
class Speculation:
    """`by_default` is how a request speculates that does not say; `calibrations` are those of the grader `score`, by collection of the
    default tenant.

    `answers` says how many are open in this process. What is learnt here is learnt of one process.
    """

    by_default: Speculate = "adaptive"
    terms: Terms = field(default_factory=Terms)
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)
    answers: Callable[[], int] = lambda: 0
    odds: Odds | None = None
    """Who says p(sufficient) in place of the free signals."""
    shared: Callable[[str], Allowance] | None = None
    """A tenant's share of what all gateways of one database may discard; without it each process counts for itself."""
    _paces: dict[tuple[str, str], Pace] = field(default_factory=dict)
    _wastes: dict[str, Allowance] = field(default_factory=dict)
    _lookouts: Lookouts | None = None

    def speculator(
        self, choice: Speculate | None, *, grader: str, generator: str, collection: str, tenant: str
    ) -> Speculator:
        """Who decides for one answer; `grader` and `generator` are names of closed sets."""
        match choice or self.by_default:
            case "always":
                return Always()
            case "never":
                return Never()
            case "adaptive":
                pace = self._paces.setdefault((grader, generator), Pace())
                terms = self.terms
                return Adaptive(
                    self._odds(collection if tenant == DEFAULT else None),
                    pace,
                    terms.worth,
                    self.waste(tenant),
                    lambda: terms.shedding.sheds_drafts(self.answers()),
                    self.lookouts,
                )

    @property
    def lookouts(self) -> Lookouts:
        """How many look ahead now."""
        if self._lookouts is None:
            self._lookouts = Lookouts(self.terms.looking_ahead, are_shed=lambda: self.sheds_looking_ahead)
        return self._lookouts

    @property
    def sheds_looking_ahead(self) -> bool:
        """Whether there is too much to do for looking ahead."""
        return self.terms.shedding.sheds_looking_ahead(self.answers())

    def waste(self, tenant: str) -> Allowance:
        """What the drafts of `tenant` have come to."""
        if self.shared is not None:
            return self.shared(tenant)
        if tenant not in self._wastes:
            self._wastes[tenant] = Allowance(self.terms.waste_tokens, time.monotonic)
        return self._wastes[tenant]

    def _odds(self, collection: str | None) -> Odds:
        if self.odds is not None:
            return self.odds
        own = None if collection is None else self.calibrations.get(collection)

        def odds(question: str, passages: tuple[Passage, ...]) -> float:
            return free_odds(question, passages, own or default_calibration("score"))

        return odds
