"""The proof of an answer: each sentence checked against the passages it rests on, side by side with generation."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio
from anyio import CancelScope
from anyio.abc import TaskGroup

from grading.ports import Claim, Verifier
from retrieval.passage import Passage
from streaming import events
from streaming.ports import Piece
from streaming.sentences import Sentence, Sentences

CHECKS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Checked:
    """Sentence number `number` (from 0) is or is not supported."""

    number: int
    supported: bool


class Proof:
    """Holds each sentence until it is checked, and hands them on in order. One owner; checks run in `tasks`."""

    def __init__(
        self,
        verifier: Verifier,
        question: str,
        passages: tuple[tuple[int, Passage], ...],
        timeout_s: float,
        tasks: TaskGroup,
        report: Callable[[Checked], None],
    ) -> None:
        self._verifier = verifier
        self._question = question
        self._passages = dict(passages)
        self._timeout_s = timeout_s
        self._tasks = tasks
        self._running: set[CancelScope] = set()
        self._report = report
        self._sentences = Sentences()
        self._waiting: deque[Sentence] = deque()
        self._verdicts: dict[int, bool] = {}
        self._handed_on = 0
        self._seen = 0
        self._slots = anyio.Semaphore(CHECKS_AT_ONCE)
        self.claims: list[events.Claim] = []

    @property
    def is_pending(self) -> bool:
        """Whether a sentence still waits for its check."""
        return bool(self._waiting)

    def add(self, pieces: tuple[Piece, ...], *, is_last: bool) -> None:
        """Takes what the draft says; the checks of the sentences it completes begin at once."""
        complete = self._sentences.add(pieces)
        if is_last:
            complete += self._sentences.rest()
        for sentence in complete:
            self._waiting.append(sentence)
            self._tasks.start_soon(self._check, self._seen, sentence, name=f"check {self._seen}")
            self._seen += 1

    def mark(self, checked: Checked) -> tuple[tuple[Piece, ...], Sentence | None]:
        """The pieces that may be sent now, and the unsupported sentence that stops the answer, if it is its turn."""
        self._verdicts[checked.number] = checked.supported
        ready: list[Piece] = []
        while self._waiting and self._handed_on in self._verdicts:
            sentence, supported = self._waiting[0], self._verdicts[self._handed_on]
            self._claim(sentence, supported)
            if not supported:
                return tuple(ready), sentence
            ready.extend(self._waiting.popleft().pieces)
            self._handed_on += 1
        return tuple(ready), None

    def _claim(self, sentence: Sentence, supported: bool) -> None:
        if sentence.is_claim:
            self.claims.append(events.Claim(sentence.start, sentence.end, supported, sentence.cited))

    def close(self) -> None:
        """No further check can matter."""
        for scope in self._running:
            scope.cancel()

    async def _check(self, number: int, sentence: Sentence) -> None:
        with CancelScope() as scope:
            self._running.add(scope)
            try:
                supported = not sentence.is_claim or await self._supported(sentence)
            finally:
                self._running.discard(scope)
            self._report(Checked(number, supported))

    async def _supported(self, sentence: Sentence) -> bool:
        async with self._slots:
            verdicts = await check(self._verifier, self._question, (sentence,), self._passages, self._timeout_s)
        return verdicts is not None and verdicts[0]


async def check(
    verifier: Verifier,
    question: str,
    sentences: tuple[Sentence, ...],
    passages: dict[int, Passage],
    timeout_s: float,
) -> tuple[bool, ...] | None:
    """Whether each sentence is supported by what it cites (by the whole set where it cites nothing).

    None when the verifier fails or does not answer within `timeout_s` seconds.
    """
    with anyio.move_on_after(timeout_s):
        try:
            return await verifier.supported(question, tuple(claim_of(s, passages) for s in sentences))
        except Exception:  # a verifier that breaks has supported nothing
            return None
    return None


def claim_of(sentence: Sentence, passages: dict[int, Passage]) -> Claim:
    """The sentence as a claim on its passages."""
    cited = tuple(passages[n] for n in sentence.cited if n in passages)
    return Claim(sentence.text.strip(), cited or tuple(passages.values()))


async def annotated(
    verifier: Verifier,
    question: str,
    released: Sequence[Piece],
    passages: tuple[tuple[int, Passage], ...],
    timeout_s: float,
) -> events.Verification:
    """The released answer sentence by sentence: which its passages support. Not grounded, without claims, when the
    verifier does not answer within `timeout_s` seconds.
    """
    cutter = Sentences()
    sentences = tuple(s for s in (*cutter.add(tuple(released)), *cutter.rest()) if s.is_claim)
    verdicts = await check(verifier, question, sentences, dict(passages), timeout_s)
    if verdicts is None:
        return events.Verification(False, ())
    claims = tuple(events.Claim(s.start, s.end, ok, s.cited) for s, ok in zip(sentences, verdicts, strict=True))
    return events.Verification(all(verdicts), claims)
