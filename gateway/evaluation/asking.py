"""Questions asked of the whole loop, one answer each: the real search, graders, corrections and gate, as a server would run them."""

import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import anyio

from gateway.evaluation.questions import Asked
from grading.grade import Grade
from grading.words import words
from retrieval.passage import Passage
from streaming.answer import Parts, answer
from streaming.ask import Ask
from streaming.budget import Limits
from streaming.events import Event, Failed, Path, Refusal, Retry, Sources, Token
from streaming.facts import Fact, Judged, Retrieved
from streaming.ports import Gap, Turn

SIDE_BY_SIDE = 2  # answers; each grades and drafts at once, so that two keep two cores busy
PATIENCE_S = 120.0
LONGEST_ANSWER_WORDS = 8  # an expected answer longer than this is not looked for word by word

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the questions are asked: a stored collection of a tenant."""

    collection: str
    tenant: str


@dataclass(frozen=True, slots=True)
class Told:
    """What came of one question. `strategies` are the corrections that were tried, in order; the last one led to the end.

    `evidence_first` and `evidence_last` say whether the first and the last graded set held all evidence, `says_it` whether a released
    answer holds an expected one; each is None where the labels do not tell. `found` passages, of which `repeats` were left out because they
    say what another one says; `conflicts` counts the sets in which, and the grades by which, passages contradict each other.
    """

    origin: str
    id: str
    group: str
    answerable: bool
    path: Path
    reason: str | None = None
    strategies: tuple[str, ...] = ()
    evidence_first: bool | None = None
    evidence_last: bool | None = None
    says_it: bool | None = None
    found: int = 0
    repeats: int = 0
    conflicts: int = 0
    took_ms: float = 0.0

    @property
    def is_released(self) -> bool:
        return self.path in (Path.CLEAN, Path.RECOVERED)


def drawn(asked: Sequence[Asked], most: int | None, seed: int) -> list[Asked]:
    """`most` of the questions that are labelled answerable or not, half of each kind as far as there are; in the order given.

    The same for the same questions and seed. None: all of them.
    """
    known = [each for each in asked if each.answerable is not None]
    if most is None or most >= len(known):
        return known
    kinds = [[each for each in known if each.answerable is kind] for kind in (True, False)]
    fewer, more = sorted(kinds, key=len)
    source = random.Random(seed)
    few = source.sample(fewer, min(len(fewer), most // 2))
    chosen = {each.id for each in (*few, *source.sample(more, most - len(few)))}
    return [each for each in known if each.id in chosen]


async def told(
    origin: str, asked: Sequence[Asked], place: Place, parts: Parts, limits: Limits, progress: Progress | None = None
) -> list[Told]:
    """What came of each question, in order. Nothing is remembered: no cache of answers is asked or filled, no gap recorded.

    The time limits are loosened: the same input gives the same outcomes on a busy machine too. On cancellation the open answers end.
    """
    forgetful, patient = replace(parts, cache=None, gaps=NoGaps()), unhurried(limits)
    found: dict[int, Told] = {}
    gate = anyio.Semaphore(SIDE_BY_SIDE)

    async def one(number: int, question: Asked) -> None:
        async with gate:
            found[number] = await _told(origin, question, place, forgetful, patient)
            if progress is not None:
                progress(len(found), len(asked))

    async with anyio.create_task_group() as tasks:
        for number, question in enumerate(asked):
            tasks.start_soon(one, number, question)
    return [found[number] for number in range(len(asked))]


def unhurried(limits: Limits) -> Limits:
    """The limits with so much time that none of it decides an outcome; every other bound stays."""
    return replace(
        limits,
        deadline_s=max(limits.deadline_s, PATIENCE_S),
        grade_timeout_s=max(limits.grade_timeout_s, PATIENCE_S),
    )


async def _told(origin: str, question: Asked, place: Place, parts: Parts, limits: Limits) -> Told:
    watcher, listener = Watcher(), Listener()
    history = tuple(Turn(turn.role, turn.content) for turn in question.history)
    ask = Ask(f"eval-{question.id}", "", question.words, place.collection, history, tenant=place.tenant)
    began = time.perf_counter()
    path = await answer(ask, parts, limits, listener.take, watcher)
    took_ms = (time.perf_counter() - began) * 1000
    return Told(
        origin=origin,
        id=question.id,
        group=question.group,
        answerable=bool(question.answerable),
        path=path,
        reason=listener.reason,
        strategies=tuple(listener.strategies),
        evidence_first=holds(watcher.sets[:1], question.evidence),
        evidence_last=holds(watcher.sets[-1:], question.evidence),
        says_it=says(listener.text, question.answers) if listener.is_released else None,
        found=sum(map(len, watcher.sets)) + watcher.repeats,
        repeats=watcher.repeats,
        conflicts=watcher.conflicts,
        took_ms=took_ms,
    )


def holds(sets: Sequence[Sequence[Passage]], evidence: Sequence[str]) -> bool | None:
    """Whether the set holds every passage that is marked as evidence, by the name it was stored under; None where none is marked."""
    if not evidence:
        return None
    return bool(sets) and {str(each.metadata.get("source")) for each in sets[0]}.issuperset(evidence)


def says(text: str, answers: Sequence[str]) -> bool | None:
    """Whether the text holds one of the answers, word by word; None where none is short enough to be looked for, or is yes or no."""
    wanted = [folded(each) for each in answers]
    wanted = [each for each in wanted if each not in ("", "yes", "no") and len(each.split()) <= LONGEST_ANSWER_WORDS]
    if not wanted:
        return None
    return any(f" {each} " in f" {folded(text)} " for each in wanted)


def folded(text: str) -> str:
    """The words alone, in lower case, without articles (as SQuAD compares answers)."""
    return " ".join(word for word in re.findall(r"\w+", " ".join(words(text))) if word not in ("a", "an", "the"))


@dataclass(slots=True)
class Listener:
    """Takes an answer's events (streaming.attempt.Emit) and keeps what is measured."""

    strategies: list[str] = field(default_factory=list)
    reason: str | None = None
    is_released: bool = False
    _said: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self._said)

    async def take(self, batch: tuple[Event, ...]) -> None:
        for event in batch:
            match event:
                case Retry():
                    self.strategies.append(event.correction)
                case Sources():
                    self.is_released = True
                case Token():
                    self._said.append(event.text)
                case Refusal():
                    self.reason = event.reason.value
                case Failed():
                    self.reason = event.type
                case _:
                    pass


@dataclass(slots=True)
class Watcher:
    """Is told what happens (streaming.ports.Observer) and keeps the sets, what was left out of them, and the conflicts in them."""

    sets: list[tuple[Passage, ...]] = field(default_factory=list)
    repeats: int = 0
    conflicts: int = 0

    def note(self, fact: Fact) -> None:
        match fact:
            case Retrieved():
                self.sets.append(fact.found)
                self.repeats += fact.duplicates
                self.conflicts += fact.conflicts > 0
            case Judged(_, Grade(conflicts=str())):
                self.conflicts += 1
            case _:
                pass


class NoGaps:
    """Keeps no gap: a question of an evaluation is nobody's (streaming.ports.GapLog)."""

    async def record(self, gap: Gap) -> str | None:  # noqa: ARG002
        return None
