"""BM25's weights, pure; its figures in the database are the business of the contract and `gateway eval retrieval`."""

import pytest

from retrieval.lexical import MOST_TERMS, SELECTED_POSTINGS, Size, Term, quoted, weighed

SIZE = Size(10_000, 500_000)


def test_rare_terms_weigh_more_and_come_first() -> None:
    found = weighed([Term("the", 9_000), Term("zircon", 3), Term("tea", 200)], SIZE)
    assert [lexeme for lexeme, _ in found.terms] == ["zircon", "tea", "the"]
    weights = [weight for _, weight in found.terms]
    assert weights == sorted(weights, reverse=True)
    assert all(weight > 0 for weight in weights)


def test_unknown_terms_are_left_out() -> None:
    assert weighed([Term("unheard", 0)], SIZE).is_blank
    assert weighed([], Size(0, 0)).is_blank


def test_the_rarest_select_and_all_score() -> None:
    found = weighed([Term("rare", 10), Term("common", SELECTED_POSTINGS), Term("commoner", 9_000)], SIZE)
    assert found.selecting == ("rare",)
    assert len(found.terms) == 3


def test_a_question_of_common_words_still_selects_by_one() -> None:
    assert weighed([Term("the", 9_999), Term("of", 9_998)], SIZE).selecting == ("of",)


def test_a_pasted_page_is_cut_to_its_rarest_terms() -> None:
    found = weighed([Term(f"t{n}", n + 1) for n in range(500)], SIZE)
    assert len(found.terms) == MOST_TERMS
    assert found.terms[0][0] == "t0"


def test_counts_beyond_the_size_do_no_harm() -> None:
    """Another transaction's counts may be ahead of the size that was read before."""
    assert all(weight > 0 for _, weight in weighed([Term("a", 12)], Size(10, 100)).terms)


@pytest.mark.parametrize(("lexeme", "query"), [("tea", "'tea'"), ("o'clock", "'o''clock'"), ("a\\b", "'a\\\\b'")])
def test_a_lexeme_is_quoted(lexeme: str, query: str) -> None:
    assert quoted(lexeme) == query
