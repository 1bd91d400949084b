"""Which sentences of a passage can be quoted, and how they read."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.providers.local.quotes import LONGEST_QUOTE, quotes, shown, unrepeated


def said(text: str, title: str = "") -> list[str]:
    return [quote.shown for quote in quotes(1, text, title)]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Roses need sun. Ferns like shade!", ["Roses need sun.", "Ferns like shade!"]),
        (
            "Dr. Smith met J. R. Brown, e.g. in 1930. It was cold.",
            ["Dr. Smith met J. R. Brown, e.g. in 1930.", "It was cold."],
        ),
        ("A line that\nwraps goes on. Another one follows.", ["A line that wraps goes on.", "Another one follows."]),
        ('It costs 3.5 euros. "Why so?" he asked me.', ["It costs 3.5 euros.", '"Why so?" he asked me.']),
        (
            "- the first item\n  goes on here\n- the second item here",
            ["the first item goes on here", "the second item here"],
        ),
        (
            "1. the first of all\n2) the second of all\n- [x] the third of all",
            ["the first of all", "the second of all", "the third of all"],
        ),
        ("> a quoted line\n> goes on here", ["a quoted line goes on here"]),
        ("See [the long guide](http://x.y/a_(b)) and **all** of `it`.", ["See the long guide and all of `it`."]),
    ],
)
def test_prose_and_lists_are_quoted_by_the_sentence(text: str, sentences: list[str]) -> None:
    assert said(text) == sentences


def test_headings_rules_code_and_diagrams_are_not_quoted() -> None:
    text = """# A heading of words

    indented code is here

Real words stand here.
---
```sh
make something with words
```
~~~
and in these
~~~
question -> retrieve -+-> grade the set ----- verdict -+
                      |                                v
<!-- a comment of words -->
name      what it is      unit of it
"""
    assert said(text) == ["Real words stand here."]


def test_table_rows_read_as_what_they_say_of_their_first_cell() -> None:
    text = "| word | what it means |\n|---|---|\n| gate | decides \\| which | once |\n| ledger | counts all tokens | |"
    assert said(text) == ["gate: decides | which; once", "ledger: counts all tokens"]


def test_rows_that_have_lost_their_frame_are_quoted_one_by_one() -> None:
    text = "gate | decides which of them\nledger | counts all tokens\nspeculate = never | always | adaptive"
    assert said(text) == [
        "gate: decides which of them",
        "ledger: counts all tokens",
        "speculate = never | always | adaptive",
    ]


def test_lines_that_repeat_the_title_are_headings() -> None:
    text = "2. Words we use\n\nThe gate is held until then."
    assert said(text, "Design › 2. Words we use") == ["The gate is held until then."]
    assert said(text) == ["Words we use", "The gate is held until then."]


@pytest.mark.parametrize("text", ["", " \n\t ", "```\n```", "---"])
def test_nothing_to_quote(text: str) -> None:
    assert all(quote.raw.strip() for quote in quotes(1, text))
    assert said(text) in ([], ["---"])


def test_a_passage_of_code_alone_is_quoted_from_its_beginning() -> None:
    assert said("```sh\nmake run DOCS=notes\n```") == ["make run DOCS=notes"]


def test_a_run_without_full_stops_is_parted_at_blanks() -> None:
    text = "word " * 300 + "end."
    found = quotes(1, text.strip())
    assert len(found) > 1
    assert all(len(quote.raw) <= LONGEST_QUOTE and quote.raw.startswith(("word", "end")) for quote in found)
    assert " ".join(quote.raw for quote in found) == text
    assert [quote.shown.endswith("word …") for quote in found] == [True] * (len(found) - 1) + [False]


MARKDOWN = st.lists(st.sampled_from([*"aB1. \n#|-*`>[]()_~", "\n\n", "word", ". A", "```\n", "| "]), max_size=120).map(
    "".join
)


@given(st.one_of(MARKDOWN, st.text(max_size=120)), st.text(max_size=20))
def test_a_quote_is_the_passages_own_words_in_reading_order(text: str, title: str) -> None:
    found = quotes(7, text, title)
    assert all(text[quote.place : quote.place + len(quote.raw)] == quote.raw for quote in found)
    assert all(quote.shown == shown(quote.raw) and quote.n == 7 for quote in found)
    ends = [(quote.place, quote.place + len(quote.raw)) for quote in found]
    assert all(end <= start for (_, end), (start, _) in pairwise(ends))
    assert all("\n" not in quote.shown and len(quote.raw) <= LONGEST_QUOTE for quote in found)


def test_each_wording_is_kept_once_where_it_stands_first() -> None:
    found = unrepeated(quotes(1, "It is so here. It is not so. It is so here!"))
    assert [quote.place for quote in found] == [0, 15]
