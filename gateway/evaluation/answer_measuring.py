"""Measures of the claims of many answers, with a memory on disk like that of passage sets."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio

from gateway.evaluation.answered import Answered
from gateway.evaluation.grounding import Valued, valued
from gateway.evaluation.measuring import SIDE_BY_SIDE, Progress, bar, lines_of
from grading.signals import Margins
from grading.support import ClaimMeasured
from retrieval.passage import Passage

MEASURES_VERSION = "1"

Measure = Callable[[Sequence[str], tuple[Passage, ...]], Awaitable[list[ClaimMeasured]]]


async def measure_answers(cases: Sequence[Answered], cache: Path | None) -> list[Valued]:
    """The answers with the signals of their claims, with a bar on standard error. Raises LocalModelMissing or MemoryUnusable."""
    memory = ClaimMemory(cache)
    if any(memory.get(case) is None for case in cases):
        from gateway.providers.local.models import load_local_models

        models = await load_local_models(embedder=False)
        with bar("Measuring") as show:
            await measure_into(memory, cases, models.support, show)
    return [valued(case, memory.get(case) or []) for case in cases]


async def measure_into(
    memory: "ClaimMemory", cases: Sequence[Answered], measure: Measure, progress: Progress | None = None
) -> None:
    """Measures what the memory does not hold yet. On cancellation what has been measured stays there."""
    done = 0
    gate = anyio.Semaphore(SIDE_BY_SIDE)

    async def one(case: Answered) -> None:
        nonlocal done
        async with gate:
            if memory.get(case) is None:
                memory.keep(case, await measure(case.texts(), case.passages))
            done += 1
            if progress is not None:
                progress(done, len(cases))

    async with anyio.create_task_group() as tasks:
        for case in cases:
            tasks.start_soon(one, case)


class ClaimMemory:
    """Measures by claims and passages, one JSON line for each answer, in a file or (without one) for this run alone."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._known: dict[str, list[ClaimMeasured]] = {}
        for line in lines_of(file):
            self._read(line)

    def get(self, case: Answered) -> list[ClaimMeasured] | None:
        return self._known.get(key_of(case))

    def keep(self, case: Answered, found: list[ClaimMeasured]) -> None:
        """Remembers; a file grows by one line."""
        key = key_of(case)
        self._known[key] = found
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({"key": key, "claims": [asdict(each) for each in found]}) + "\n")

    def _read(self, line: str) -> None:
        try:
            value = json.loads(line)
            self._known[value["key"]] = [_measured(each) for each in value["claims"]]
        except (ValueError, KeyError, TypeError):
            return  # the last line of a run that was killed, or a line of another kind


def key_of(case: Answered) -> str:
    """Changes with whatever the measures depend on."""
    told = [MEASURES_VERSION, case.texts(), *((each.title, each.text) for each in case.passages)]
    return sha256(json.dumps(told).encode()).hexdigest()[:32]


def _measured(value: dict[str, Any]) -> ClaimMeasured:
    similar = tuple((str(piece), float(cosine)) for piece, cosine in value["similar"])
    return ClaimMeasured(Margins(**value["margins"]), similar)
