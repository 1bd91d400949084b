"""Figures as tables for a terminal."""

from collections.abc import Sequence

from gateway.evaluation.figures import Confusion
from gateway.evaluation.sufficiency import MEASURES, SufficiencyReport

HEADINGS = ("AUC", "macro F1", "F1 not suff.", "precision", "recall", "ECE", "decided at .95", "cost")


def sufficiency_table(found: SufficiencyReport, mode: str) -> str:
    """A line for each set, with the 95 % interval under each figure, and the mean."""
    lines: list[tuple[str, ...]] = [("set", "cases", *HEADINGS)]
    for each in found.sets:
        figures = [each.figures[measure] for measure in MEASURES]
        lines.append((each.name, f"{each.sufficient}/{each.cases}", *(f"{figure.value:.3f}" for figure in figures)))
        lines.append(("", "", *(f"{figure.low:.2f}-{figure.high:.2f}" for figure in figures)))
    if len(found.sets) > 1:
        lines.append(("mean", "", *(f"{found.mean(measure):.3f}" for measure in MEASURES)))
    counts = "\n".join(f"{each.name}: {confusion_line(each.counts)}" for each in found.sets)
    head = f"Judged {mode}; sufficient from p = {found.threshold:.3f} on (one answer on junk = {found.cost_ratio:g} refusals)"
    return f"{head}\n\n{aligned(lines)}\n\n{counts}"


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
