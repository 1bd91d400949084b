"""Figures of a bench: percentiles, the machine they were taken on, a table for people and JSON for programs."""

import json
import os
import platform
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: what was measured, what came out, and what was to be reached (empty: nothing was promised)."""

    what: str
    seen: str
    reach: str = ""
    is_met: bool | None = None


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of the values do not exceed (nearest rank). Raises ValueError for none."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values: nothing was measured")
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def spread(values: Sequence[float]) -> Json:
    """Count, least, p50, p95, p99 and greatest, rounded to microseconds when the values are milliseconds."""
    shares = {"min": 0.0, "p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {"n": len(values)} | {name: round(percentile(values, share), 3) for name, share in shares.items()}


def machine() -> Json:
    """Where and when, as far as it sets the figures."""
    return {
        "cores": os.cpu_count(),
        "cpu": cpu_model(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_average": [round(each, 2) for each in os.getloadavg()],
        "memory_free_mb": memory_free_mb(),
        "million_additions_ms": million_additions_ms(),
    }


def million_additions_ms() -> float:
    """How long a core takes for a million additions in Python now: the same virtual machine may be twice as slow an hour later."""
    began_s, total = time.perf_counter(), 0
    for number in range(1_000_000):
        total += number
    return round((time.perf_counter() - began_s) * 1000, 1)


def memory_free_mb() -> int | None:
    """Memory that programs could still have; None where the system does not tell."""
    info = Path("/proc/meminfo")
    found = re.search(r"MemAvailable:\s+(\d+) kB", info.read_text()) if info.exists() else None
    return None if found is None else int(found[1]) // 1024


def cpu_model() -> str:
    """The processor's own name where the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def table(title: str, lines: Sequence[Line]) -> str:
    """The lines as a table; a figure that missed its reach is marked."""
    marks = {None: " ", True: "✓", False: "✗"}
    first = max(len(line.what) for line in lines)
    second = max(len(line.seen) for line in lines)
    rows = [
        f"  {marks[line.is_met]} {line.what:<{first}}  {line.seen:>{second}}  {line.reach}".rstrip() for line in lines
    ]
    return "\n".join([title, *rows])


def report(title: str, lines: Sequence[Line], figures: Json, path: Path | None) -> int:
    """Prints the table and writes `figures` to `path`; the exit code: 1 when a reach was missed."""
    print(table(title, lines), flush=True)
    if path is not None:
        path.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return int(any(line.is_met is False for line in lines))
