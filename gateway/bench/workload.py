"""The questions of a bench, each with the script that it plays: the same for every strategy. Pure."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import floor, sqrt
from statistics import NormalDist

from gateway.bench.profile import Kind, Profile
from gateway.providers.script import Script

VERDICTS: dict[Kind, str] = {
    "clean": "sufficient",
    "partial": "partial,sufficient",
    "insufficient": "insufficient,sufficient",
    "refused": "insufficient,insufficient",
}
FAILING: tuple[Kind, ...] = ("partial", "insufficient", "refused")
LEAST_P = 0.001


@dataclass(frozen=True, slots=True)
class Planned:
    """A question before anyone asks it. `p`, `second_p` and `wider_p` are what retrieval would say of its first set, the one of its gap and
    the wider one; `delays` overrides the profile's.

    `is_widened` says that the wider set holds the answer, if any does. `is_extra` is a failing question beyond the mix: there are too few
    in a mix for the 99th percentile of theirs, and it counts for nothing else.
    """

    number: int
    kind: Kind
    p: float
    delays: str = ""
    second_p: float = 0.6
    wider_p: float = 0.6
    is_widened: bool = True
    is_extra: bool = False

    def question(self, asker: str) -> str:
        """The words that `asker` (a strategy and a run) asks it in: two askers meet the same delays, and nobody the other's tallies."""
        verdicts, odds, wider = VERDICTS[self.kind], f"{self.p:.4f},{self.second_p:.4f}", 2
        if not self.is_widened:  # the wider set has what the first has, in another number
            first = verdicts.partition(",")[0]
            verdicts, odds, wider = f"{verdicts},{first}", f"{odds},{self.wider_p:.4f}", 3
        said = f"verdict={verdicts} odds={odds} wider={wider}"
        script = f'draw=q{self.number} {said} rewrite="other words" {self.delays}'
        return f"What is said of item {self.number}? ({asker}) [[{script.strip()}]]"

    def script(self, defaults: Script) -> Script:
        """What will happen to it."""
        return Script.parse(self.question(""), defaults)


def defaults_of(profile: Profile) -> str:
    """The script that every question of `profile` plays, but for what it says itself."""
    delays, answer = profile.delays, profile.answer
    sigma = 0.0 if profile.samples else delays.sigma
    return (
        f"[[retrieve_ms={delays.retrieve} grade_ms={delays.grade} ttft_ms={delays.first_token} rewrite_ms={delays.rewrite} "
        f"tps={answer.tokens_per_s} tokens={answer.tokens} padding={answer.passage_words} jitter={sigma}]]"
    )


def planned(profile: Profile, count: int, seed: int = 1, first: int = 0, extra: int = 0) -> list[Planned]:
    """`count` questions in the profile's mix, as exact as whole numbers can be, in an order and with delays drawn from `seed`; `extra`
    failing ones more among them."""
    chance, parts = random.Random(seed), profile.mix.parts
    kinds = [(kind, is_widened, False) for kind, is_widened in kinds_of(profile, parts, count)]
    if extra and failing_of(parts):
        more = kinds_of(profile, {**parts, "clean": 0.0}, extra)
        kinds += [(kind, is_widened, True) for kind, is_widened in more]
    chance.shuffle(kinds)
    odds = SetOdds(profile, chance)
    questions = []
    for number, (kind, is_widened, is_extra) in enumerate(kinds, start=first):
        p, (second_p, wider_p) = odds.first(kind), odds.next(kind, is_widened=is_widened)
        delays = sampled(profile, chance)
        questions.append(Planned(number, kind, p, delays, second_p, wider_p, is_widened, is_extra))
    return questions


def failing_of(parts: Mapping[Kind, float]) -> float:
    """The parts of the questions whose first set does not hold the answer."""
    return sum(parts[kind] for kind in FAILING)


def kinds_of(profile: Profile, parts: Mapping[Kind, float], count: int) -> list[tuple[Kind, bool]]:
    """`count` kinds, each with whether a wider set holds what a second one does."""
    counts = dict(apportioned(parts, count))
    widened = round(profile.mix.widened * sum(counts[kind] for kind in FAILING)) - counts["insufficient"]
    kinds: list[tuple[Kind, bool]] = []
    for kind, many in counts.items():
        kinds += [(kind, kind != "partial" or n < widened) for n in range(many)]
    return kinds


def apportioned(parts: Mapping[Kind, float], count: int) -> Iterator[tuple[Kind, int]]:
    """How many of each kind: the largest remainders are rounded up."""
    shares: dict[Kind, float] = {kind: parts[kind] * count / sum(parts.values()) for kind in VERDICTS}
    left = count - sum(map(floor, shares.values()))
    largest = sorted(shares, key=lambda kind: floor(shares[kind]) - shares[kind])
    for kind, share in shares.items():
        yield kind, floor(share) + (kind in largest[:left])


class SetOdds:
    """p(sufficient) of the sets of a question."""

    def __init__(self, profile: Profile, chance: random.Random) -> None:
        parts = profile.mix.parts
        failing = failing_of(parts)
        self._first = Odds(profile, chance, parts["clean"] / (parts["clean"] + failing))
        self._gap = Odds(profile, chance, 1 - parts["refused"] / failing if failing else 1.0)
        self._wider = Odds(profile, chance, profile.mix.widened)

    def first(self, kind: Kind) -> float:
        """Of its first set."""
        return self._first.draw(kind == "clean")

    def next(self, kind: Kind, *, is_widened: bool) -> tuple[float, float]:
        """Of the set of its gap, and of the wider one, which are one where both hold the answer or neither does."""
        second = self._gap.draw(kind != "refused")
        return second, second if is_widened else self._wider.draw(holds_it=False)


class Odds:
    """p(sufficient) as a calibrated signal of the profile's AUC tells it: two normals of one variance, and Bayes' rule."""

    def __init__(self, profile: Profile, chance: random.Random, prior: float) -> None:
        """`prior` is the share of sets that hold the answer."""
        self._prior = prior
        self._apart = sqrt(2) * NormalDist().inv_cdf(profile.mix.auc)
        self._chance = chance

    def draw(self, holds_it: bool) -> float:
        """What is known of a set that holds the answer, or of one that does not."""
        apart = self._apart
        seen = self._chance.gauss(apart if holds_it else 0.0, 1.0)
        holds, not_ = self._prior * NormalDist(apart).pdf(seen), (1 - self._prior) * NormalDist().pdf(seen)
        return min(max(holds / (holds + not_), LEAST_P), 1 - LEAST_P) if holds + not_ else self._prior


def sampled(profile: Profile, chance: random.Random) -> str:
    """The delays of one logged attempt as a script says them; "" where there is no log."""
    if not profile.samples:
        return ""
    sample = chance.choice(profile.samples)
    return f"retrieve_ms={sample.retrieve} grade_ms={sample.grade} ttft_ms={sample.first_token}"
