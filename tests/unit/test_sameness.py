"""Whether two questions are the same question."""

import json
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import pytest

from gateway.sameness import is_same_question

SQUAD = Path(__file__).resolve().parents[3] / "shared" / "data" / "squad2" / "questions.jsonl"

SAME = [
    ("How many hours of sun do roses need?", "how many hours of sun does a rose need"),
    ("How many hours of sun do roses need?", "Roses need how many hours of sun?"),
    ("When is the shed locked?", "Can you please tell me when the shed is locked?"),
    ("What is rev-b of the 2.5 manual?", "What's rev-b of the 2.5 manual"),
    ("Can't I return it?", "Cannot I return it?"),
    ("Wie hoch ist die Gebühr?", "wie hoch ist die GEBÜHR ?"),
]
DIFFERENT = [
    ("What happened in 2023?", "What happened in 2024?"),
    ("Does error 1,000 matter?", "Does error 1.000 matter?"),
    ("How many roses need sun?", "How many ferns need sun?"),
    ("Which roses need sun?", "Which roses do not need sun?"),
    ("Which roses need sun?", "Which roses don't need sun?"),
    ("Which roses need sun?", "Which roses never need sun?"),
    ("Who ranked above the Uighur king?", "Who ranked below the Uighur king?"),
    ("What did Black find before Watt?", "What did Watt find before Black?"),
    ("How is euro converted to dollar?", "How is dollar converted to euro?"),
    ("When was it founded?", "Where was it founded?"),
    ("When did the museum open?", "When does the museum open?"),
    ("Who is the director?", "Who was the director?"),
    ("Who pays the insurer?", "Who pays the insured?"),
    ("May I smoke?", "Must I smoke?"),
    ("Is it the first?", "Is it the second?"),
    ("", ""),
    ("?!", "?!"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_same_questions_are_the_same_both_ways(one: str, other: str) -> None:
    assert is_same_question(one, other)
    assert is_same_question(other, one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_changes_the_answer_is_another_question_both_ways(one: str, other: str) -> None:
    assert not is_same_question(one, other)
    assert not is_same_question(other, one)


def test_questions_made_to_look_alike_are_told_apart() -> None:
    """squad2: people rewrote answerable questions so that the same paragraph does not answer them any more."""
    if not SQUAD.exists():
        pytest.skip("the shared evaluation data is not here")
    about: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    for line in SQUAD.read_text().splitlines():
        row = json.loads(line)
        about[str(row["written_about"])].append((" ".join(row["question"].lower().split()), row["answerable"]))
    pairs = [pair for asked in about.values() for pair in combinations(asked, 2)]
    opposed = [(one, other) for (one, a), (other, b) in pairs if a != b and one != other]
    taken = [pair for pair in opposed if is_same_question(*pair)]
    assert len(opposed) > 5_000
    assert len(taken) <= 2, taken
