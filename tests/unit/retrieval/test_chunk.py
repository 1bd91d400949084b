"""Chunking, pure."""

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.chunk import Chunking, Heading, chunk, estimated_tokens, titled

LETTERS = st.sampled_from("ab cd. Ef! ?\n\n’“é漢。\u2028\t-'1") | st.characters(codec="utf-8")
TEXTS = st.text(LETTERS, max_size=600)
SMALL = Chunking(target_tokens=12, overlap_tokens=4)


def sentences(count: int) -> str:
    return " ".join(f"Sentence number {n} says something of its own." for n in range(count))


@given(TEXTS)
@settings(max_examples=200)
def test_a_passage_is_exactly_its_characters_of_the_text(text: str) -> None:
    for one in chunk(text, chunking=SMALL):
        assert text[one.start : one.end] == one.text
        assert one.text == one.text.strip() != ""


@given(TEXTS)
@settings(max_examples=200)
def test_every_character_that_is_not_white_space_is_in_a_passage(text: str) -> None:
    covered = {at for one in chunk(text, chunking=SMALL) for at in range(one.start, one.end)}
    assert all(at in covered for at, character in enumerate(text) if _is_word(character))


def _is_word(character: str) -> bool:
    return character.isalnum()


@given(TEXTS)
def test_passages_move_forward(text: str) -> None:
    passages = chunk(text, chunking=SMALL)
    for before, after in itertools.pairwise(passages):
        assert before.start < after.start
        assert before.end < after.end


@given(TEXTS, st.lists(st.integers(0, 600), max_size=4))
def test_headings_anywhere_cut_the_text_without_losing_any(text: str, places: list[int]) -> None:
    headings = [Heading(1 + at % 3, text[at : at + 3], at) for at in sorted(set(places)) if at < len(text)]
    passages = chunk(text, headings, SMALL)
    covered = {at for one in passages for at in range(one.start, one.end)}
    assert all(at in covered for at, character in enumerate(text) if _is_word(character))
    assert all(text[one.start : one.end] == one.text for one in passages)


def test_long_text_becomes_passages_of_about_the_target() -> None:
    lengths = [estimated_tokens(one.text) for one in chunk(sentences(200))]
    assert len(lengths) > 5
    assert max(lengths) <= 190
    assert min(lengths[:-1]) > 120


def test_passages_end_where_sentences_end() -> None:
    assert all(one.text.endswith("its own.") for one in chunk(sentences(100)))


def test_neighbours_share_a_little() -> None:
    passages = chunk(sentences(100))
    shared = [before.end - after.start for before, after in itertools.pairwise(passages)]
    assert all(0 < one < len(passages[0].text) / 3 for one in shared)


def test_a_text_of_abbreviations_alone_is_cut_in_no_time() -> None:
    """It took half a minute of a core: at each one all of the text before it was looked at."""
    began_s = time.process_time()
    assert len(chunk("A. " * 20_000)) > 100
    assert time.process_time() - began_s < 5


@pytest.mark.parametrize("word", ["approx.", "Mr.", "A.", "e.g.", "(e.g."])
def test_an_abbreviation_is_known_wherever_it_stands(word: str) -> None:
    for before in ("", "x " * 40, "x" * 80 + " "):
        assert len(chunk(f"They met {before}{word} Smith in town.", (), Chunking(target_tokens=200))) == 1
        sentences = f"They met {before}{word} Smith. Then all went home."
        assert [
            one.text
            for one in chunk(sentences, (), Chunking(target_tokens=estimated_tokens(sentences) - 1, overlap_tokens=0))
        ] == [
            f"They met {before}{word} Smith.",
            "Then all went home.",
        ]


def test_an_abbreviation_ends_no_sentence() -> None:
    text = "Ask Dr. Miller, e.g. Anna. Then go."
    cut = [one.text for one in chunk(text, chunking=Chunking(target_tokens=12, overlap_tokens=0))]
    assert cut == ["Ask Dr. Miller, e.g. Anna.", "Then go."]


def test_ideographic_sentences_are_cut_without_spaces() -> None:
    text = "日本語の文章です。" * 60
    passages = chunk(text)
    assert len(passages) > 2
    assert all(one.text.endswith("。") for one in passages)


def test_a_sentence_longer_than_a_passage_is_cut_between_words() -> None:
    text = "word " * 1000
    assert all(set(one.text.split()) == {"word"} for one in chunk(text))


def test_a_word_longer_than_a_passage_is_cut_inside() -> None:
    passages = chunk("x" * 20_000)
    assert sum(len(one.text) for one in passages) == 20_000
    assert max(estimated_tokens(one.text) for one in passages) <= 190


def test_a_heading_stays_with_its_section_and_names_its_path() -> None:
    text = "Tea\n\nGreen\n\nSteep it cool.\n\nBlack\n\nSteep it hot."
    headings = [Heading(1, "Tea", 0), Heading(2, "Green", 5), Heading(2, "Black", text.index("Black"))]
    first, second = chunk(text, headings)
    assert (first.text, first.headings) == ("Tea\n\nGreen\n\nSteep it cool.", ("Tea", "Green"))
    assert (second.text, second.headings) == ("Black\n\nSteep it hot.", ("Tea", "Black"))


def test_text_before_the_first_heading_is_a_passage_without_one() -> None:
    first, second = chunk("Hello.\n\nTea\n\nHot.", [Heading(1, "Tea", 8)])
    assert (first.text, first.headings) == ("Hello.", ())
    assert second.headings == ("Tea",)


def test_text_of_white_space_has_no_passage() -> None:
    assert chunk(" \n\t ") == ()
    assert chunk("") == ()


def test_a_title_is_the_documents_and_the_path_without_repeating_it() -> None:
    assert titled("Tea", ("Tea", "Green")) == "Tea › Green"
    assert titled("Tea", ()) == "Tea"
