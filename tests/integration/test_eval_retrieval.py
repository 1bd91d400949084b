"""`gateway eval retrieval` on a small set of its own and a real database."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.evaluation.questions import read_set
from gateway.evaluation.ranking import MEASURES
from gateway.evaluation.retrieval import ROUTED, SetReport, as_json, measure, strategies
from gateway.evaluation.rows import LabelsUnreadable
from gateway.evaluation.searching import shown
from gateway.evaluation.shelf import shelve
from retrieval.passage import Passage
from retrieval.pool import Pool, open_pool
from retrieval.ports import Vector
from retrieval.postgres import PostgresRetriever
from retrieval.store import PassageStore
from tests.support.embedders import HashingEmbedder
from tests.support.postgres import emptied

pytestmark = pytest.mark.anyio

CORPUS: list[dict[str, Any]] = [
    {"id": "tea", "title": "Tea", "text": "Green tea is steeped at eighty degrees.", "metadata": {"domain": "kitchen"}},
    {"id": "coffee", "title": "Coffee", "text": "It is brewed at ninety-three degrees.", "metadata": {"from": ["x"]}},
    {"id": "bread", "title": "Bread is baked", "text": "Bread is baked for forty minutes.", "metadata": {}},
]
QUESTIONS: list[dict[str, Any]] = [
    {"id": "1", "question": "How is green tea steeped?", "evidence": ["tea"], "answerable": True},
    {
        "id": "2",
        "question": "How is it brewed?",
        "history": [{"role": "user", "content": "What is Coffee?"}, {"role": "assistant", "content": "A drink."}],
        "standalone_question": "How is coffee brewed?",
        "evidence": ["coffee"],
        "answerable": True,
        "conversation": "c",
    },
    {"id": "3", "question": "Who won?", "evidence": [], "answerable": False},
]


class CountingEmbedder(HashingEmbedder):
    """Counts the passages it embeds."""

    passages = 0

    async def embed_passages(self, texts: Any) -> list[Vector]:
        self.passages += len(texts)
        return await super().embed_passages(texts)


class Reversing:
    """A reranker that is sure the last is best (retrieval.ports.Reranker)."""

    async def rerank(self, question: str, passages: tuple[Passage, ...], k: int) -> tuple[Passage, ...]:
        return tuple(one.scored("rerank", 100.0 * place) for place, one in enumerate(passages))[::-1][:k]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    async with open_pool(emptied(database_url), size=2) as pool:
        yield pool


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written(tmp_path / "small", CORPUS, QUESTIONS)


def written(folder: Path, corpus: list[dict[str, Any]], questions: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)))
    return folder


async def reported(pool: Pool, folder: Path) -> SetReport:
    embedder, questions = HashingEmbedder(), read_set(folder)
    await shelve(questions, PassageStore(pool), embedder)
    return await measure(questions, strategies(PostgresRetriever(pool, embedder), Reversing(), 2), seed=0)


async def test_every_way_is_measured_on_the_questions_it_fits(pool: Pool, folder: Path) -> None:
    report = await reported(pool, folder)
    counts = {each.strategy: each.questions for each in report.found}
    assert counts == {
        **dict.fromkeys(("dense", "lexical", "hybrid", "hops", ROUTED, f"{ROUTED}, 2 reranked"), 2),
        f"{ROUTED}, last turn alone": 1,
        f"{ROUTED}, published rewrite": 1,
    }
    assert report.of(ROUTED).figures["ndcg_at_10"].value == 1
    assert report.of(f"{ROUTED}, 2 reranked").figures["mrr_at_10"].value == 0.5


async def test_the_same_input_gives_the_same_figures(pool: Pool, folder: Path) -> None:
    first, second = await reported(pool, folder), await reported(pool, folder)
    assert [(each.strategy, each.figures) for each in first.found] == [
        (each.strategy, each.figures) for each in second.found
    ]


async def test_a_corpus_is_embedded_once_and_a_changed_one_apart(pool: Pool, folder: Path) -> None:
    embedder, store = CountingEmbedder(), PassageStore(pool)
    seen: list[tuple[int, int]] = []
    await shelve(read_set(folder), store, embedder, lambda done, total: seen.append((done, total)))
    assert (embedder.passages, seen[-1]) == (3, (3, 3))
    await shelve(read_set(folder), store, embedder)
    assert embedder.passages == 3
    first = read_set(folder)
    changed = read_set(written(folder, CORPUS[:2], QUESTIONS))
    await shelve(changed, store, embedder)
    assert embedder.passages == 5
    assert first.version != changed.version


async def test_json_has_the_routed_figures_on_top_and_all_below(pool: Pool, folder: Path) -> None:
    report = await reported(pool, folder)
    value = json.loads(shown([report], as_object=True))
    assert {"recall_at_10", "ndcg_at_10", *MEASURES} <= value.keys()
    assert value == json.loads(json.dumps(as_json([report])))
    routed = value["sets"]["small"]["strategies"][ROUTED]
    assert routed["ndcg_at_10"] == value["ndcg_at_10"]
    low, high = routed["intervals"]["ndcg_at_10"]
    assert low <= routed["ndcg_at_10"] <= high
    assert ROUTED in shown([report], as_object=False)


def test_a_title_that_the_text_begins_with_is_not_embedded_twice(folder: Path) -> None:
    embedded = [each.embedded for each in read_set(folder).corpus]
    assert embedded[0] == "Tea\nGreen tea is steeped at eighty degrees."
    assert embedded[2] == "Bread is baked for forty minutes."


def test_evidence_outside_the_corpus_is_named(tmp_path: Path) -> None:
    wrong = written(tmp_path / "wrong", CORPUS, [{"id": "9", "question": "?", "evidence": ["nowhere"]}])
    with pytest.raises(LabelsUnreadable, match="question 9"):
        read_set(wrong)


def test_a_set_without_evidence_and_a_missing_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(LabelsUnreadable, match="no question has evidence"):
        read_set(written(tmp_path / "none", CORPUS, QUESTIONS[2:]))
    with pytest.raises(LabelsUnreadable, match="not a folder"):
        read_set(tmp_path / "absent")
