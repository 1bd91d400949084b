"""What the local models say of the claims of an answer beside its passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

import anyio
from anyio import to_thread

from gateway.providers.local.grader import ReaderGrader
from gateway.providers.local.judgement import Reading
from gateway.providers.local.late import LateInteraction
from gateway.providers.local.slots import Urgency
from grading.evidence import Piece, pack, piece
from grading.signals import Margins
from grading.support import ClaimMeasured
from retrieval.passage import Passage
from retrieval.traceless import traceless

CLAIM_TOKENS = 120  # the sentences nearest the claim: half the reader's evidence, in half the time


class SupportMeasure:
    """Measures claims: one run of the reader and one of the late-interaction model for each, 25 and 8 ms of a core."""

    def __init__(self, reader: ReaderGrader, late: LateInteraction) -> None:
        self._reader, self._late = reader, late

    async def __call__(
        self, claims: Sequence[str], passages: tuple[Passage, ...], urgency: Urgency = Urgency.VERDICT
    ) -> list[ClaimMeasured]:
        """What is said of each claim, in order. Raises what the networks raise."""
        pieces = [piece(each.title, each.text) for each in passages]
        packed = await to_thread.run_sync(_packings, claims, pieces)
        readings: list[Reading | None] = [None] * len(claims)
        similar: list[tuple[tuple[str, float], ...]] = []

        async def read(place: int) -> None:
            readings[place] = await self._reader.read_text(claims[place], packed[place], urgency)

        async with anyio.create_task_group() as tasks:
            for place in range(len(claims)):
                tasks.start_soon(traceless, read, place)
            similar = await self._late.similar_to_all(claims, [each.full for each in pieces], urgency)
        return [
            ClaimMeasured(Margins(*astuple(reading)), found)
            for reading, found in zip(readings, similar, strict=True)
            if reading is not None
        ]


def _packings(claims: Sequence[str], pieces: Sequence[Piece]) -> list[str]:
    return [pack(claim, pieces, CLAIM_TOKENS) for claim in claims]
