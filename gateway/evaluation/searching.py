"""`gateway eval retrieval` around its measuring: folders of sets in, a table or JSON out."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.evaluation.bars import Bar, Group
from gateway.evaluation.figures import Interval
from gateway.evaluation.measuring import bar
from gateway.evaluation.questions import read_set
from gateway.evaluation.ranking import MEASURES
from gateway.evaluation.retrieval import SetReport, as_json, measure, strategies
from gateway.evaluation.shelf import shelve
from gateway.evaluation.shown import aligned
from gateway.settings import Settings

if TYPE_CHECKING:
    from gateway.providers.local.reranker import CrossEncoder

# What the cross-encoder reads in 100 ms on two cores, whatever the length of the passages. Six of 500 words, read to their end, take 300.
# nDCG@10 of mtrag_cloud: .572 without, .587 with four glanced at, .591 with six, .594 with six read.
RERANK_TOP, RERANK_WORDS = 4, 100

HEADINGS = ("R@5", "R@10", "R@20", "MRR@10", "nDCG@10", "all in 10", "p50 ms", "p95 ms")


async def measured(settings: Settings, folders: Sequence[Path], seed: int, rerank: int) -> tuple[SetReport, ...]:
    """The report of each set, in order. Raises LabelsUnreadable and what retrieval and the local models raise."""
    from gateway.wiring import library
    from retrieval.postgres import PostgresRetriever

    sets = [read_set(folder) for folder in folders]
    async with library(settings) as books:
        retriever = PostgresRetriever(books.pool, books.embedder)
        ways = strategies(retriever, _reranker() if rerank else None, rerank)
        reports = []
        for each in sets:
            with bar(f"{each.name}: embedding") as show:
                await shelve(each, books.store, books.embedder, show)
            with bar(f"{each.name}: searching") as show:
                reports.append(await measure(each, ways, seed, show))
        return tuple(reports)


def _reranker() -> "CrossEncoder":
    from gateway.providers.local.models import local_models

    return local_models().reranker.glancing(RERANK_WORDS)


def shown(reports: Sequence[SetReport], as_object: bool) -> str:
    """One JSON object, or a table for each set with the 95 % interval under each figure."""
    return json.dumps(as_json(reports)) if as_object else "\n\n".join(_table(each) for each in reports)


def pictured(reports: Sequence[SetReport]) -> list[Group]:
    """The nDCG@10 of every strategy, set by set."""
    return [
        Group(f"{each.name}: NDCG@10", tuple(Bar(one.strategy, one.figures["ndcg_at_10"]) for one in each.found))
        for each in reports
    ]


def _table(report: SetReport) -> str:
    lines: list[tuple[str, ...]] = [("strategy", "questions", *HEADINGS)]
    for each in report.found:
        figures = [each.figures[measure] for measure in MEASURES]
        times = (f"{each.p50_ms:.0f}", f"{each.p95_ms:.0f}")
        lines.append((each.strategy, str(each.questions), *(f"{figure.value:.3f}" for figure in figures), *times))
        lines.append(("", "", *(_range(figure) for figure in figures), "", ""))
    return f"{report.name}: {report.passages} passages\n\n{aligned(lines)}"


def _range(figure: Interval) -> str:
    return f"{figure.low:.2f}-{figure.high:.2f}"
