"""Names, pure; that SQL spells them alike is tests/integration/test_terms.py."""

import pytest

from retrieval.names import LONGEST_NAME, MOST_NAMES, name_of, names_in


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Mercury (planet)", "mercury"),
        ("Handbook › Leave › Parental leave", "parental leave"),
        ("It Ain't Necessarily So", "it ain t necessarily so"),
        ("Åland – Övre", "Åland – Övre".replace("O", "o")),
        ("(brackets)", ""),
        ("", ""),
    ],
)
def test_a_title_names_its_last_part_without_brackets(title: str, name: str) -> None:
    assert name_of(title) == name


def test_names_begin_with_a_capital_or_a_digit_and_cross_no_sentence_end() -> None:
    names = names_in("He sailed on the Vasa. Stockholm was near in 1628")
    assert {"vasa", "stockholm", "he sailed on the vasa"} <= set(names)
    assert not {"sailed", "vasa stockholm", "1628"} & set(names)


def test_a_name_holds_the_small_words_inside_it() -> None:
    assert "bay of bengal" in names_in("off the Bay of Bengal")


@pytest.mark.parametrize("title", ["It Ain't Necessarily So", "Ökonomie", "AC/DC", "10 Downing Street"])
def test_a_title_in_a_text_is_found_by_its_name(title: str) -> None:
    assert name_of(title) in names_in(f"They spoke of {title} for long")


def test_names_are_bounded_and_come_once() -> None:
    names = names_in(" ".join(f"Word{n}" for n in range(3000)))
    assert len(names) == MOST_NAMES == len(set(names))
    assert max(len(name.split()) for name in names) == LONGEST_NAME
    assert names_in("Vasa. Vasa") == ("vasa",)


def test_a_lone_surrogate_does_no_harm() -> None:
    assert names_in("Vasa\ud800") == ("vasa?",)
