"""The outcome of a bench for people: a table, a comparison with an older one, and a picture."""

from collections.abc import Iterator
from math import log10
from typing import Any

from gateway.bench.figures import Json, Line
from gateway.bench.outcome import RATIOS
from gateway.evaluation import letters
from gateway.evaluation.picture import BLACK, BLUE, GREY, Canvas, Colour
from gateway.evaluation.shown import aligned
from gateway.reporting.shown import write

PERCENTILES = ("p50", "p95", "p99")
DRAWN = ("clean", "failure path", "all")
AMBER, GREEN, VIOLET, RED = (190, 110, 0), (30, 130, 60), (120, 60, 160), (180, 40, 40)
COLOURS: dict[str, Colour] = {"plain": GREY, "classic": RED, "never": AMBER, "always": VIOLET, "adaptive": BLUE}
EDGE, ROW, TITLE, SIDE, NAMES, BAR = 20, 22, 30, 520, 110, 10  # pixels
LOW_MS, HIGH_MS = 100.0, 10_000.0  # the picture's scale, logarithmic
MARKS_MS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000)
DISCARDED_REACH, GAIN_REACH = 0.15, 0.95


def table(found: Json) -> str:
    """Everything, in lines of text."""
    plan, profile = found["plan"], found["profile"]
    head = (
        f"First answer byte in ms, profile {profile['name']!r}: {plan['runs']} runs of {plan['questions']} questions a strategy and "
        f"{plan['failing']} failing ones more, {plan['concurrency']} at once"
    )
    rows: list[tuple[str, ...]] = [("path", "strategy", "count", *PERCENTILES)]
    for path, strategy, times in lines_of(found):
        rows.append((path, strategy, str(times["n"]), *(f"{times[each]:.0f}" for each in PERCENTILES)))
    spent = [("strategy", "discarded tokens", "cost of 1,000", "answered unchecked", "off script")]
    for strategy, figures in found["strategies"].items():
        counts = (str(figures[name]) for name in ("unchecked", "off_script"))
        spent.append((strategy, str(figures["discarded_tokens"]), f"{figures['cost_of_1000']:.2f}", *counts))
    return "\n\n".join((head, aligned(rows), aligned(spent)))


def lines_of(found: Json) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, strategy and percentiles, path by path."""
    strategies = found["strategies"]
    paths = dict.fromkeys(path for each in strategies.values() for path in each["first_byte_ms"])
    for path in paths:
        for strategy, figures in strategies.items():
            if path in figures["first_byte_ms"]:
                yield path, strategy, figures["first_byte_ms"][path]


def ratios(found: Json) -> list[Line]:
    """How the strategies compare, with what is to be reached by the built-in profile."""
    lines = []
    for ratio in RATIOS:
        value = found["ratios"].get(ratio.name)
        if value is not None:
            reach = "" if ratio.reach is None else f"<= {ratio.reach:g}"
            lines.append(Line(ratio.name, f"{value:.3f}", reach, None if ratio.reach is None else value <= ratio.reach))
    if (kept := found["gain_kept"]) is not None:
        is_met = kept >= GAIN_REACH
        lines.append(
            Line("gain of always over never that adaptive keeps", f"{kept:.0%}", f">= {GAIN_REACH:.0%}", is_met)
        )
    slow_grader = found.get("slow_grader")
    if slow_grader is not None and (share := slow_grader["discarded_to_always"]) is not None:
        what = "tokens discarded where the grader is slow: adaptive / always"
        lines.append(Line(what, f"{share:.3f}", f"<= {DISCARDED_REACH:g}", share <= DISCARDED_REACH))
    if (bucket := found.get("bucket")) is not None:
        limit, discarded = bucket["limit"], bucket["discarded"]
        lines.append(
            Line("tokens discarded in a minute, of a bucket", f"{discarded}", f"<= {limit}", discarded <= limit)
        )
    return lines


def comparison(old: Json, new: Json) -> str:
    """Each percentile then and now, where both measured it; and whether the two are of one profile and machine."""
    before = {(path, strategy): times for path, strategy, times in lines_of(old)}
    rows = [("path", "strategy", *(f"{each}: then, now" for each in PERCENTILES))]
    for path, strategy, times in lines_of(new):
        if (then := before.get((path, strategy))) is not None:
            rows.append((path, strategy, *(changed(then[each], times[each]) for each in PERCENTILES)))
    spent = [("strategy", "discarded: then, now", "cost of 1,000: then, now")]
    for strategy, figures in new["strategies"].items():
        if (then := old["strategies"].get(strategy)) is not None:
            tokens = f"{then['discarded_tokens']}, {figures['discarded_tokens']}"
            spent.append((strategy, tokens, f"{then['cost_of_1000']:.2f}, {figures['cost_of_1000']:.2f}"))
    parts = [aligned(rows), aligned(spent)]
    parts += [f"The older one was taken with another {what}." for what in ("profile", "plan") if old[what] != new[what]]
    if any(old["machine"][name] != new["machine"][name] for name in ("cpu", "cores")):
        parts.append("The older one was taken on another machine.")
    return "\n\n".join(parts)


def changed(then: float, now: float) -> str:
    """`450, 430 (-4 %)`."""
    change = f" ({(now / then - 1) * 100:+.0f} %)" if then else ""
    return f"{then:.0f}, {now:.0f}{change}"


def picture(found: Json) -> bytes:
    """A PNG: for each path and strategy a bar from p50 to p99 on one logarithmic scale, marked at p50, p95 and p99."""
    groups = [(path, [line for line in lines_of(found) if line[0] == path]) for path in DRAWN]
    height = 2 * EDGE + ROW + sum(TITLE + ROW * len(lines) for _, lines in groups)
    canvas = Canvas(2 * EDGE + NAMES + SIDE + 160, height)
    top = EDGE
    for path, lines in groups:
        write(canvas, f"{path}: first answer byte, p50 to p99, in ms", EDGE, top)
        top += TITLE
        for mark in MARKS_MS:
            canvas.line(place(mark), top - 6, place(mark), top + ROW * len(lines) - 8, GREY)
        for _, strategy, times in lines:
            _bar(canvas, strategy, times, top)
            top += ROW
    for mark in MARKS_MS:
        text = f"{mark}"
        write(canvas, text, place(mark) - letters.width(text), top)
    return canvas.png()


def _bar(canvas: Canvas, strategy: str, times: dict[str, Any], top: int) -> None:
    write(canvas, strategy, EDGE, top)
    values = [times[each] for each in PERCENTILES]
    for down in range(BAR):
        canvas.line(place(values[0]), top + down, place(values[-1]), top + down, COLOURS.get(strategy, BLUE))
    for value in values:
        canvas.line(place(value), top - 3, place(value), top + BAR + 2, BLACK, thick=2)
    write(canvas, " ".join(f"{value:.0f}" for value in values), EDGE + NAMES + SIDE + 12, top)


def place(value_ms: float) -> int:
    """Where a time is, in pixels from the left."""
    share = (log10(min(max(value_ms, LOW_MS), HIGH_MS)) - log10(LOW_MS)) / (log10(HIGH_MS) - log10(LOW_MS))
    return EDGE + NAMES + round(share * SIDE)
