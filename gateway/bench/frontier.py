"""The frontier: what each policy takes and costs at a rate, in simulation; and how far a real server is from the simulation."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.bench.figures import Json, percentile, spread
from gateway.bench.outcome import figures, of, times_of
from gateway.bench.profile import Profile
from gateway.bench.run import Asked
from gateway.bench.simulation import Policy, simulated
from gateway.bench.strategies import STRATEGIES, Strategy
from gateway.bench.workload import planned

SECONDS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 1.0)
"""What a second may be worth, from nothing to more than an answer costs: the points of `adaptive`."""
FORM = 1


@dataclass(frozen=True, slots=True)
class Load:
    """So many `answers` at `rate` in a second; a tenant's bucket and the streams from which on nobody speculates are the server's."""

    answers: int = 5_000
    rate: float = 50.0
    waste_tokens: int = 60_000
    busy_streams: int = 128


def frontier(profile: Profile, load: Load) -> Json:
    """All policies on the same questions at the same moments."""
    questions = planned(profile, load.answers)
    points = []
    for strategy in STRATEGIES:
        for second in SECONDS if strategy == "adaptive" else (profile.prices.second,):
            policy = Policy(strategy, second, load.waste_tokens, load.busy_streams)
            found = simulated(profile, policy, questions, load.rate)
            points.append({"strategy": strategy, "second": second, **figures(found)})
    return {
        "form": FORM,
        "profile": profile.model_dump(exclude={"samples"}) | {"samples": len(profile.samples)},
        "load": {
            "answers": load.answers,
            "rate": load.rate,
            "waste_tokens": load.waste_tokens,
            "busy_streams": load.busy_streams,
        },
        "points": points,
    }


def checked(profile: Profile, measured: Sequence[Asked], rate: float) -> Json:
    """By strategy: what a real server took for each question beyond what the simulation says of the same one, and both medians."""
    strategies: list[Strategy] = [name for name in STRATEGIES if of(measured, name)]
    return {strategy: _checked(profile, strategy, of(measured, strategy), rate) for strategy in strategies}


def _checked(profile: Profile, strategy: Strategy, measured: Sequence[Asked], rate: float) -> Json:
    policy = Policy(strategy, profile.prices.second)
    foreseen = {one.planned.number: one for one in simulated(profile, policy, [one.planned for one in measured], rate)}
    beyond = [one.first_byte_ms - foreseen[one.planned.number].first_byte_ms for one in measured]
    same = sum(one.path == foreseen[one.planned.number].path for one in measured)
    both = {
        path: {
            "measured": round(percentile(times_of(measured, path), 0.5), 1),
            "simulated": round(percentile(times_of(list(foreseen.values()), path), 0.5), 1),
        }
        for path in ("clean", "failure path")
        if times_of(measured, path)
    }
    return {"beyond_ms": spread(beyond), "p50_ms": both, "same_path": same, "answers": len(measured)}
