"""The local verifier: each sentence by the reader and by its words, weighed by a calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from functools import partial
from typing import Protocol

import anyio
from anyio import to_thread

from gateway.providers.local.faults import told
from gateway.providers.local.grader import ReaderGrader
from gateway.providers.local.supports import CLAIM_TOKENS
from grading.calibrate import Calibration
from grading.evidence import pack, piece
from grading.faults import VerifierUnavailable
from grading.ports import Claim
from grading.signals import Margins
from grading.support import CLAIM_SIGNALS, FEWEST_WORDS, ClaimMeasured, Source, claim_values
from grading.words import words
from retrieval.passage import Passage
from retrieval.traceless import traceless


class Measure(Protocol):
    """Measures sentences beside passages, in order; of what is measured the reader's margins are used."""

    async def __call__(self, claims: Sequence[str], passages: tuple[Passage, ...]) -> list[ClaimMeasured]: ...


class ReaderMeasure:
    """One run of the reader for each sentence, as SupportMeasure makes them, and nothing else: that one reads every passage once more."""

    def __init__(self, reader: ReaderGrader) -> None:
        self._reader = reader

    async def __call__(self, claims: Sequence[str], passages: tuple[Passage, ...]) -> list[ClaimMeasured]:
        """Raises what the reader's network raises."""
        pieces = [piece(each.title, each.text) for each in passages]
        packed = await to_thread.run_sync(lambda: [pack(claim, pieces, CLAIM_TOKENS) for claim in claims])
        found: dict[int, ClaimMeasured] = {}

        async def read(place: int) -> None:
            reading = await self._reader.read_text(claims[place], packed[place])
            found[place] = ClaimMeasured(Margins(*astuple(reading)), ())

        async with anyio.create_task_group() as tasks:
            for place in range(len(claims)):
                tasks.start_soon(traceless, read, place)
        return [found[place] for place in range(len(claims))]


class LocalVerifier:
    """grading.ports.Verifier: English. A sentence that stands in a passage word for word is supported without further ado.

    What it was measured to do on the labelled development sets, out of fold by question, is in the calibration's `data` and `figures`. It
    knows words, names and numbers, hardly any arithmetic; the reader's card says not to rely on it alone for long answers.
    """

    name = "support"

    def __init__(self, measure: Measure, calibration: Calibration) -> None:
        self._measure = measure
        self.calibration = calibration

    async def supported(self, question: str, claims: tuple[Claim, ...]) -> tuple[bool, ...]:
        """As the port says; a sentence without words or without passages is unsupported. 25 to 30 ms of a core for each sentence."""
        verdicts: dict[int, bool] = {}
        open_claims: dict[tuple[str, ...], list[int]] = {}
        for place, claim in enumerate(claims):
            if not words(claim.text) or not claim.passages:
                verdicts[place] = False
            elif is_quoted(claim):
                verdicts[place] = True
            else:
                open_claims.setdefault(tuple(each.id for each in claim.passages), []).append(place)
        try:
            async with anyio.create_task_group() as tasks:
                for places in open_claims.values():
                    tasks.start_soon(
                        traceless, self._judge, question, [claims[place] for place in places], places, verdicts
                    )
        except Exception as error:
            raise VerifierUnavailable(told(error, f"the local verifier failed on {len(claims)} sentences")) from error
        return tuple(verdicts[place] for place in range(len(claims)))

    async def _judge(self, question: str, claims: list[Claim], places: list[int], verdicts: dict[int, bool]) -> None:
        """Enters the verdicts on `claims`, which share their passages, under their places."""
        texts, passages = [claim.text for claim in claims], claims[0].passages
        measured = await self._measure(texts, passages)
        found = await to_thread.run_sync(partial(self._p, question, passages, texts, measured))
        verdicts.update(zip(places, (p >= self.calibration.threshold for p in found), strict=True))

    def _p(
        self, question: str, passages: tuple[Passage, ...], texts: list[str], measured: list[ClaimMeasured]
    ) -> list[float]:
        """The probability that each sentence is supported. On a thread: 2 ms for 1,000 words of passages, too long for the loop."""
        source = Source(question, [f"{each.title}. {each.text}" if each.title else each.text for each in passages])
        return [self._one(text, source, each) for text, each in zip(texts, measured, strict=True)]

    def _one(self, text: str, source: Source, measured: ClaimMeasured) -> float:
        values = picked(self.calibration.names, claim_values(text, 0, 1, source, measured))
        return self.calibration.estimate(values).p


def picked(names: Sequence[str], values: Sequence[float]) -> tuple[float, ...]:
    """Of the `values` of CLAIM_SIGNALS those called `names`; `-name` with its sign turned. Raises ValueError for another name."""
    found = [(-1 if name.startswith("-") else 1, CLAIM_SIGNALS.index(name.removeprefix("-"))) for name in names]
    return tuple(sign * values[place] for sign, place in found)


def is_quoted(claim: Claim) -> bool:
    """Whether the words of the sentence, three at least, stand in one of its passages, in their order and without a gap."""
    said = f" {' '.join(words(claim.text))} "
    return len(words(claim.text)) >= FEWEST_WORDS and any(
        said in f" {' '.join(words(passage.text))} " for passage in claim.passages
    )
