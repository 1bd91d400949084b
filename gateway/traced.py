"""Traced ports: each wraps one collaborator of an answer in spans and passes on exactly what it does."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import TypeVar

from gateway.observing import conventions as names
from gateway.observing.attempt_trace import DraftTrace
from gateway.observing.outgoing import under
from gateway.observing.request_trace import RequestTrace
from gateway.observing.spans import Value, Work, type_of
from grading.cascade import Cascade
from grading.grade import Grade
from grading.ports import Claim, Grader, Rewriter, Verifier
from retrieval.passage import Passage, Scalar
from retrieval.ports import Query, Reranker, Retriever
from streaming.answer import Parts
from streaming.ports import Draft, Generator, Piece, Prompt, Stopped, Text

Said = TypeVar("Said")

SEARCH: ContextVar[Callable[[], Work] | None] = ContextVar("search", default=None)
"""Opens the span of a statement under the search that is running in this task; None outside a traced search."""


def traced(parts: Parts, trace: RequestTrace) -> Parts:
    """The same parts for one request, with a span around each search, rerank, grade, draft and rewrite, and one around all checks.

    Results and faults are untouched.
    """
    return replace(
        parts,
        sources=tuple(replace(s, retriever=TracedRetriever(s.retriever, trace)) for s in parts.sources),
        reranker=TracedReranker(parts.reranker, trace) if parts.reranker is not None else None,
        grader=traced_grader(parts.grader, trace),
        generator=TracedGenerator(parts.generator, trace),
        rewriter=TracedRewriter(parts.rewriter, trace) if parts.rewriter is not None else None,
        fallback=TracedGenerator(parts.fallback, trace) if parts.fallback is not None else None,
        verifier=TracedVerifier(parts.verifier, trace) if parts.verifier is not None else None,
    )


def traced_grader(grader: Grader, trace: RequestTrace) -> Grader:
    """The same grader with a span around each grade; of a cascade, around the grade of each rung that is asked."""
    if isinstance(grader, Cascade):
        return grader.wrapped(lambda rung: TracedGrader(rung, trace, rung.name))
    return TracedGrader(grader, trace)


class TracedRetriever:
    """A Retriever whose searches are `retrieval {collection}` spans."""

    def __init__(self, inner: Retriever, trace: RequestTrace) -> None:
        self._inner = inner
        self._trace = trace

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        with self._trace.retrieval(query) as span:
            running = SEARCH.set(lambda: self._trace.statement(span))
            try:
                with under(span):
                    found = await self._inner.retrieve(query)
            finally:
                SEARCH.reset(running)
            span.set(scores_of(found))
            return found


class TracedReranker:
    """A Reranker whose calls are `rerank` spans."""

    def __init__(self, inner: Reranker, trace: RequestTrace) -> None:
        self._inner = inner
        self._trace = trace

    async def rerank(self, question: str, passages: tuple[Passage, ...], k: int) -> tuple[Passage, ...]:
        with self._trace.reranking(len(passages), k) as span:
            ranked = await self._inner.rerank(question, passages, k)
            span.set(scores_of(ranked))
            return ranked


class TracedGrader:
    """A Grader whose grades are `chat {grader}` spans; the span holds the grader's own verdict, the attempt the one that counted.

    `rung` names one grader of a cascade; else the span has the name that the answer's trace began with.
    """

    def __init__(self, inner: Grader, trace: RequestTrace, rung: str | None = None) -> None:
        self._inner = inner
        self._trace = trace
        self._rung = rung

    @property
    def name(self) -> str:
        return self._inner.name

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:
        with self._trace.grading(len(passages), self._rung) as span:
            with under(span):
                grade = await self._inner.grade(question, passages)
            span.use(grade.input_tokens, grade.output_tokens)
            span.set(
                {
                    names.VERDICT: grade.verdict.value,
                    names.MISSING: grade.missing is not None,
                    names.P_SUFFICIENT: grade.p_sufficient,
                }
            )
            return grade


class TracedRewriter:
    """A Rewriter whose calls are `rewrite` spans; whether its words were of use is all that is told of them."""

    def __init__(self, inner: Rewriter, trace: RequestTrace) -> None:
        self._inner = inner
        self._trace = trace

    async def rewrite(self, question: str, missing: str | None) -> str:
        return await self._seen("rewrite", self._inner.rewrite(question, missing))

    async def decompose(self, question: str) -> tuple[str, ...]:
        return await self._seen("decompose", self._inner.decompose(question))

    async def standalone(self, question: str, history: Sequence[tuple[str, str]]) -> str:
        return await self._seen("standalone", self._inner.standalone(question, history))

    async def filters(self, question: str, fields: Mapping[str, tuple[Scalar, ...]]) -> Mapping[str, Scalar]:
        return await self._seen("filters", self._inner.filters(question, fields))

    async def _seen(self, kind: str, call: Awaitable[Said]) -> Said:
        with self._trace.rewriting(kind) as span:
            with under(span):
                said = await call
            span.set({names.REWRITE_USED: bool(said)})
            return said


class TracedVerifier:
    """A Verifier whose calls for one answer are one `verify` span together: a gate checks every sentence by itself."""

    def __init__(self, inner: Verifier, trace: RequestTrace) -> None:
        self._inner = inner
        self._trace = trace

    @property
    def name(self) -> str:
        return self._inner.name

    async def supported(self, question: str, claims: tuple[Claim, ...]) -> tuple[bool, ...]:
        verify = self._trace.verifying(self._inner.name)
        with verify, under(verify.span):
            return await self._inner.supported(question, claims)


class TracedGenerator:
    """A Generator whose drafts tell their span of the first text, the stop reason and a fault.

    The span itself begins and ends with the facts DraftStarted and DraftClosed, so that a draft is seen until its connection is closed.
    """

    def __init__(self, inner: Generator, trace: RequestTrace) -> None:
        self._inner = inner
        self._trace = trace

    @property
    def name(self) -> str:
        return self._inner.name

    async def draft(self, prompt: Prompt) -> Draft:
        seen = self._trace.take_draft()
        if seen is None:
            return await self._inner.draft(prompt)
        seen.span.set({names.REQUEST_MAX_TOKENS: prompt.max_tokens, names.PASSAGES: len(prompt.passages)})
        try:
            with under(seen.span):
                return TracedDraft(await self._inner.draft(prompt), seen, self._trace)
        except Exception as error:
            seen.span.fail(type_of(error))
            raise


class TracedDraft:
    """A Draft read through its span. A plain iterator: an async generator would hold what it wraps after a break."""

    def __init__(self, inner: Draft, seen: DraftTrace, trace: RequestTrace) -> None:
        self._inner = inner
        self._next = aiter(inner).__anext__
        self._seen = seen
        self._trace = trace

    def __aiter__(self) -> AsyncIterator[tuple[Piece, ...]]:
        return self

    async def __anext__(self) -> tuple[Piece, ...]:
        try:
            pieces = await self._next()
        except StopAsyncIteration:
            raise
        except Exception as error:
            self._seen.span.fail(type_of(error))
            raise
        self._trace.hold(pieces)
        if not self._seen.has_spoken and any(isinstance(piece, Text) for piece in pieces):
            self._seen.first_text()
        if pieces and isinstance(pieces[-1], Stopped):  # where the port promises it
            self._seen.stopped(pieces[-1])
        return pieces

    def cut(self) -> None:
        self._inner.cut()

    async def aclose(self) -> None:
        await self._inner.aclose()


def scores_of(found: tuple[Passage, ...]) -> dict[str, Value]:
    """How many passages there are, the best and the last one's score, and by how much the best leads over the second."""
    scores = [passage.score for passage in found]
    return {
        names.PASSAGES: len(found),
        names.TOP_SCORE: scores[0] if scores else None,
        names.LAST_SCORE: scores[-1] if scores else None,
        names.SCORE_MARGIN: scores[0] - scores[1] if len(scores) > 1 else None,
    }
