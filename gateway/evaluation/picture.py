"""The reliability curve as a picture: in the terminal, and as a PNG written with the standard library alone."""

import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise

from gateway.evaluation.figures import Bin

SIDE = 400  # pixels of the square from (0, 0) to (1, 1)
EDGE = 40
ROWS, COLUMNS = 16, 48

Colour = tuple[int, int, int]
WHITE, GREY, BLACK, BLUE = (255, 255, 255), (190, 190, 190), (0, 0, 0), (31, 90, 180)


def terminal_curve(bins: Sequence[Bin]) -> str:
    """What was said (across) against what was true (up): `o` one part of the cases, `.` where they would be equal."""
    grid = [[" "] * (COLUMNS + 1) for _ in range(ROWS + 1)]
    for column in range(COLUMNS + 1):
        grid[round(column * ROWS / COLUMNS)][column] = "."
    for part in bins:
        grid[round(part.true * ROWS)][round(part.said * COLUMNS)] = "o"
    labels = {ROWS: "1.0", ROWS // 2: "0.5", 0: "0.0"}
    lines = [f"{labels.get(row, ''):>4} |{''.join(grid[row])}" for row in reversed(range(ROWS + 1))]
    axis = f"{'':>4} +{'-' * (COLUMNS + 1)}\n{'':>6}0.0{'0.5':^{COLUMNS - 6}}1.0"
    return "\n".join(["true", *lines, axis, f"{'':>6}{'said':^{COLUMNS}}"])


def png_curve(bins: Sequence[Bin]) -> bytes:
    """The same as a PNG: the diagonal, a dot for each part (its area grows with its cases) and lines between them."""
    canvas = Canvas(SIDE + 2 * EDGE, SIDE + 2 * EDGE)
    for tenth in range(11):
        place = EDGE + tenth * SIDE // 10
        canvas.line(place, EDGE, place, EDGE + SIDE, GREY if tenth % 5 else BLACK)
        canvas.line(EDGE, place, EDGE + SIDE, place, GREY if tenth % 5 else BLACK)
    canvas.line(EDGE, EDGE + SIDE, EDGE + SIDE, EDGE, GREY, thick=2)
    points = [(EDGE + round(part.said * SIDE), EDGE + SIDE - round(part.true * SIDE)) for part in bins]
    for (x, y), (next_x, next_y) in pairwise(points):
        canvas.line(x, y, next_x, next_y, BLUE, thick=2)
    most = max((part.count for part in bins), default=1)
    for (x, y), part in zip(points, bins, strict=True):
        canvas.dot(x, y, 3 + round(5 * (part.count / most) ** 0.5), BLUE)
    return canvas.png()


class Canvas:
    """Pixels, white at first; (0, 0) is the upper left corner."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._rows = [bytearray(bytes(WHITE) * width) for _ in range(height)]

    def point(self, x: int, y: int, colour: Colour) -> None:
        if 0 <= x < self.width and 0 <= y < self.height:
            self._rows[y][3 * x : 3 * x + 3] = bytes(colour)

    def line(self, x: int, y: int, to_x: int, to_y: int, colour: Colour, thick: int = 1) -> None:
        steps = max(abs(to_x - x), abs(to_y - y), 1)
        for step in range(steps + 1):
            here = x + round((to_x - x) * step / steps), y + round((to_y - y) * step / steps)
            for aside in range(thick * thick):
                self.point(here[0] + aside % thick, here[1] + aside // thick, colour)

    def dot(self, x: int, y: int, radius: int, colour: Colour) -> None:
        for up in range(-radius, radius + 1):
            for across in range(-radius, radius + 1):
                if up * up + across * across <= radius * radius:
                    self.point(x + across, y + up, colour)

    def png(self) -> bytes:
        """The picture in 8-bit RGB. Format: PNG specification (W3C), chunks IHDR, IDAT, IEND."""
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        pixels = zlib.compress(b"".join(b"\x00" + bytes(row) for row in self._rows), 9)
        return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
