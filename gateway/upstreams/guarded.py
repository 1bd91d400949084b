"""Guarded ports: each is asked through the breaker of its upstream, and fails at once while that is left alone.

What counts against an upstream is that it was not there, not able or silent. That it refuses a request, or answers nonsense, does not:
a question could bring that about, and would shut everybody else out. What we cut ourselves counts for nothing.
"""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import anyio

from gateway.upstreams.breaker import Breaker, Call, LeftAlone
from grading.faults import GraderUnavailable, RewriterUnavailable, VerifierUnavailable
from grading.grade import Grade
from grading.ports import Claim, Grader, Rewriter, Verifier
from retrieval.faults import EmbeddingFailed, GatewayFault, RetrievalUnavailable
from retrieval.passage import Passage, Scalar
from retrieval.ports import Embedder, Query, Retriever, Vector
from streaming.faults import GeneratorFault, GeneratorUnavailable
from streaming.ports import Draft, Generator, Piece, Prompt, Stopped, Text

T = TypeVar("T")
Ask = Callable[[], Awaitable[T]]
LONG_CHARACTERS = 1_000  # of a question: as many words, ten times more than people ask with, can make any search slow
PAUSE_S = 0.2  # before a judge is asked again, where its service names no time: a connection that broke is another one by then


class GuardedGenerator:
    """streaming.ports.Generator. A draft counts when it ends by itself; of a probe the first word does, so that nobody waits for its last.

    `limit_s` is the silence that a model may keep. Raises GeneratorUnavailable at once while it is left alone.
    """

    def __init__(self, inner: Generator, breaker: Breaker, limit_s: float) -> None:
        self._inner, self._breaker, self._limit_s = inner, breaker, limit_s

    @property
    def name(self) -> str:
        return self._inner.name

    async def draft(self, prompt: Prompt) -> Draft:
        try:
            call = self._breaker.call(self._limit_s)
        except LeftAlone as alone:
            raise GeneratorUnavailable(str(alone)) from None
        try:
            with call.waiting():
                return GuardedDraft(await self._inner.draft(prompt), call)
        except Exception as error:
            _judge(call, error)
            raise


class GuardedDraft:
    """A draft whose call is ended by what comes of it."""

    def __init__(self, inner: Draft, call: Call) -> None:
        self._inner, self._call = inner, call
        self._next = aiter(inner).__anext__

    def __aiter__(self) -> AsyncIterator[tuple[Piece, ...]]:
        return self

    async def __anext__(self) -> tuple[Piece, ...]:
        began_s = anyio.current_time()
        try:
            pieces = await self._next()
        except StopAsyncIteration:
            raise
        except Exception as error:
            _judge(self._call, error)
            raise
        except BaseException:
            self._call.cut(anyio.current_time() - began_s)
            raise
        if (pieces and isinstance(pieces[-1], Stopped)) or (
            self._call.is_probe and any(isinstance(piece, Text) for piece in pieces)
        ):
            self._call.succeed()
        return pieces

    def cut(self) -> None:
        self._call.let_go()
        self._inner.cut()

    async def aclose(self) -> None:
        self._call.let_go()
        await self._inner.aclose()


class GuardedGrader:
    """grading.ports.Grader, within `limit_s` seconds. With `asks_again` a service that fails is asked a second time where that leaves time.

    It waits as long as the service says, where it says so.
    """

    def __init__(self, inner: Grader, breaker: Breaker, limit_s: float, *, asks_again: bool) -> None:
        self._inner, self._breaker, self._limit_s, self._asks_again = inner, breaker, limit_s, asks_again

    @property
    def name(self) -> str:
        return self._inner.name

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:
        began_s = anyio.current_time()
        try:
            return await self._asked(question, passages, self._limit_s)
        except GraderUnavailable as fault:
            pause_s = _pause_s(fault)
            left_s = began_s + self._limit_s - anyio.current_time()
            if not self._asks_again or pause_s is None or pause_s >= left_s:
                raise
        await anyio.sleep(pause_s)
        return await self._asked(question, passages, left_s - pause_s)

    async def _asked(self, question: str, passages: tuple[Passage, ...], limit_s: float) -> Grade:
        return await through(self._breaker, limit_s, GraderUnavailable, lambda: self._inner.grade(question, passages))


class GuardedRewriter:
    """grading.ports.Rewriter."""

    def __init__(self, inner: Rewriter, breaker: Breaker, limit_s: float) -> None:
        self._inner, self._breaker, self._limit_s = inner, breaker, limit_s

    async def rewrite(self, question: str, missing: str | None) -> str:
        return await self._asked(lambda: self._inner.rewrite(question, missing))

    async def decompose(self, question: str) -> tuple[str, ...]:
        return await self._asked(lambda: self._inner.decompose(question))

    async def standalone(self, question: str, history: Sequence[tuple[str, str]]) -> str:
        return await self._asked(lambda: self._inner.standalone(question, history))

    async def filters(self, question: str, fields: Mapping[str, tuple[Scalar, ...]]) -> Mapping[str, Scalar]:
        return await self._asked(lambda: self._inner.filters(question, fields))

    async def _asked(self, ask: Ask[T]) -> T:
        return await through(self._breaker, self._limit_s, RewriterUnavailable, ask)


class GuardedVerifier:
    """grading.ports.Verifier."""

    def __init__(self, inner: Verifier, breaker: Breaker, limit_s: float) -> None:
        self._inner, self._breaker, self._limit_s = inner, breaker, limit_s

    @property
    def name(self) -> str:
        return self._inner.name

    async def supported(self, question: str, claims: tuple[Claim, ...]) -> tuple[bool, ...]:
        return await through(
            self._breaker, self._limit_s, VerifierUnavailable, lambda: self._inner.supported(question, claims)
        )


class GuardedRetriever:
    """retrieval.ports.Retriever. That a search of more than LONG_CHARACTERS fails counts for nothing: its length may have been why."""

    def __init__(self, inner: Retriever, breaker: Breaker, limit_s: float) -> None:
        self._inner, self._breaker, self._limit_s = inner, breaker, limit_s

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        counts = len(query.text) <= LONG_CHARACTERS
        return await through(
            self._breaker, self._limit_s, RetrievalUnavailable, lambda: self._inner.retrieve(query), counts=counts
        )


class GuardedEmbedder:
    """retrieval.ports.Embedder."""

    def __init__(self, inner: Embedder, breaker: Breaker, limit_s: float) -> None:
        self._inner, self._breaker, self._limit_s = inner, breaker, limit_s

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def dimensions(self) -> int:
        return self._inner.dimensions

    async def embed_query(self, text: str) -> Vector:
        return await through(self._breaker, self._limit_s, EmbeddingFailed, lambda: self._inner.embed_query(text))

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        return await through(self._breaker, self._limit_s, EmbeddingFailed, lambda: self._inner.embed_passages(texts))


async def through(
    breaker: Breaker, limit_s: float, fault: type[GatewayFault], ask: Ask[T], *, counts: bool = True
) -> T:
    """What `ask` brings, through `breaker`. Raises what it raises, and `fault` at once while the upstream is left alone.

    Where it does not count, a call that fails says nothing of the upstream.
    """
    try:
        call = breaker.call(limit_s if counts else math.inf)
    except LeftAlone as alone:
        raise fault(str(alone)) from None
    try:
        with call.waiting():
            found = await ask()
    except Exception as error:
        if counts:
            _judge(call, error)
        else:
            call.let_go()
        raise
    call.succeed()
    return found


def _judge(call: Call, error: Exception) -> None:
    """Ends the call by what it raised."""
    outage = _outage(error)
    if outage is not None and outage.retryable:
        call.fail()
    elif outage is not None or (isinstance(error, GatewayFault) and not isinstance(error, EmbeddingFailed)):
        call.succeed()  # answered, and be it with a no
    else:
        call.let_go()  # a defect of ours, or of what comes before the upstream


def _outage(error: Exception) -> GatewayFault | None:
    """What went wrong with the request itself; None where it was answered, and the answer was of no use."""
    if isinstance(error, GeneratorFault) or (
        isinstance(error, RetrievalUnavailable | EmbeddingFailed) and error.is_outage
    ):
        return error
    return error.__cause__ if isinstance(error.__cause__, GeneratorFault) else None


def _pause_s(fault: GraderUnavailable) -> float | None:
    """When to ask again after `fault`; None for not at all."""
    outage = _outage(fault)
    if not isinstance(outage, GeneratorFault) or not outage.retryable:
        return None
    return PAUSE_S if outage.retry_after_s is None else outage.retry_after_s
