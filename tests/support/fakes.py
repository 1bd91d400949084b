"""Ports played from a script with exact times, for tests of the race. Each records what was done to it, and when."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import anyio

from grading.grade import Grade
from grading.ports import Claim
from retrieval.faults import GatewayFault
from retrieval.passage import Passage, Scalar
from retrieval.ports import Query
from streaming.facts import Fact
from streaming.gate import text_bytes
from streaming.ports import Gap, Piece, Prompt, Text

F = TypeVar("F")
W = TypeVar("W")


def passages(count: int, tag: str = "p") -> tuple[Passage, ...]:
    return tuple(
        Passage(id=f"{tag}{n}", document_id=f"doc-{tag}{n}", title=f"Title {n}", text=f"text {tag}{n}")
        for n in range(1, count + 1)
    )


@dataclass(slots=True)
class FakeRetriever:
    """Answers the n-th call with the n-th (delay, passages or fault); the last repeats."""

    sets: list[tuple[float, tuple[Passage, ...] | GatewayFault]]
    queries: list[Query] = field(default_factory=list)

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        delay, found = self.sets[min(len(self.queries), len(self.sets) - 1)]
        self.queries.append(query)
        await anyio.sleep(delay)
        if isinstance(found, GatewayFault):
            raise found
        return found[: query.k]


@dataclass(slots=True)
class FakeGrader:
    """Answers the n-th call with the n-th (delay, grade or fault)."""

    grades: list[tuple[float, Grade | Exception]]
    name: str = "fake"
    calls: int = 0
    returned: list[tuple[float, Grade]] = field(default_factory=list)
    running: int = 0

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:
        delay, grade = self.grades[min(self.calls, len(self.grades) - 1)]
        self.calls += 1
        self.running += 1
        try:
            await anyio.sleep(delay)
        finally:
            self.running -= 1
        if isinstance(grade, Exception):
            raise grade
        self.returned.append((anyio.current_time(), grade))
        return grade


@dataclass(frozen=True, slots=True)
class DraftScript:
    """One draft: opens after `open_s`, then each batch after its delay; then `fault` or the end. Closing takes `close_s`."""

    batches: tuple[tuple[float, tuple[Piece, ...]], ...]
    open_s: float = 0.0
    fault: Exception | None = None
    hangs: bool = False
    close_s: float = 0.0


@dataclass(slots=True)
class FakeDraft:
    script: DraftScript
    on_resume: Callable[["FakeDraft"], None]
    pulled: list[Piece] = field(default_factory=list)
    cut_at: float | None = None
    close_began_at: float | None = None
    closed_at: float | None = None
    close_cancelled: bool = False

    _iterator: AsyncGenerator[tuple[Piece, ...], None] | None = None

    def __aiter__(self) -> AsyncIterator[tuple[Piece, ...]]:
        self._iterator = self._batches()
        return self._iterator

    async def _batches(self) -> AsyncGenerator[tuple[Piece, ...], None]:
        for delay, pieces in self.script.batches:
            await anyio.sleep(delay)
            self.pulled.extend(pieces)
            yield pieces
            self.on_resume(self)
        if self.script.hangs:
            await anyio.sleep_forever()
        if self.script.fault is not None:
            raise self.script.fault

    def cut(self) -> None:
        if self.cut_at is None:
            self.cut_at = anyio.current_time()

    async def aclose(self) -> None:
        if self.close_began_at is None:
            self.close_began_at = anyio.current_time()
            if self._iterator is not None:
                await self._iterator.aclose()
            try:
                await anyio.sleep(self.script.close_s)
            except BaseException:
                self.close_cancelled = True
                raise
            finally:
                self.closed_at = anyio.current_time()

    @property
    def pulled_bytes(self) -> int:
        return text_bytes(self.pulled)

    @property
    def text(self) -> str:
        """All the text this draft produced, sent or not."""
        return "".join(p.text for p in self.pulled if isinstance(p, Text))


@dataclass(slots=True)
class FakeGenerator:
    """Answers the n-th call with the n-th script; the last repeats."""

    scripts: list[DraftScript]
    name: str = "fake"
    prompts: list[Prompt] = field(default_factory=list)
    drafts: list[FakeDraft] = field(default_factory=list)
    opening_cancelled: int = 0
    on_resume: Callable[[FakeDraft], None] = lambda _draft: None

    async def draft(self, prompt: Prompt) -> FakeDraft:
        script = self.scripts[min(len(self.prompts), len(self.scripts) - 1)]
        self.prompts.append(prompt)
        try:
            await anyio.sleep(script.open_s)
        except BaseException:
            self.opening_cancelled += 1
            raise
        draft = FakeDraft(script, self.on_resume)
        self.drafts.append(draft)
        return draft


@dataclass(slots=True)
class MemoryGaps:
    delay_s: float = 0.0
    gaps: list[Gap] = field(default_factory=list)

    async def record(self, gap: Gap) -> str | None:
        await anyio.sleep(self.delay_s)
        self.gaps.append(gap)
        return f"gap-{len(self.gaps)}"


@dataclass(slots=True)
class Facts:
    """An observer that keeps what it is told, with the time."""

    told: list[tuple[float, Fact]] = field(default_factory=list)

    def note(self, fact: Fact) -> None:
        self.told.append((anyio.current_time(), fact))

    def of(self, kind: type[F]) -> list[F]:
        return [fact for _, fact in self.told if isinstance(fact, kind)]


@dataclass(slots=True)
class FakeVerifier:
    """Supports every claim but those that hold `lie`; takes `delay_s`."""

    lie: str = "\0"
    delay_s: float = 0.0
    fault: Exception | None = None
    name: str = "fake"
    claims: list[Claim] = field(default_factory=list)
    running: int = 0

    async def supported(self, question: str, claims: tuple[Claim, ...]) -> tuple[bool, ...]:
        self.claims.extend(claims)
        self.running += 1
        try:
            await anyio.sleep(self.delay_s)
        finally:
            self.running -= 1
        if self.fault is not None:
            raise self.fault
        return tuple(self.lie not in claim.text for claim in claims)


@dataclass(slots=True)
class FakeRewriter:
    """Says what it is told to say."""

    rewritten: str = ""
    parts: tuple[str, ...] = ()
    alone: str = ""
    asked: Mapping[str, Scalar] = field(default_factory=dict)
    fault: Exception | None = None
    calls: list[str] = field(default_factory=list)

    async def rewrite(self, question: str, missing: str | None) -> str:
        return self._say("rewrite", self.rewritten)

    async def decompose(self, question: str) -> tuple[str, ...]:
        return self._say("decompose", self.parts)

    async def standalone(self, question: str, history: Sequence[tuple[str, str]]) -> str:
        return self._say("standalone", self.alone)

    async def filters(self, question: str, fields: Mapping[str, tuple[Scalar, ...]]) -> Mapping[str, Scalar]:
        return self._say("filters", self.asked)

    def _say(self, call: str, words: W) -> W:
        self.calls.append(call)
        if self.fault is not None:
            raise self.fault
        return words
