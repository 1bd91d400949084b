"""One answer played in virtual time, with a journal of every call upstream: what was asked, of whom, in what order."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from grading.correct import DEFAULT_POLICY, Policy
from grading.grade import Grade
from grading.ports import Grader
from grading.routing import Router, adaptive
from retrieval.passage import Passage, Scalar
from retrieval.ports import Query
from retrieval.sources import HOUSE, Source
from streaming.answer import Parts, answer
from streaming.ask import Ask
from streaming.budget import Limits
from streaming.events import Event, Token
from streaming.facts import DraftClosed
from streaming.ports import AnswerCache, Prompt, Speculator, Turn
from streaming.speculate import Always
from tests.support.clock import run_virtual
from tests.support.fakes import (
    Facts,
    FakeDraft,
    FakeGenerator,
    FakeGrader,
    FakeRetriever,
    FakeVerifier,
    MemoryGaps,
)

Journal = list[str]
QUESTION = "What is it?"


def ids(passages: tuple[Passage, ...]) -> str:
    return " ".join(p.id for p in passages)


@dataclass(slots=True)
class Written:
    """A fake that writes each call into a journal before it does it; `running` searches are counted."""

    inner: Any
    journal: Journal
    place: str = HOUSE
    running: int = 0
    questions: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.inner.name)

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        self.journal.append(f"search {self.place}: {query.text}")
        self.running += 1
        try:
            found: tuple[Passage, ...] = await self.inner.retrieve(query)
        finally:
            self.running -= 1
        return found

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:
        self.journal.append(f"grade {ids(passages)}")
        self.questions.append(question)
        graded: Grade = await self.inner.grade(question, passages)
        return graded

    async def draft(self, prompt: Prompt) -> FakeDraft:
        self.journal.append(f"draft {ids(tuple(p for _, p in prompt.passages))}")
        self.questions.append(prompt.question)
        opened: FakeDraft = await self.inner.draft(prompt)
        return opened

    async def rerank(self, question: str, passages: tuple[Passage, ...], k: int) -> tuple[Passage, ...]:
        self.journal.append(f"rerank {len(passages)} to {k}")
        self.questions.append(question)
        return passages[:k]

    async def fields(self, collection: str, tenant: str) -> Mapping[str, tuple[Scalar, ...]]:
        self.journal.append(f"fields {collection} {tenant}")
        return {"year": (2024, 2025)}


@dataclass
class Loop:
    """One answer: what its parts do, then what came out, and when."""

    grader: FakeGrader | Grader
    generator: FakeGenerator
    house: FakeRetriever
    web: FakeRetriever | None = None
    web_is_parallel: bool = False
    web_is_external: bool = True
    speculator: Speculator = field(default_factory=Always)
    limits: Limits = field(default_factory=Limits)
    rewriter: Any = None
    verifier: FakeVerifier | None = None
    policy: Policy = field(default_factory=lambda: DEFAULT_POLICY)
    router: Router = adaptive
    cache: AnswerCache | None = None
    fallback: FakeGenerator | None = None
    filters: Mapping[str, Scalar] = field(default_factory=dict)
    question: str = QUESTION
    history: tuple[Turn, ...] = ()
    leaves_at: float | None = None
    journal: Journal = field(default_factory=list)
    gaps: MemoryGaps = field(default_factory=MemoryGaps)
    events: list[tuple[float, Event]] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    took_s: float = 0.0
    written: dict[str, Written] = field(default_factory=dict)

    async def play(self) -> "Loop":
        async def emit(events: tuple[Event, ...]) -> None:
            self.events.extend((anyio.current_time(), e) for e in events)

        began = anyio.current_time()
        with anyio.move_on_after(self.leaves_at) if self.leaves_at is not None else anyio.CancelScope():
            ask = Ask("ans_1", "0" * 32, self.question, history=self.history, filters=self.filters)
            await answer(ask, self.parts(), self.limits, emit, self.facts)
        self.events = [(at - began, e) for at, e in self.events]
        self.took_s = anyio.current_time() - began
        return self

    def parts(self) -> Parts:
        def written(inner: Any, place: str) -> Written:
            self.written[place] = Written(inner, self.journal, place)
            return self.written[place]

        sources = [Source(HOUSE, written(self.house, HOUSE))]
        if self.web is not None:
            web = Source("web", written(self.web, "web"), self.web_is_external, self.web_is_parallel)
            sources.append(web)
        return Parts(
            sources=tuple(sources),
            reranker=written(None, "reranker"),
            grader=written(self.grader, "grader"),
            generator=written(self.generator, "generator"),
            speculator=self.speculator,
            gaps=self.gaps,
            rewriter=self.rewriter,
            verifier=self.verifier,
            fields=written(None, "fields"),
            cache=self.cache,
            policy=self.policy,
            router=self.router,
            fallback=self.fallback,
        )

    def of(self, kind: Any) -> list[Any]:
        return [e for _, e in self.events if isinstance(e, kind)]

    def times(self, kind: Any) -> list[float]:
        return [at for at, e in self.events if isinstance(e, kind)]

    @property
    def names(self) -> list[str]:
        """The kinds of the events, in order, without what attempt they are of."""
        return [type(e).__name__ for _, e in self.events]

    @property
    def text(self) -> str:
        return "".join(t.text for t in self.of(Token))

    @property
    def outcomes(self) -> list[str]:
        """What became of the drafts, in order of attempt and draft."""
        closed = sorted(self.facts.of(DraftClosed), key=lambda fact: (fact.attempt, fact.draft))
        return [fact.outcome for fact in closed]

    def calls(self, kind: str) -> int:
        """How many entries of the journal begin with `kind`."""
        return sum(entry.startswith(kind) for entry in self.journal)


def play(backend: str, loop: Loop) -> Loop:
    return run_virtual(backend, loop.play)
