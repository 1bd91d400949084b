"""The frontier for people: a table, and a picture of latency against cost."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from gateway.bench.figures import Json
from gateway.bench.shown import COLOURS
from gateway.evaluation import letters
from gateway.evaluation.picture import BLACK, BLUE, GREY, Canvas
from gateway.evaluation.shown import aligned
from gateway.reporting.shown import write

EDGE, WIDE, HIGH, GAP, NAMES = 24, 420, 280, 70, 70  # pixels
PANELS = (("clean", "p50"), ("failure path", "p99"))
PATHS = ("clean", "failure path")
STEPS = 4  # of the scales


def table(found: Json, check: Json | None) -> str:
    """Everything, in lines of text."""
    load = found["load"]
    head = f"Simulated, profile {found['profile']['name']!r}: {load['answers']} answers at {load['rate']:g} in a second; ms"
    rows: list[tuple[str, ...]] = [
        ("policy", "clean p50", "p99", "failure path p50", "p99", "discarded tokens", "cost of 1,000")
    ]
    for point in found["points"]:
        times = point["first_byte_ms"]
        each = [f"{times[path][share]:.0f}" if path in times else "-" for path in PATHS for share in ("p50", "p99")]
        rows.append((name_of(point), *each, str(point["discarded_tokens"]), f"{point['cost_of_1000']:.3f}"))
    parts = [head, aligned(rows)]
    if check is not None:
        lines = [("checked on a server", "answers", "same path", "beyond: p50", "p95", "clean p50: server, simulated")]
        for strategy, each in check.items():
            beyond, medians = each["beyond_ms"], each["p50_ms"].get("clean")
            both = f"{medians['measured']:.0f}, {medians['simulated']:.0f}" if medians else "-"
            counts = (str(each["answers"]), str(each["same_path"]))
            lines.append((strategy, *counts, f"{beyond['p50']:.1f}", f"{beyond['p95']:.1f}", both))
        parts.append(aligned(lines))
    return "\n\n".join(parts)


def name_of(point: dict[str, Any]) -> str:
    """The policy; of `adaptive` with what a second is worth to it."""
    return f"adaptive @{point['second']:g}" if point["strategy"] == "adaptive" else str(point["strategy"])


def picture(found: Json) -> bytes:
    """A PNG of two panels, clean p50 and failure path p99 in ms (up) against the cost of 1,000 answers (across)."""
    panels = [
        (path, share) for path, share in PANELS if all(path in point["first_byte_ms"] for point in found["points"])
    ]
    canvas = Canvas(2 * EDGE + NAMES + WIDE + 120, EDGE + len(panels) * (HIGH + GAP))
    for place, (path, share) in enumerate(panels):
        points = [
            (point["cost_of_1000"], point["first_byte_ms"][path][share], point["strategy"], name_of(point))
            for point in found["points"]
        ]
        _panel(canvas, f"{path} {share} in ms, by cost of 1,000 answers", points, EDGE + place * (HIGH + GAP))
    return canvas.png()


def _panel(canvas: Canvas, title: str, points: Sequence[tuple[float, float, str, str]], top: int) -> None:
    write(canvas, title, EDGE, top)
    left, floor = EDGE + NAMES, top + HIGH
    across = Scale([cost for cost, *_ in points], left, left + WIDE)
    up = Scale([time for _, time, *_ in points], floor, top + EDGE)
    for mark in across.marks:
        canvas.line(across.place(mark), top + EDGE, across.place(mark), floor, GREY)
        text = f"{mark:.2f}"
        write(canvas, text, across.place(mark) - letters.width(text), floor + 8)
    for mark in up.marks:
        canvas.line(left, up.place(mark), left + WIDE, up.place(mark), GREY)
        write(canvas, f"{mark:.0f}", EDGE, up.place(mark) - letters.HEIGHT)
    curve = [(across.place(cost), up.place(time)) for cost, time, strategy, _ in points if strategy == "adaptive"]
    for (x, y), (to_x, to_y) in pairwise(curve):
        canvas.line(x, y, to_x, to_y, BLUE, thick=2)
    for cost, time, strategy, _ in points:
        x, y = across.place(cost), up.place(time)
        canvas.dot(x, y, 4 if strategy == "adaptive" else 6, COLOURS[strategy])
        if strategy != "adaptive":
            write(canvas, strategy, x + 10, y - 12 if strategy != "never" else y + 6, BLACK)


class Scale:
    """From values to pixels, with a little room at both ends."""

    def __init__(self, values: Sequence[float], first: int, last: int) -> None:
        low, high = min(values), max(values)
        room = (high - low) * 0.08 or max(high * 0.08, 1.0)
        self._low, self._high = low - room, high + room
        self._first, self._last = first, last
        step = (self._high - self._low) / STEPS
        self.marks = [self._low + step * each for each in range(STEPS + 1)]

    def place(self, value: float) -> int:
        share = (value - self._low) / (self._high - self._low)
        return round(self._first + share * (self._last - self._first))
