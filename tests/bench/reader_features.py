"""What the local judges say of the labelled development sets, one JSON line for each case. Run by hand; fit_reader.py reads the result.

.venv/bin/python tests/bench/reader_features.py ../shared/data features.jsonl
"""

import json
import random
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio

from gateway.providers.local.models import LocalModels, load_local_models
from gateway.providers.local.pairs import PairScorer
from gateway.providers.local.slots import Urgency
from grading.evidence import piece
from grading.words import cover

SETS = ("squad2", "multihop", "clapnq", "mtrag_cloud", "mtrag_fiqa", "mtrag_govt", "mtrag_wiki", "rgb_en")
CASES_PER_SET = {"squad2": 360, "multihop": 360, "clapnq": 360}
OTHER_CASES = 120


def cases(data: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """A fixed sample of every English set, with the ids of its evidence where the set names them."""
    for name in SETS:
        rows = [json.loads(line) for line in (data / name / "sufficiency.jsonl").read_text("utf-8").splitlines()]
        random.Random(name).shuffle(rows)
        evidence = evidence_of(data / name / "questions.jsonl")
        for row in rows[: CASES_PER_SET.get(name, OTHER_CASES)]:
            yield name, {**row, "evidence": evidence.get(row["question_id"])}


def evidence_of(questions: Path) -> dict[str, list[str]]:
    if not questions.exists():
        return {}
    rows = [json.loads(line) for line in questions.read_text("utf-8").splitlines()]
    return {row["id"]: row["evidence"] for row in rows}


async def judged(models: LocalModels, pairs: PairScorer, name: str, case: dict[str, Any]) -> dict[str, Any]:
    question = case.get("standalone_question") or case["question"]
    pieces = [piece(each.get("title"), each["text"]) for each in case["passages"]]
    texts = [each.full for each in pieces]
    return {
        "set": name,
        "question_id": case["question_id"],
        "question": question,
        "verdict": case["verdict"],
        "reader": asdict(await models.grader.read(question, pieces)),
        "logits": await pairs.scores(question, texts, Urgency.INGEST),
        "evidence": None if case["evidence"] is None else [p["id"] in case["evidence"] for p in case["passages"]],
        "cover": cover(question, texts),
    }


async def main(data: Path, out: Path) -> None:
    models = await load_local_models(embedder=False)
    with out.open("w", encoding="utf-8") as lines:
        for name, case in cases(data):
            lines.write(json.dumps(await judged(models, models.pairs, name, case)) + "\n")
            lines.flush()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), Path(sys.argv[2]))
