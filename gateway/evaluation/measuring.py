"""Measures of many cases, with a memory on disk: the models run once for each set, however often it is fitted or evaluated."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio

from gateway.evaluation.cases import Case
from gateway.evaluation.judging import Seen, seen
from grading.calibrated import Measure
from grading.signals import Margins, Measured
from retrieval.faults import GatewayFault

SIDE_BY_SIDE = 3  # cases; keeps every core busy while one of them packs its passages
MEASURES_VERSION = "2"  # of what is measured: a memory of another version is of no use
BEGINNING = '{"key": "'  # of every line of a memory

Progress = Callable[[int, int], None]
"""(measured, all) after each case."""


class MemoryUnusable(GatewayFault):
    """Raised when the file that is to remember measures holds something else, or cannot be read; it is left as it was."""

    type = "memory_unusable"


async def measure_cases(cases: Sequence[Case], cache: Path | None) -> list[Seen]:
    """The cases with what the local models say of them, with a bar on standard error. Raises LocalModelMissing or MemoryUnusable."""
    memory = Memory(cache)
    missing = sum(memory.get(case) is None for case in cases)
    if not missing:
        return seen(cases, [memory.get(case) if case.passages else None for case in cases])
    from gateway.providers.local.models import load_local_models

    models = await load_local_models(embedder=False)
    with bar("Measuring") as show:
        return seen(cases, await measured(cases, models.measure, memory, show))


@contextmanager
def bar(title: str) -> Iterator[Progress]:
    """A progress bar on standard error; gone when it ends, never there when nobody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as drawn:
        task = drawn.add_task(title, total=None)
        yield lambda done, total: drawn.update(task, completed=done, total=total)


async def measured(
    cases: Sequence[Case], measure: Measure, memory: "Memory", progress: Progress | None = None
) -> list[Measured | None]:
    """What the models say of each case, in order; None for an empty set. What the memory holds is not measured again.

    On cancellation what has been measured stays in the memory.
    """
    found: list[Measured | None] = [None] * len(cases)
    done = 0
    gate = anyio.Semaphore(SIDE_BY_SIDE)

    async def one(place: int, case: Case) -> None:
        nonlocal done
        async with gate:
            known = memory.get(case)
            if known is None and case.passages:
                known = await measure(case.question, case.passages)
                memory.keep(case, known)
            found[place] = known
            done += 1
            if progress is not None:
                progress(done, len(cases))

    async with anyio.create_task_group() as tasks:
        for place, case in enumerate(cases):
            tasks.start_soon(one, place, case)
    return found


class Memory:
    """Measures by question and passages, one JSON line each, in a file or (without one) for this run alone."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._known: dict[str, Measured] = {}
        for line in lines_of(file):
            self._read(line)

    def get(self, case: Case) -> Measured | None:
        return self._known.get(key_of(case))

    def keep(self, case: Case, found: Measured) -> None:
        """Remembers; a file grows by one line."""
        key = key_of(case)
        self._known[key] = found
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({"key": key, **asdict(found)}) + "\n")

    def _read(self, line: str) -> None:
        try:
            value = json.loads(line)
            self._known[value.pop("key")] = _measured(value)
        except (ValueError, KeyError, TypeError):
            return  # the last line of a run that was killed


def lines_of(file: Path | None) -> list[str]:
    """The lines of a file that may not exist; a last line that was cut off is ended, so that the next one begins anew.

    Raises MemoryUnusable.
    """
    if file is None or not file.exists():
        return []
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise MemoryUnusable(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise MemoryUnusable(f"{file} is no cache of measures; nothing was written to it") from error
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line.startswith(BEGINNING) and not BEGINNING.startswith(
            line
        ):  # a run that was killed leaves a part of a line
            raise MemoryUnusable(
                f"{file} is no cache of measures: line {number} is something else; nothing was written to it"
            )
    if lines[-1]:
        with file.open("a", encoding="utf-8") as memory:
            memory.write("\n")
    return lines


def key_of(case: Case) -> str:
    """Changes with whatever the measures depend on."""
    told = [MEASURES_VERSION, case.question, *((each.title, each.text) for each in case.passages)]
    return sha256(json.dumps(told).encode()).hexdigest()[:32]


def _measured(value: dict[str, Any]) -> Measured:
    return Measured(
        whole=Margins(**value["whole"]),
        logits=tuple(value["logits"]),
        clause_logits=tuple(value["clause_logits"]),
        similar=tuple((str(piece), float(cosine)) for piece, cosine in value["similar"]),
        cosines=tuple(value["cosines"]),
        alone=tuple((int(number), Margins(**margins)) for number, margins in value["alone"]),
        lexical=tuple(value.get("lexical", ())),  # caches from before it was measured have none
    )
