"""The report: how long each path takes and how often, from whatever counted it. Pure."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isnan, nan

from streaming.events import Path, Reason

FAILURE_PATH = "failure_path"  # every path but clean
STAGES = ("first_byte", "total", "retrieval", "grade", "verdict_to_close")
PATHS = tuple(str(path) for path in Path)
ABSTENTIONS = frozenset({str(Reason.INSUFFICIENT_EVIDENCE), str(Reason.UNGROUNDED)})  # the evidence was not enough
QUANTILES = (0.5, 0.95, 0.99)

Counts = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Spread:
    """How long something took, `count` times, in seconds; not a number where it never happened."""

    count: float
    p50: float
    p95: float
    p99: float

    @staticmethod
    def of(times: Sequence[float]) -> "Spread":
        """Exactly, by the nearest rank."""
        if not times:
            return NEVER
        ordered = sorted(times)
        return Spread(len(ordered), *(ordered[min(len(ordered) - 1, int(q * len(ordered)))] for q in QUANTILES))

    @staticmethod
    def in_buckets(bounds: Sequence[float], counts: Sequence[float]) -> "Spread":
        """From cumulated `counts` of what took at most each of `bounds` (the last is infinite), evenly inside a bucket."""
        if not counts or counts[-1] <= 0:
            return NEVER
        return Spread(counts[-1], *(quantile(q, bounds, counts) for q in QUANTILES))


NEVER = Spread(0, nan, nan, nan)


def quantile(q: float, bounds: Sequence[float], counts: Sequence[float]) -> float:
    """As Prometheus estimates it (`histogram_quantile`): linear inside the bucket, the last finite bound beyond it."""
    rank = q * counts[-1]
    place = bisect_left(counts, rank)
    if bounds[place] == inf:
        return bounds[place - 1] if place else nan
    below, low = (counts[place - 1], bounds[place - 1]) if place else (0.0, 0.0)
    inside = counts[place] - below
    return low + (bounds[place] - low) * ((rank - below) / inside if inside else 1.0)


@dataclass(frozen=True, slots=True)
class Ahead:
    """What drafts before their verdict saved, in seconds until the first answer byte; in how many answers a wider set was prepared, and in
    how many of these a second attempt was needed. Only a log of decisions knows it."""

    saved_s: float
    looked: float
    needed: float

    def as_json(self) -> dict[str, float]:
        return {"saved_s": round(float(self.saved_s), 4), "looked": round(self.looked), "needed": round(self.needed)}


@dataclass(frozen=True, slots=True)
class Seen:
    """What was counted. Spreads by (stage, path), FAILURE_PATH among the paths; counts by their label."""

    source: str
    spreads: Mapping[tuple[str, str], Spread]
    refusals: Counts = field(default_factory=dict)
    tokens: Counts = field(default_factory=dict)
    grounded: Counts = field(default_factory=dict)
    strategies: Mapping[str, Counts] = field(default_factory=dict)
    speculation: Counts = field(default_factory=dict)
    ahead: Ahead | None = None
    corrected: float = 0
    duplicates: float = 0
    conflicts: float = 0


@dataclass(frozen=True, slots=True)
class Report:
    """What a server did, in figures. `price` is of a million output tokens; None says nothing of cost."""

    seen: Seen
    price: float | None = None

    def spread(self, stage: str, path: str) -> Spread:
        return self.seen.spreads.get((stage, path), NEVER)

    def answers(self, path: str) -> float:
        """How many answers took this path."""
        return self.spread("total", path).count

    @property
    def all_answers(self) -> float:
        return sum(self.answers(path) for path in PATHS)

    def ratio(self, stage: str, path: str) -> float:
        """The p99 of a path over that of the clean one."""
        clean = self.spread(stage, "clean").p99
        return self.spread(stage, path).p99 / clean if clean else nan

    @property
    def rates(self) -> dict[str, float]:
        """Shares between 0 and 1; not a number where nothing could be shared."""
        seen, answers = self.seen, self.all_answers
        abstained = sum(count for reason, count in seen.refusals.items() if reason in ABSTENTIONS)
        tokens = sum(seen.tokens.values())
        drafted = seen.speculation.get("hit", 0) + seen.speculation.get("miss", 0)
        return {
            "correction": share(seen.corrected, answers),
            "recovery": share(self.answers("recovered"), seen.corrected),
            "refusal": share(self.answers("refused"), answers),
            "abstention": share(abstained, answers),
            "failure": share(self.answers("failed"), answers),
            "abandoned": share(self.answers("abandoned"), answers),
            "grounding failure": share(seen.grounded.get("false", 0), sum(seen.grounded.values())),
            "discarded tokens": share(seen.tokens.get("discarded", 0), tokens),
            "speculation hit": share(seen.speculation.get("hit", 0), drafted),
        }

    @property
    def success(self) -> dict[str, tuple[float, float]]:
        """By strategy: the share of its searches whose answer was released, and how many there were."""
        return {
            strategy: (share(results.get("released", 0), sum(results.values())), sum(results.values()))
            for strategy, results in sorted(self.seen.strategies.items())
            if sum(results.values())
        }

    @property
    def cost(self) -> float | None:
        """What the discarded tokens cost."""
        return None if self.price is None else self.seen.tokens.get("discarded", 0) * self.price / 1_000_000

    def as_json(self) -> dict[str, object]:
        """All of it, for programs; what is not a number is null. Counts are whole, also those that Prometheus extrapolated."""
        seen = self.seen
        return {
            "source": seen.source,
            "answers": {path: round(self.answers(path)) for path in PATHS},
            "seconds": {
                stage: {path: self._spread_as_json(stage, path) for path in (*PATHS, FAILURE_PATH)} for stage in STAGES
            },
            "rates": {name: plain(value) for name, value in self.rates.items()},
            "strategies": {name: {"success": plain(s), "count": round(n)} for name, (s, n) in self.success.items()},
            "refusals": whole(seen.refusals),
            "tokens": {**whole(seen.tokens), "discarded_cost": self.cost},
            **({} if (ahead := seen.ahead) is None else {"ahead": ahead.as_json()}),
            "duplicates": round(seen.duplicates),
            "conflicts": round(seen.conflicts),
        }

    def _spread_as_json(self, stage: str, path: str) -> dict[str, float | None]:
        spread = self.spread(stage, path)
        figures = {"p50": spread.p50, "p95": spread.p95, "p99": spread.p99, "p99_to_clean": self.ratio(stage, path)}
        return {"count": round(spread.count), **{name: plain(value) for name, value in figures.items()}}


def share(part: float, whole: float) -> float:
    return part / whole if whole else nan


def plain(value: float) -> float | None:
    return None if isnan(value) else round(float(value), 4)


def whole(counts: Counts) -> dict[str, int]:
    return {name: round(count) for name, count in counts.items()}
