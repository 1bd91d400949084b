"""`gateway eval retrieval`: ways to search, measured side by side on a set's own questions over its own corpus."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Any

from gateway.evaluation.figures import Interval
from gateway.evaluation.questions import Asked, QuestionSet
from gateway.evaluation.ranking import MEASURES, Measured, mean_intervals, percentile, ranked_figures
from gateway.evaluation.shelf import TENANT, collection_of
from grading.decompose import decompose
from retrieval.fusion import blended
from retrieval.passage import Passage
from retrieval.ports import Query, Reranker, Retriever, SearchMode
from retrieval.router import route

DEPTH = 20  # passages asked for; recall@20 is the deepest figure
ROUTED = "routed"  # what a question gets by default: its figures are the headline

Search = Callable[[Query], Awaitable[tuple[Passage, ...]]]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to search. `text` makes the query of a question (None: not for this one)."""

    name: str
    search: Search
    text: Callable[[Asked], str | None] = lambda asked: asked.standalone


def strategies(retriever: Retriever, reranker: Reranker | None, rerank_top: int = 0) -> tuple[Strategy, ...]:
    """Every mode always; the router's choice, also with the best reranked and blended, and also on other words of the question."""

    def always(mode: SearchMode) -> Search:
        async def search(query: Query) -> tuple[Passage, ...]:
            return await retriever.retrieve(replace(query, mode=mode))

        return search

    async def routed(query: Query) -> tuple[Passage, ...]:
        chosen = route(query.text, len(decompose(query.text)))
        return await retriever.retrieve(replace(query, mode=chosen.mode))

    async def reranked(query: Query) -> tuple[Passage, ...]:
        found = await routed(query)
        assert reranker is not None
        best = await reranker.rerank(query.text, found[:rerank_top], rerank_top)
        return blended(best, found[rerank_top:])

    return (
        *(Strategy(mode.value, always(mode)) for mode in SearchMode),
        Strategy(ROUTED, routed),
        *((Strategy(f"routed, {rerank_top} reranked", reranked),) if reranker is not None and rerank_top else ()),
        Strategy("routed, last turn alone", routed, lambda asked: asked.words if asked.history else None),
        Strategy("routed, published rewrite", routed, lambda asked: asked.published),
    )


@dataclass(frozen=True, slots=True)
class Found:
    """One strategy on one set: its figures by the names of MEASURES, and what a search took, embedding included."""

    strategy: str
    questions: int
    figures: Mapping[str, Interval]
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class SetReport:
    """A set's figures, one entry per strategy that some of its questions allow."""

    name: str
    passages: int
    found: tuple[Found, ...]

    def of(self, strategy: str) -> Found:
        """Raises KeyError when the strategy was not measured."""
        return {each.strategy: each for each in self.found}[strategy]


async def measure(
    questions: QuestionSet, ways: Sequence[Strategy], seed: int, progress: Progress | None = None
) -> SetReport:
    """Each way on each question that has evidence, one search at a time. The same input gives the same figures; times differ."""
    asked = questions.with_evidence
    found: list[Found] = []
    for number, way in enumerate(ways):
        measured: list[Measured] = []
        took_ms: list[float] = []
        for place, each in enumerate(asked):
            if (text := way.text(each)) is not None:
                query = Query(text, collection_of(questions), DEPTH, tenant=TENANT)
                began = time.perf_counter()
                passages = await way.search(query)
                took_ms.append((time.perf_counter() - began) * 1000)
                names = [str(passage.metadata["source"]) for passage in passages]
                measured.append(Measured(each.group, ranked_figures(names, each.evidence)))
            if progress is not None:
                progress(number * len(asked) + place + 1, len(ways) * len(asked))
        if measured:
            found.append(_found(way.name, measured, took_ms, seed))
    return SetReport(questions.name, len(questions.corpus), tuple(found))


def _found(strategy: str, measured: list[Measured], took_ms: list[float], seed: int) -> Found:
    return Found(
        strategy, len(measured), mean_intervals(measured, seed), percentile(took_ms, 0.5), percentile(took_ms, 0.95)
    )


def as_json(sets: Sequence[SetReport]) -> dict[str, Any]:
    """The routed figures, as the mean of the sets, on top; every set and strategy with intervals and times below."""
    routed = [each.of(ROUTED) for each in sets]
    return {
        "kind": "retrieval",
        "strategy": ROUTED,
        **{
            measure: round(fsum(each.figures[measure].value for each in routed) / len(routed), 4)
            for measure in MEASURES
        },
        "questions": sum(each.questions for each in routed),
        "sets": {each.name: _set_json(each) for each in sets},
    }


def _set_json(report: SetReport) -> dict[str, Any]:
    return {"passages": report.passages, "strategies": {each.strategy: _found_json(each) for each in report.found}}


def _found_json(found: Found) -> dict[str, Any]:
    return {
        "questions": found.questions,
        **{measure: round(each.value, 4) for measure, each in found.figures.items()},
        "intervals": {measure: [round(each.low, 4), round(each.high, 4)] for measure, each in found.figures.items()},
        "latency_ms": {"p50": round(found.p50_ms, 1), "p95": round(found.p95_ms, 1)},
    }
