"""What the local models say of one set, measured side by side: the material of the calibrated grader."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import astuple

import anyio
from anyio import to_thread

from gateway.providers.local.grader import BUDGET_TOKENS, READ_ALONE, ReaderGrader
from gateway.providers.local.judgement import Reading
from gateway.providers.local.late import LateInteraction
from gateway.providers.local.pairs import PairScorer
from gateway.providers.local.readable import readable
from gateway.providers.local.slots import Urgency
from grading.evidence import Piece, pack
from grading.score import found_by
from grading.signals import Margins, Measured, clauses
from retrieval.passage import Passage
from retrieval.traceless import traceless

CLAUSE_TOKENS = 150
CONVINCES = 2.0  # the reader's lead from which no passage is read alone: what it would add changes no verdict


class LocalMeasure:
    """grading.calibrated.Measure over the reader, the cross-encoder and the late-interaction model.

    Only what the signals called `wanted` are made of is measured (None: everything).
    """

    def __init__(
        self,
        reader: ReaderGrader,
        pairs: PairScorer,
        late: LateInteraction,
        urgency: Urgency = Urgency.VERDICT,
        *,
        wanted: Collection[str] | None = None,
    ) -> None:
        self._reader, self._pairs, self._late, self._urgency = reader, pairs, late, urgency
        self._wants_late = wanted is None or any(name.startswith("late_") for name in wanted)
        self._wants_clauses = wanted is None or "weakest_clause" in wanted

    async def __call__(self, question: str, passages: tuple[Passage, ...]) -> Measured:
        """What is wanted, for a set that is not empty. Raises what the networks raise."""
        pieces = [readable(each) for each in passages]
        parts = clauses(question) if self._wants_clauses else ()
        packed, *parts_packed = await to_thread.run_sync(_packings, question, parts, pieces)
        work = _Work()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(traceless, work.read, self._reader, question, packed, self._urgency)
            if self._wants_late:
                tasks.start_soon(traceless, work.compare, self._late, question, packed, self._urgency)
            for part, text in zip(parts, parts_packed, strict=True):
                tasks.start_soon(traceless, work.score, self._pairs, part, text, self._urgency)
            logits = await self._pairs.scores(question, [each.full for each in pieces], self._urgency)
        whole = _margins(work.readings[packed])
        return Measured(
            whole=whole,
            logits=tuple(logits),
            clause_logits=tuple(work.clauses[part] for part in parts),
            similar=work.similar,
            cosines=found_by("cosine", passages),
            lexical=found_by("lexical", passages),
            alone=() if whole.lead >= CONVINCES else await self._alone(question, pieces, logits),
        )

    async def _alone(
        self, question: str, pieces: list[Piece], logits: Sequence[float]
    ) -> tuple[tuple[int, Margins], ...]:
        """The reader on the likeliest passages, one by one; of a set of one passage that is known already."""
        if len(pieces) < 2:
            return ()
        likeliest = sorted(range(len(pieces)), key=lambda place: -logits[place])[:READ_ALONE]
        texts = await to_thread.run_sync(
            lambda: [pack(question, [pieces[place]], BUDGET_TOKENS) for place in likeliest]
        )
        work = _Work()
        async with anyio.create_task_group() as tasks:
            for text in dict.fromkeys(texts):
                tasks.start_soon(traceless, work.read, self._reader, question, text, self._urgency)
        found = zip(likeliest, texts, strict=True)
        return tuple((place + 1, _margins(work.readings[text])) for place, text in found)


class _Work:
    """What has been measured so far."""

    def __init__(self) -> None:
        self.readings: dict[str, Reading] = {}
        self.clauses: dict[str, float] = {}
        self.similar: tuple[tuple[str, float], ...] = ()

    async def read(self, reader: ReaderGrader, question: str, text: str, urgency: Urgency) -> None:
        self.readings[text] = await reader.read_text(question, text, urgency)

    async def score(self, pairs: PairScorer, question: str, text: str, urgency: Urgency) -> None:
        self.clauses[question] = await pairs.score(question, text, urgency)

    async def compare(self, late: LateInteraction, question: str, text: str, urgency: Urgency) -> None:
        self.similar = await late.similar(question, text, urgency)


def _packings(question: str, parts: tuple[str, ...], pieces: list[Piece]) -> list[str]:
    """The set packed for the question, then for each part. On a thread: 10 ms for 1,000 words, too long for the loop."""
    wanted = [(question, BUDGET_TOKENS), *((part, CLAUSE_TOKENS) for part in parts)]
    return [pack(asked, pieces, budget) for asked, budget in wanted]


def _margins(reading: Reading) -> Margins:
    return Margins(*astuple(reading))
