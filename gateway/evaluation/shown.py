"""Figures as tables for a terminal."""

from collections.abc import Sequence
from math import fsum, isfinite
from typing import Any

from gateway.evaluation.figures import Confusion, Interval
from gateway.evaluation.grounding import GroundingFigures
from gateway.evaluation.sufficiency import MEASURES, SetFigures, SufficiencyReport

HEADINGS = ("AUC", "macro F1", "F1 not suff.", "precision", "recall", "ECE", "decided at .95", "cost")


def sufficiency_table(found: SufficiencyReport, mode: str) -> str:
    """A line for each set, with the 95 % interval under each figure, then the mean and all cases as one set."""
    lines: list[tuple[str, ...]] = [("set", "cases", *HEADINGS, "ECE by chance")]
    for each in found.sets:
        lines += _set_lines(each)
    if len(found.sets) > 1:
        lines.append(("mean", "", *(_figure(found.mean(measure)) for measure in MEASURES), ""))
        lines += _set_lines(found.together)
    counts = "\n".join(f"{each.name}: {confusion_line(each.counts)}" for each in found.sets)
    head = f"Judged {mode}; sufficient from p = {found.threshold:.3f} on (one answer on junk = {found.cost_ratio:g} refusals)"
    return f"{head}\n\n{aligned(lines)}\n\n{counts}"


def _set_lines(each: SetFigures) -> list[tuple[str, ...]]:
    figures = [*(each.figures[measure] for measure in MEASURES), each.chance]
    return [
        (each.name, f"{each.sufficient}/{each.cases}", *(_figure(figure.value) for figure in figures)),
        ("", "", *map(_range, figures)),
    ]


def _figure(value: float) -> str:
    """`0.747`, or a dash where there is no figure: nobody has a precision who released nothing."""
    return f"{value:.3f}" if isfinite(value) else "-"


def _range(figure: Interval) -> str:
    return f"{figure.low:.2f}-{figure.high:.2f}" if isfinite(figure.low) and isfinite(figure.high) else ""


GROUNDING = {
    "f1_unsupported": "F1 unsupp.",
    "precision": "precision",
    "recall": "recall",
    "macro_f1": "macro F1",
    "auc": "AUC",
    "ece": "ECE",
    "share_decided_at_95": "decided at .95",
}


def grounding_table(found: Sequence[GroundingFigures], mode: str) -> str:
    """A line for each set, with the 95 % interval under each figure."""
    lines: list[tuple[str, ...]] = [("set", "unsupported", *GROUNDING.values())]
    for each in found:
        figures = [each.figures[name] for name in GROUNDING]
        lines.append((each.name, f"{each.unsupported}/{each.answers}", *(_figure(figure.value) for figure in figures)))
        lines.append(("", "", *map(_range, figures)))
    return f"Judged {mode}\n\n{aligned(lines)}"


def grounding_json(found: Sequence[GroundingFigures]) -> dict[str, Any]:
    """Plain figures (the mean of the sets) on top, the sets with intervals below."""
    means = {name: round(fsum(each.figures[name].value for each in found) / len(found), 4) for name in GROUNDING}
    return {
        **{name: value if isfinite(value) else None for name, value in means.items()},
        "answers": sum(each.answers for each in found),
        "sets": {each.name: each.as_json() for each in found},
    }


def confusion_line(counts: Confusion) -> str:
    return (
        f"sufficient: {counts.released} released, {counts.refused_wrongly} refused; "
        f"not sufficient: {counts.released_wrongly} released, {counts.refused} refused"
    )


def aligned(lines: Sequence[tuple[str, ...]]) -> str:
    """Columns of equal width, the first to the left, the others to the right."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
