"""The proof of an answer: each sentence checked against the passages it rests on, side by side with generation."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import anyio
from anyio import CancelScope
from anyio.abc import TaskGroup

from grading.ports import Claim, Verifier
from retrieval.passage import Passage
from retrieval.traceless import traceless
from streaming import events
from streaming.ports import Cited, Piece, Text
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
        self._is_closed = False
        self._sentences = Sentences()
        self._waiting: deque[Sentence] = deque()
        self._verdicts: dict[int, bool] = {}
        self._handed_on = 0
        self._seen = 0
        self._unchecked: deque[tuple[int, Sentence]] = deque()
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
            if sentence.is_claim:
                self._unchecked.append((self._seen, sentence))
            else:
                self._report(Checked(self._seen, True))
            self._seen += 1
        self._begin_checks()

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
        """No further check can matter: those that run are cancelled, those about to begin do not."""
        self._is_closed = True
        for scope in self._running:
            scope.cancel()

    def _begin_checks(self) -> None:
        """In order, so that the sentence which is to be sent first is checked first."""
        while self._unchecked and len(self._running) < CHECKS_AT_ONCE and not self._is_closed:
            number, sentence = self._unchecked.popleft()
            scope = CancelScope()
            self._running.add(scope)
            self._tasks.start_soon(traceless, self._check, number, sentence, scope, name=f"check {number}")

    async def _check(self, number: int, sentence: Sentence, scope: CancelScope) -> None:
        if scope.cancel_called:
            return
        with scope:
            try:
                verdicts = await check(self._verifier, self._question, (sentence,), self._passages, self._timeout_s)
            finally:
                self._running.discard(scope)
                self._begin_checks()
            self._report(Checked(number, verdicts is not None and verdicts[0]))


async def check(
    verifier: Verifier,
    question: str,
    sentences: tuple[Sentence, ...],
    passages: dict[int, Passage],
    timeout_s: float,
) -> tuple[bool, ...] | None:
    """Whether each sentence is supported by what it cites (by the whole set where it cites nothing).

    None when the verifier fails, does not answer within `timeout_s` seconds, or answers about more or fewer sentences.
    """
    claims = tuple(claim_of(sentence, passages) for sentence in sentences)
    with anyio.move_on_after(timeout_s):
        try:
            verdicts = tuple(await verifier.supported(question, claims))
        except Exception:  # a verifier that breaks has supported nothing
            return None
        return verdicts if len(verdicts) == len(claims) else None
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
    verifier does not answer within `timeout_s` seconds. An answer that claims nothing is grounded, and nobody is asked.
    """
    sentences = claims_in(released)
    if not sentences:
        return events.Verification(True, ())
    verdicts = await check(verifier, question, sentences, dict(passages), timeout_s)
    if verdicts is None:
        return events.Verification(False, ())
    claims = tuple(events.Claim(s.start, s.end, ok, s.cited) for s, ok in zip(sentences, verdicts, strict=True))
    return events.Verification(all(verdicts), claims)


def claims_in(released: Sequence[Piece]) -> tuple[Sentence, ...]:
    """The sentences of a whole answer that claim something, each with every citation that covers a part of it."""
    citations = [piece for piece in released if isinstance(piece, Cited)]
    cutter = Sentences()
    return tuple(
        replace(s, pieces=(*(p for p in s.pieces if isinstance(p, Text)), *covering(s, citations)))
        for s in (*cutter.add(tuple(released)), *cutter.rest())
        if s.is_claim
    )


def covering(sentence: Sentence, citations: Sequence[Cited]) -> tuple[Cited, ...]:
    """The citations of any character of `sentence`."""
    return tuple(c for c in citations if c.start < sentence.end and c.end > sentence.start)
