"""Pictures for docs/tracing.md: a trace as Jaeger's API gives it, and what `promtool test rules` proved of the alarms."""

import re
from typing import Any

from gateway.evaluation import letters
from gateway.evaluation.picture import BLACK, GREY, Canvas, Colour

SCALE, EDGE, ROW, NAMES, SIDE = 2, 20, 22, 330, 560  # pixels
TEAL, AMBER, VIOLET, RED = (15, 107, 99), (190, 110, 0), (91, 63, 168), (163, 34, 47)
COLOURS: dict[str, Colour] = {"retrieval": TEAL, "chat": VIOLET, "attempt": GREY, "failure_path": RED}


def trace_png(trace: dict[str, Any]) -> bytes:
    """The spans of a trace in the order of the tree, indented, on the time of the whole."""
    spans = {span["spanID"]: span for span in trace["spans"]}
    lines = list(in_order(spans, None, 0))
    root = lines[0][1]
    whole = root["duration"] / 1e6
    canvas = Canvas(2 * EDGE + NAMES + SIDE + 130, 3 * EDGE + ROW * (len(lines) + 1))
    write(canvas, f"trace {trace['traceID']}", EDGE, EDGE)
    for quarter in range(5):
        x = EDGE + NAMES + SIDE * quarter // 4
        canvas.line(x, EDGE + ROW, x, EDGE + ROW * (len(lines) + 1), GREY)
        write(canvas, f"{whole * quarter / 4:.2f}", x - 14, EDGE + 6 + ROW * (len(lines) + 1))
    for n, (depth, span) in enumerate(lines, start=1):
        y = EDGE + n * ROW + 4
        write(canvas, span["operationName"], EDGE + 12 * depth, y)
        began = (span["startTime"] - root["startTime"]) / 1e6
        took = span["duration"] / 1e6
        left = EDGE + NAMES + round(SIDE * began / whole)
        right = max(left + 2, EDGE + NAMES + round(SIDE * (began + took) / whole))
        colour = COLOURS.get(span["operationName"].split()[0], BLACK)
        for down in range(10):
            canvas.line(left, y + down, right, y + down, colour)
        told = {tag["key"]: tag["value"] for tag in span["tags"]}
        keys = ("gateway.path", "gateway.verdict", "gateway.outcome")
        said = str(next(told[key] for key in keys if key in told))
        write(canvas, said, EDGE + NAMES + SIDE + 10, y)
    return canvas.png()


def in_order(spans: dict[str, Any], parent: str | None, depth: int) -> list[tuple[int, Any]]:
    """Depth first, siblings by their start."""
    children = [span for span in spans.values() if parent_of(span) == parent]
    lines: list[tuple[int, Any]] = []
    for span in sorted(children, key=lambda each: (each["operationName"] == "failure_path", each["startTime"])):
        lines += [(depth, span), *in_order(spans, span["spanID"], depth + 1)]
    return lines


def parent_of(span: dict[str, Any]) -> str | None:
    return next((str(each["spanID"]) for each in span["references"] if each["refType"] == "CHILD_OF"), None)


def alarms_png(rules_test: str, promtool_said: str) -> bytes:
    """For each case of the alarms' test which of them fire, and what promtool said of it."""
    cases = re.split(r"\n  - name: ", rules_test)[1:]
    alarms = list(dict.fromkeys(re.findall(r"alertname: (\w+)", rules_test)))
    left = EDGE + SCALE * max(letters.width(alarm) for alarm in alarms) + 20
    canvas = Canvas(left + 60 * len(cases) + EDGE, 4 * EDGE + ROW * (len(alarms) + len(cases) + 3))
    for row, alarm in enumerate(alarms):
        y = EDGE + ROW * row
        write(canvas, alarm, EDGE, y + 6)
        for column, case in enumerate(cases):
            x = left + 60 * column
            fires = re.search(rf"alertname: {alarm}\n\s+exp_alerts", case) is not None
            for down in range(ROW - 6):
                canvas.line(x, y + down, x + 50, y + down, RED if fires else (226, 241, 238))
    for column in range(len(cases)):
        write(canvas, str(column + 1), left + 60 * column + 20, EDGE + ROW * len(alarms) + 4)
    for n, case in enumerate(cases, start=1):
        write(canvas, f"{n}: {case.splitlines()[0]}", EDGE, 2 * EDGE + ROW * (len(alarms) + n))
    write(canvas, f"promtool test rules: {promtool_said}", EDGE, 2 * EDGE + ROW * (len(alarms) + len(cases) + 1))
    return canvas.png()


def write(canvas: Canvas, text: str, x: int, y: int, colour: Colour = BLACK) -> None:
    for across, down in letters.dots(text):
        for aside in range(SCALE * SCALE):
            canvas.point(x + SCALE * across + aside % SCALE, y + SCALE * down + aside // SCALE, colour)
