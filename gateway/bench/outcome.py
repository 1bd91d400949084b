"""The outcome of a bench: percentiles by strategy and path, the tokens and the money that each took, and how they compare."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from gateway.bench.figures import Json, machine, percentile, spread
from gateway.bench.profile import Profile
from gateway.bench.run import Asked, Plan
from gateway.bench.strategies import Strategy
from gateway.bench.workload import FAILING

Path = Literal["clean", "recovered", "refused", "failure path", "all"]
PATHS: dict[Path, tuple[str, ...]] = {
    "clean": ("clean",),
    "recovered": ("partial", "insufficient"),
    "refused": ("refused",),
    "failure path": FAILING,
    "all": ("clean", *FAILING),
}
"""The kinds of questions on each path. A question is counted where it belongs, also under a strategy that answers it all the same; those
beyond the mix on their own paths alone."""
PLANNED = {"clean": "clean", "partial": "recovered", "insufficient": "recovered", "refused": "refused"}
FORM = 1  # of the JSON


@dataclass(frozen=True, slots=True)
class Ratio:
    """A percentile of one strategy over that of another; `reach` is what it is to be at most with the built-in profile."""

    path: Path
    share: float
    strategy: Strategy
    over: Strategy
    reach: float | None = None

    @property
    def name(self) -> str:
        return f"{self.path} p{self.share:.0%}".rstrip("%") + f": {self.strategy} / {self.over}"


RATIOS = (
    Ratio("clean", 0.5, "adaptive", "classic", 0.66),
    Ratio("clean", 0.5, "adaptive", "plain", 1.05),
    Ratio("clean", 0.5, "adaptive", "never"),
    Ratio("clean", 0.5, "adaptive", "always"),
    Ratio("failure path", 0.5, "adaptive", "classic", 0.48),
    Ratio("failure path", 0.5, "adaptive", "never", 0.60),
    Ratio("failure path", 0.99, "adaptive", "classic", 0.65),
    Ratio("failure path", 0.99, "adaptive", "never", 0.77),
)


def outcome(profile: Profile, plan: Plan, found: Sequence[Asked]) -> Json:
    """All figures. `machine` says where they were taken."""
    return {
        "form": FORM,
        "machine": machine(),
        "profile": profile.model_dump(exclude={"samples"}) | {"samples": len(profile.samples)},
        "plan": {
            "questions": plan.questions,
            "failing": plan.failing,
            "runs": plan.runs,
            "concurrency": plan.concurrency,
        },
        "strategies": {strategy: figures(of(found, strategy)) for strategy in plan.strategies},
        "ratios": {ratio.name: value for ratio in RATIOS if (value := ratio_of(found, ratio)) is not None},
        "gain_kept": gain_kept(found),
        "discarded_to_always": discarded_ratio(found),
    }


def of(found: Sequence[Asked], strategy: Strategy) -> list[Asked]:
    return [one for one in found if one.strategy == strategy]


def figures(found: Sequence[Asked]) -> Json:
    """Of one strategy. Money is that of a thousand answers; `unchecked` were answered although no set held the answer at that point."""
    mix = of_the_mix(found)
    return {
        "first_byte_ms": {path: spread(times) for path in PATHS if (times := times_of(found, path))},
        "paths": dict(Counter(one.path for one in mix)),
        "unchecked": sum(one.path == "clean" != PLANNED[one.planned.kind] for one in mix),
        "off_script": sum(one.path not in ("clean", PLANNED[one.planned.kind]) for one in found),
        "discarded_tokens": sum(one.discarded_tokens for one in mix),
        "cost_of_1000": round(sum(one.cost for one in mix) / len(mix) * 1000, 4),
    }


def of_the_mix(found: Sequence[Asked]) -> list[Asked]:
    """Without the failing questions beyond it."""
    return [one for one in found if not one.planned.is_extra]


def times_of(found: Sequence[Asked], path: Path) -> list[float]:
    counted = of_the_mix(found) if path == "all" else found
    return [one.first_byte_ms for one in counted if one.planned.kind in PATHS[path]]


def ratio_of(found: Sequence[Asked], ratio: Ratio) -> float | None:
    """The median of the runs' ratios; of a p99, for which one run has too few, the ratio over all of them. None: not measured."""
    runs = sorted({one.run for one in found})
    groups = [[one for one in found if one.run == run] for run in runs] if ratio.share < 0.9 else [list(found)]
    ratios = []
    for group in groups:
        mine, other = (times_of(of(group, name), ratio.path) for name in (ratio.strategy, ratio.over))
        if mine and other:
            ratios.append(percentile(mine, ratio.share) / percentile(other, ratio.share))
    return round(median(ratios), 3) if ratios else None


def gain_kept(found: Sequence[Asked]) -> float | None:
    """The share of what `always` gains over `never` on the clean path, by medians, that `adaptive` keeps. None: not measured."""
    strategies: tuple[Strategy, ...] = ("never", "always", "adaptive")
    times = {strategy: times_of(of(found, strategy), "clean") for strategy in strategies}
    if not all(times.values()):
        return None
    never, always, adaptive = (percentile(times[strategy], 0.5) for strategy in strategies)
    return round((never - adaptive) / (never - always), 3) if never > always else None


def discarded_ratio(found: Sequence[Asked]) -> float | None:
    """Tokens that `adaptive` discarded over those that `always` did. None: not measured, or none were."""
    strategies: tuple[Strategy, ...] = ("adaptive", "always")
    mine, always = (sum(one.discarded_tokens for one in of_the_mix(of(found, strategy))) for strategy in strategies)
    return round(mine / always, 3) if always and of(found, "adaptive") else None


def bucket(found: Sequence[Asked], limit: int) -> Json:
    """What was discarded in a run that was over within a minute, as the gateway counts, and of how many tokens in any minute."""
    told = sum(one.told_discarded for one in found)
    return {"limit": limit, "discarded": told, "discarded_at_the_model": sum(one.discarded_tokens for one in found)}
