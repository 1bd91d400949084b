"""Questions of several parts and hops, split by rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grading.decompose import MOST_PARTS, decompose


@pytest.mark.parametrize(
    "question",
    [
        "How long is annual leave?",
        "Which composer wrote operas and symphonies?",
        "What league, which is also known as the Premier League, was founded in 1992?",
        "Can you tell me about the Superior Court of California?",
        "Is it black and white?",
        "tea",
    ],
)
def test_one_question_stays_one(question: str) -> None:
    assert decompose(question) == (question,)


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("How long is leave, and who approves it?", ("How long is leave?", "who approves it (about leave)?")),
        ("What is tea? Where does coffee grow?", ("What is tea?", "Where does coffee grow?")),
        (
            "Who is younger, Mart Van Duren or Madeleine Simms?",
            ("Who is younger Mart Van Duren?", "Who is younger Madeleine Simms?"),
        ),
        (
            "Are Marilyn Manson and Joe Lynn Turner both American singers?",
            ("Are Marilyn Manson both American singers?", "Are Joe Lynn Turner both American singers?"),
        ),
        ("What is the difference between a claim and a charge?", ("What is a claim?", "What is a charge?")),
        (
            "Who is the spouse of the actor of Ethan in A Dog's Purpose?",
            ("the actor of Ethan in A Dog's Purpose", "Who is the spouse of the actor of Ethan in A Dog's Purpose?"),
        ),
        (
            "When was Countrywide bought by the company that bought FleetBoston Financial?",
            (
                "the company that bought FleetBoston Financial",
                "When was Countrywide bought by the company that bought FleetBoston Financial?",
            ),
        ),
    ],
)
def test_parts_come_in_the_order_in_which_they_are_answered(question: str, parts: tuple[str, ...]) -> None:
    assert decompose(question) == parts


def test_more_parts_than_are_searched_for_are_left_out() -> None:
    question = " ".join(f"What is part{n}?" for n in range(9))
    assert len(decompose(question)) == MOST_PARTS


@given(st.text(st.sampled_from("aA who? the of and that .,B1"), max_size=80))
def test_any_text_has_one_part_or_more_and_no_blank_ones(question: str) -> None:
    parts = decompose(question)
    assert 1 <= len(parts) <= MOST_PARTS
    assert len(set(parts)) == len(parts)
    assert len(parts) == 1 or all(part.strip() for part in parts)
