"""Figures as bars with their intervals: in the terminal, and as a PNG."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from gateway.evaluation import letters
from gateway.evaluation.figures import Interval
from gateway.evaluation.picture import BLACK, BLUE, GREY, Canvas, Colour

COLUMNS = 40  # of the terminal's bars from 0 to 1
SCALE = 2  # pixels a dot of a letter is wide
BAR, ROW, TITLE, EDGE, SIDE = 10, 20, 34, 20, 360  # pixels
VALUE_LETTERS = 18


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure between 0 and 1 with its interval; one that is not a number has no bar."""

    name: str
    figure: Interval


@dataclass(frozen=True, slots=True)
class Group:
    """The bars of one set."""

    title: str
    bars: tuple[Bar, ...]


def terminal_bars(groups: Sequence[Group]) -> str:
    """A line for each bar: `#` up to the figure, `-` from its lower to its upper end."""
    widest = max((len(bar.name) for group in groups for bar in group.bars), default=0)
    lines: list[str] = []
    for group in groups:
        lines += [
            group.title,
            *(f"  {bar.name.ljust(widest)} |{_line(bar.figure)}| {told(bar.figure)}" for bar in group.bars),
        ]
    return "\n".join(lines)


def png_bars(groups: Sequence[Group]) -> bytes:
    """The same as a PNG, the intervals as thin lines over the bars."""
    names = [bar.name for group in groups for bar in group.bars]
    left = EDGE + SCALE * (max(map(letters.width, names), default=0) + letters.WIDTH)
    height = 2 * EDGE + sum(TITLE + ROW * len(group.bars) for group in groups)
    canvas = Canvas(left + SIDE + SCALE * letters.width(" " * VALUE_LETTERS) + EDGE, height)
    top = EDGE
    for group in groups:
        _write(canvas, group.title, EDGE, top + TITLE // 3)
        top += TITLE
        for tenth in range(0, 11, 5):
            place = left + SIDE * tenth // 10
            canvas.line(place, top - 4, place, top + ROW * len(group.bars) - 4, GREY)
        for bar in group.bars:
            _draw(canvas, bar, left, top)
            top += ROW
    return canvas.png()


def told(figure: Interval) -> str:
    """`0.747 [0.67, 0.81]`, or a dash where there is no figure."""
    return f"{figure.value:.3f} [{figure.low:.2f}, {figure.high:.2f}]" if isfinite(figure.value) else "-"


def _line(figure: Interval) -> str:
    if not isfinite(figure.value):
        return " " * COLUMNS
    end, low, high = (_place(each, COLUMNS) for each in (figure.value, figure.low, figure.high))
    return "".join("#" if at < end else " " for at in range(COLUMNS))[:low] + _range(end, low, high)


def _range(end: int, low: int, high: int) -> str:
    inside = "".join("=" if at < end else "-" for at in range(low, high))
    return inside + "".join("#" if at < end else " " for at in range(high, COLUMNS))


def _draw(canvas: Canvas, bar: Bar, left: int, top: int) -> None:
    _write(canvas, bar.name, EDGE, top)
    figure = bar.figure
    _write(canvas, told(figure), left + SIDE + 3 * SCALE, top)
    if not isfinite(figure.value):
        return
    for down in range(BAR):
        canvas.line(left, top + down, left + _place(figure.value, SIDE), top + down, BLUE)
    middle = top + BAR // 2
    low, high = left + _place(figure.low, SIDE), left + _place(figure.high, SIDE)
    canvas.line(low, middle, high, middle, BLACK)
    for end in (low, high):
        canvas.line(end, middle - 3, end, middle + 3, BLACK)


def _write(canvas: Canvas, text: str, x: int, y: int, colour: Colour = BLACK) -> None:
    for across, down in letters.dots(text):
        for aside in range(SCALE * SCALE):
            canvas.point(x + SCALE * across + aside % SCALE, y + SCALE * down + aside // SCALE, colour)


def _place(value: float, size: int) -> int:
    return round(min(max(value, 0.0), 1.0) * size) if isfinite(value) else 0
