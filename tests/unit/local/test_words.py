"""Words, sentences and cover."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grading.words import content_words, cover, first_words, sentences, uncovered


def test_content_words_leave_out_what_says_nothing() -> None:
    assert content_words("What is the Price of a RED tea-pot in 2024?") == ["price", "red", "tea", "pot", "2024"]


def test_sentences_end_at_full_stops_before_capitals_and_at_line_ends() -> None:
    text = 'It rained. It cost 3.5 euros, e.g. a lot! "So?" he said.\n\nNew line without stop\nLast'
    assert sentences(text) == [
        "It rained.",
        "It cost 3.5 euros, e.g. a lot!",
        '"So?" he said.',
        "New line without stop",
        "Last",
    ]


@pytest.mark.parametrize(
    ("question", "texts", "missing"),
    [
        ("When are roses pruned?", ["Roses are pruned in March."], ()),
        ("When are roses pruned?", ["Pruning a rose is done in March."], ()),
        ("What is the warranty on refurbished phones?", ["Phones are sold here."], ("warranty", "refurbished")),
        ("What is the warranty on refurbished phones?", [], ("warranty", "refurbished phones")),
        ("Warranty? warranty!", ["nothing"], ("Warranty",)),
        ("What is it?", ["nothing"], ()),
        ("", [], ()),
        ("Reservation contest", ["reserve content"], ("contest",)),
    ],
)
def test_uncovered_names_what_no_text_speaks_of(question: str, texts: list[str], missing: tuple[str, ...]) -> None:
    assert uncovered(question, texts) == missing


@given(st.text(), st.lists(st.text(), max_size=4))
def test_cover_is_a_share_and_is_one_exactly_when_nothing_is_uncovered(question: str, texts: list[str]) -> None:
    share = cover(question, texts)
    assert 0.0 <= share <= 1.0
    assert (share == 1.0) == (uncovered(question, texts) == ())


@given(st.text(), st.integers(1, 5))
def test_first_words_are_at_most_so_many(text: str, limit: int) -> None:
    assert first_words(text, limit).split() == text.split()[:limit]
