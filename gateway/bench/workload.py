"""The questions of a bench, each with the script that it plays: the same for every strategy. Pure."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import floor, sqrt
from statistics import NormalDist
from typing import Literal

from gateway.bench.profile import Profile
from gateway.providers.script import Script

Kind = Literal["clean", "partial", "insufficient", "refused"]
VERDICTS: dict[Kind, str] = {
    "clean": "sufficient",
    "partial": "partial,sufficient",
    "insufficient": "insufficient,sufficient",
    "refused": "partial,partial",
}
FAILING: tuple[Kind, ...] = ("partial", "insufficient", "refused")
LEAST_P = 0.001


@dataclass(frozen=True, slots=True)
class Planned:
    """A question before anyone asks it. `p` and `second_p` are what retrieval would say of its sets; `delays` overrides the profile's."""

    number: int
    kind: Kind
    p: float
    delays: str = ""
    second_p: float = 0.6

    def question(self, asker: str) -> str:
        """The words that `asker` (a strategy and a run) asks it in: two askers meet the same delays, and nobody the other's tallies."""
        odds = f"odds={self.p:.4f},{self.second_p:.4f}"
        script = f'draw=q{self.number} verdict={VERDICTS[self.kind]} rewrite="other words" {odds} {self.delays}'
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


def planned(profile: Profile, count: int, seed: int = 1, first: int = 0) -> list[Planned]:
    """`count` questions in the profile's mix, as exact as whole numbers can be, in an order and with delays drawn from `seed`."""
    chance = random.Random(seed)
    kinds = [kind for kind, many in apportioned(profile, count) for _ in range(many)]
    chance.shuffle(kinds)
    parts = profile.mix.parts
    failing = sum(parts[kind] for kind in FAILING)
    odds = Odds(profile, chance, parts["clean"] / (parts["clean"] + failing))
    second = Odds(profile, chance, 1 - parts["refused"] / failing if failing else 1.0)
    return [
        Planned(first + n, kind, odds.draw(kind == "clean"), sampled(profile, chance), second.draw(kind != "refused"))
        for n, kind in enumerate(kinds)
    ]


def apportioned(profile: Profile, count: int) -> Iterator[tuple[Kind, int]]:
    """How many of each kind: the largest remainders are rounded up."""
    parts = profile.mix.parts
    shares: dict[Kind, float] = {kind: parts[kind] * count / sum(parts.values()) for kind in VERDICTS}
    left = count - sum(map(floor, shares.values()))
    largest = sorted(shares, key=lambda kind: floor(shares[kind]) - shares[kind])
    for kind, share in shares.items():
        yield kind, floor(share) + (kind in largest[:left])


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
