"""Traced ports: each wraps one collaborator of an answer in spans and passes on exactly what it does."""

from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from dataclasses import replace

from gateway import conventions as names
from gateway.answer_trace import DraftTrace
from gateway.request_trace import RequestTrace
from gateway.spans import Work, type_of
from grading.cascade import Cascade
from grading.grade import Grade
from grading.ports import Grader
from retrieval.passage import Passage
from retrieval.ports import Query, Reranker, Retriever
from streaming.answer import Parts
from streaming.ports import Draft, Generator, Piece, Prompt, Stopped, Text

SEARCH: ContextVar[Callable[[], Work] | None] = ContextVar("search", default=None)
"""Opens the span of a statement under the search that is running in this task; None outside a traced search."""


def traced(parts: Parts, trace: RequestTrace) -> Parts:
    """The same parts for one request, with a span around each search, rerank, grade and draft. Results and faults are untouched."""
    return replace(
        parts,
        sources=tuple(replace(s, retriever=TracedRetriever(s.retriever, trace)) for s in parts.sources),
        reranker=TracedReranker(parts.reranker, trace) if parts.reranker is not None else None,
        grader=traced_grader(parts.grader, trace),
        generator=TracedGenerator(parts.generator, trace),
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
                found = await self._inner.retrieve(query)
            finally:
                SEARCH.reset(running)
            span.set({names.PASSAGES: len(found), names.TOP_SCORE: found[0].score if found else None})
            return found


class TracedReranker:
    """A Reranker whose calls are `rerank` spans."""

    def __init__(self, inner: Reranker, trace: RequestTrace) -> None:
        self._inner = inner
        self._trace = trace

    async def rerank(self, question: str, passages: tuple[Passage, ...], k: int) -> tuple[Passage, ...]:
        with self._trace.reranking(len(passages), k) as span:
            ranked = await self._inner.rerank(question, passages, k)
            span.set({names.PASSAGES: len(ranked), names.TOP_SCORE: ranked[0].score if ranked else None})
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
            grade = await self._inner.grade(question, passages)
            span.set(
                {
                    names.VERDICT: grade.verdict.value,
                    names.MISSING: grade.missing is not None,
                    names.P_SUFFICIENT: grade.p_sufficient,
                }
            )
            return grade


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
            return TracedDraft(await self._inner.draft(prompt), seen)
        except Exception as error:
            seen.span.fail(type_of(error))
            raise


class TracedDraft:
    """A Draft read through its span. A plain iterator: an async generator would hold what it wraps after a break."""

    def __init__(self, inner: Draft, seen: DraftTrace) -> None:
        self._inner = inner
        self._seen = seen
        self._batches: AsyncIterator[tuple[Piece, ...]] | None = None

    def __aiter__(self) -> AsyncIterator[tuple[Piece, ...]]:
        self._batches = aiter(self._inner)
        return self

    async def __anext__(self) -> tuple[Piece, ...]:
        try:
            pieces = await anext(self._batches or aiter(self))
        except StopAsyncIteration:
            raise
        except Exception as error:
            self._seen.span.fail(type_of(error))
            raise
        if not self._seen.has_spoken and any(isinstance(piece, Text) for piece in pieces):
            self._seen.first_text()
        if pieces and isinstance(pieces[-1], Stopped):  # where the port promises it
            self._seen.stopped(pieces[-1])
        return pieces

    async def aclose(self) -> None:
        await self._inner.aclose()
