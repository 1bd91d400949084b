"""The report for people: a table in the terminal, and a picture."""

from math import isfinite, log10

from gateway.evaluation import letters
from gateway.evaluation.picture import BLACK, BLUE, GREY, Canvas, Colour
from gateway.evaluation.shown import aligned
from gateway.reporting.report import FAILURE_PATH, PATHS, STAGES, Report

LINES = (*PATHS, FAILURE_PATH)
AMBER: Colour = (190, 110, 0)
LOW_S, HIGH_S = 0.01, 60.0  # the picture's scale, logarithmic
EDGE, ROW, TITLE, SIDE, NAMES, BAR = 20, 24, 34, 480, 130, 12  # pixels
SCALE = 2


def table(report: Report) -> str:
    """Everything, in lines of text."""
    parts = [f"From {report.seen.source}: {count(report.all_answers)} answers"]
    for stage in STAGES:
        rows = [(stage.replace("_", " "), "count", "p50", "p95", "p99", "p99 to clean")]
        for path in LINES:
            spread = report.spread(stage, path)
            if spread.count:
                ratio = report.ratio(stage, path)
                times = (seconds(spread.p50), seconds(spread.p95), seconds(spread.p99))
                rows.append((path, count(spread.count), *times, f"{ratio:.2f}" if isfinite(ratio) else "-"))
        if len(rows) > 1:
            parts.append(aligned(rows))
    parts.append(aligned([("rate", ""), *((name, percent(value)) for name, value in report.rates.items())]))
    if report.success:
        found = [(name, percent(part), count(all_)) for name, (part, all_) in report.success.items()]
        parts.append(aligned([("strategy", "released", "searches"), *found]))
    if report.seen.refusals:
        parts.append(aligned([("refusal", ""), *((k, count(n)) for k, n in sorted(report.seen.refusals.items()))]))
    discarded = report.seen.tokens.get("discarded", 0)
    money = "" if report.cost is None else f", which cost {report.cost:.4f}"
    found_ = f"{count(report.seen.duplicates)} repeats left out, {count(report.seen.conflicts)} disagreements"
    if (ahead := report.seen.ahead) is not None:
        looked = f"{count(ahead.looked)} wider sets prepared, {count(ahead.needed)} of them beside a set that failed"
        parts.append(f"{ahead.saved_s:.1f} s saved by drafts before their verdict; {looked}")
    parts.append(f"{count(discarded)} tokens discarded{money}; {found_}")
    return "\n\n".join(parts)


def seconds(value: float) -> str:
    return f"{value:.3f} s" if isfinite(value) else "-"


def percent(value: float) -> str:
    return f"{value:.1%}" if isfinite(value) else "-"


def count(value: float) -> str:
    """A count; one that Prometheus extrapolated is rounded."""
    return f"{round(value):,}"


def picture(report: Report) -> bytes:
    """A PNG: each path's time to first byte and in all, p50 to p99 on one logarithmic scale; amber is the failure path."""
    stages = ("first_byte", "total")
    canvas = Canvas(2 * EDGE + NAMES + SIDE + 200, 2 * EDGE + len(stages) * (TITLE + ROW * len(LINES)) + ROW)
    top = EDGE
    for stage in stages:
        write(canvas, f"{stage} in seconds: p50, p95, p99".replace("_", " "), EDGE, top)
        top += TITLE
        for mark in (0.01, 0.1, 1.0, 10.0, 60.0):
            canvas.line(place(mark), top - 6, place(mark), top + ROW * len(LINES) - 8, GREY)
        for path in LINES:
            _bar(canvas, report, stage, path, top)
            top += ROW
    for mark in (0.01, 0.1, 1.0, 10.0, 60.0):
        write(canvas, f"{mark:g}", place(mark) - 8, top)
    return canvas.png()


def _bar(canvas: Canvas, report: Report, stage: str, path: str, top: int) -> None:
    write(canvas, path.replace("_", " "), EDGE, top)
    spread = report.spread(stage, path)
    if not spread.count or not isfinite(spread.p99):
        return
    colour = BLUE if path == "clean" else AMBER
    for down in range(BAR):
        canvas.line(place(spread.p50), top + down, place(spread.p99), top + down, colour)
    for value in (spread.p50, spread.p95, spread.p99):
        canvas.line(place(value), top - 3, place(value), top + BAR + 2, BLACK, thick=2)
    write(canvas, f"{spread.p50:.2f} {spread.p95:.2f} {spread.p99:.2f}", EDGE + NAMES + SIDE + 16, top)


def place(value_s: float) -> int:
    """Where a time is, in pixels from the left."""
    share = (log10(min(max(value_s, LOW_S), HIGH_S)) - log10(LOW_S)) / (log10(HIGH_S) - log10(LOW_S))
    return EDGE + NAMES + round(share * SIDE)


def write(canvas: Canvas, text: str, x: int, y: int, colour: Colour = BLACK) -> None:
    for across, down in letters.dots(text):
        for aside in range(SCALE * SCALE):
            canvas.point(x + SCALE * across + aside % SCALE, y + SCALE * down + aside // SCALE, colour)
