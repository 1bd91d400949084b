"""Packing a set for the reader: the properties, and equality with the model's reference script."""

import importlib.util
import json
from itertools import islice
from math import fsum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.providers.local.grader import BUDGET_TOKENS
from grading.evidence import pack, piece, tokens
from tests.support.local import shared_models

pytestmark = pytest.mark.anyio

SHARED = Path(__file__).parents[4] / "shared"
SETS = ("multihop", "mtrag_wiki", "mtrag_govt", "clapnq", "squad2", "rgb_en")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    script = SHARED / "models" / "reader" / "infer.py"
    if not script.exists():
        pytest.skip("the reader's reference script is not beside this checkout")
    spec = importlib.util.spec_from_file_location("reader_reference", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # It adds up weights in the order of a set, which differs from run to run, and so breaks ties at random: add them up exactly.
    module.__dict__["sum"] = fsum
    return module


def cases(name: str, count: int) -> list[dict[str, Any]]:
    file = SHARED / "data" / name / "sufficiency.jsonl"
    if not file.exists():
        pytest.skip("the evaluation data is not beside this checkout")
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in islice(lines, 0, 7 * count, 7)]


@pytest.mark.parametrize("name", SETS)
def test_sets_are_packed_exactly_as_the_reader_was_tuned(reference: ModuleType, name: str) -> None:
    for case in cases(name, 60):
        pieces = [piece(each.get("title"), each["text"]) for each in case["passages"]]
        for budget in (BUDGET_TOKENS, 60):
            assert pack(case["question"], pieces, budget) == reference.pack(case["question"], case["passages"], budget)


async def test_the_readers_margin_is_that_of_the_reference(reference: ModuleType) -> None:
    script = reference.Grader(threads=1)
    for case in cases("multihop", 3) + cases("squad2", 2):
        pieces = [piece(each.get("title"), each["text"]) for each in case["passages"]]
        reading = await shared_models().grader.read(case["question"], pieces)
        sufficient, _, span, relevance = script.margins(case["question"], case["passages"])
        assert (reading.margin, reading.span, reading.relevance) == pytest.approx(
            (sufficient, span, relevance), abs=0.01
        )


def test_a_set_within_the_budget_is_kept_whole() -> None:
    pieces = [piece("Roses", "They need sun."), piece("Roses", "Roses are red."), piece(None, "x")]
    assert pack("sun?", pieces, 250) == "Roses: They need sun. Roses are red. x"


def test_over_the_budget_the_sentences_nearest_the_question_are_kept_in_reading_order() -> None:
    filler = [f"Filler sentence number {n} is about nothing." for n in range(40)]
    text = " ".join([*filler[:20], "Bulbs go fifteen centimetres deep.", *filler[20:], "Deep bulbs sleep well."])
    packed = pack("How deep do bulbs go?", [piece("Tulips", text)], 60)
    assert packed.index("Bulbs go fifteen") < packed.index("Deep bulbs sleep well.")
    assert tokens(packed) <= 66  # the estimate of a whole is not quite the sum of its parts'


SENTENCE = st.text("aBc 12.é漢\n", min_size=1, max_size=60)


@settings(max_examples=50)  # of about 30 ms
@given(st.text(max_size=40), st.lists(st.tuples(st.text("Tt l", max_size=8), SENTENCE), max_size=6), st.integers(1, 60))
def test_packed_text_holds_only_what_was_given(question: str, given_: list[tuple[str, str]], budget: int) -> None:
    pieces = [piece(title, text) for title, text in given_]
    packed = pack(question, pieces, budget)
    everything = "".join("".join(each.full.split()) for each in pieces)
    if tokens(" ".join(each.full for each in pieces)) <= budget:
        assert "".join(packed.split()) == everything
    else:
        assert packed or not any(each.text for each in pieces)
        assert len("".join(packed.split())) <= len(everything)
        assert set("".join(packed.split())) <= set(everything)
