"""The graders of a server, in the order that the settings name them: one alone, or a cascade."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from grading.calibrate import Calibration, default_calibration
from grading.calibrated import CalibratedGrader
from grading.cascade import Cascade, Rung
from grading.ports import Grader
from grading.score import ScoreGrader

if TYPE_CHECKING:
    from gateway.providers.local.models import LocalModels

GraderName = Literal["score", "cross-encoder", "calibrated", "model", "model-passages"]

ON_THE_MODELS_HERE: frozenset[GraderName] = frozenset({"cross-encoder", "calibrated"})
BY_A_SERVICE: frozenset[GraderName] = frozenset({"model", "model-passages"})
LOCAL_LIMIT_S = (
    3.0  # a grade takes 0.15 s on idle cores; a server that needs 20 times as long is better asked to say so
)
# Outside these the reader's own curve decides .95 of the development cases rightly, each set weighing the same (3,379 cases).
READER_BAND = (0.08, 0.88)


@dataclass(frozen=True, slots=True)
class Available:
    """What graders can be made of: the ones that ask a service by name, the calibrations by grader, then by collection.

    `standby` are those that are asked where one that asks a service fails.
    """

    local: "LocalModels | None" = None
    by_service: Mapping[GraderName, Grader] = field(default_factory=dict)
    calibrations: Mapping[str, Mapping[str, Calibration]] = field(default_factory=dict)
    standby: Mapping[GraderName, Grader] = field(default_factory=dict)

    def calibration(self, grader: str, collection: str | None) -> Calibration:
        """The collection's own, else the one that ships."""
        own = self.calibrations.get(grader, {}).get(collection or "")
        return default_calibration(grader) if own is None else own

    @property
    def collections(self) -> frozenset[str]:
        """Those that have a calibration of their own."""
        return frozenset(name for own in self.calibrations.values() for name in own)


def grader_of(
    names: Sequence[GraderName], available: Available, limit_s: float, collection: str | None = None
) -> Grader:
    """The grader for a collection (None: any without a calibration of its own). `limit_s` bounds all rungs of a cascade together.

    A rung that could be sure of nothing is left out, but for the last: it would only cost the time until the next is asked.
    """
    rungs = [rung for name in names for rung in _rungs(name, available, limit_s, collection)]
    asked = [*(rung for rung in rungs[:-1] if rung.can_be_sure), rungs[-1]]
    return asked[0].grader if len(asked) == 1 else Cascade(asked)


def graders_of(names: Sequence[GraderName], available: Available, limit_s: float) -> dict[str, Grader]:
    """The graders of the collections that have a calibration of their own, by collection."""
    return {name: grader_of(names, available, limit_s, name) for name in sorted(available.collections)}


def service_limit_s(limit_s: float, *, stands_by: bool) -> float:
    """What of `limit_s` seconds one grader that asks a service has: what local rungs leave, half of it where another one stands by."""
    left_s = limit_s - min(LOCAL_LIMIT_S, limit_s / 2)
    return left_s / 2 if stands_by else left_s


def _rungs(name: GraderName, available: Available, limit_s: float, collection: str | None) -> list[Rung]:
    """The rung of this name; where another one stands by for it, that one after it."""
    if name not in BY_A_SERVICE:
        return [_local_rung(name, available, limit_s, collection)]
    asked = [available.by_service[name], *([available.standby[name]] if name in available.standby else [])]
    return [Rung(grader, service_limit_s(limit_s, stands_by=len(asked) > 1)) for grader in asked]


def _local_rung(name: GraderName, available: Available, limit_s: float, collection: str | None) -> Rung:
    local_limit_s = min(LOCAL_LIMIT_S, limit_s / 2)
    if name == "score":
        calibration = available.calibration("score", collection)
        return Rung(ScoreGrader(calibration), local_limit_s, calibration.low, calibration.high)
    assert available.local is not None
    if name == "cross-encoder":
        return Rung(available.local.grader, local_limit_s, *READER_BAND)
    calibration = available.calibration("calibrated", collection)
    return Rung(
        CalibratedGrader(available.local.measure_for(_weighed(calibration)), calibration),
        local_limit_s,
        calibration.low,
        calibration.high,
    )


def _weighed(calibration: Calibration) -> tuple[str, ...]:
    """The signals that change a verdict; what has no weight need not be measured."""
    return tuple(name for name, weight in zip(calibration.names, calibration.weights, strict=True) if weight)
