"""Where the sentences of an answer end, what they cite, and that nothing is lost, however the text is divided into pieces."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.ports import Cited, Piece, Stopped, StopReason, Text, Usage
from streaming.sentences import LONGEST_CHARACTERS, Sentence, Sentences


def cut(*pieces: Piece | str) -> list[Sentence]:
    sentences = Sentences()
    said = tuple(Text(p) if isinstance(p, str) else p for p in pieces)
    return [*sentences.add(said), *sentences.rest()]


def texts(*pieces: Piece | str) -> list[str]:
    return [sentence.text for sentence in cut(*pieces)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["The bulbs are planted in October. ", "They go fifteen centimetres deep."],
        ["It costs 3.14 euros or 1,000.50 dollars. ", "Version 2.10.1 is cheaper."],
        ["See e.g. the manual, i.e. chapter 3. ", "Dr. J. R. Smith of the U.S. Army wrote it."],
        ["It is in Fig. 3 on pp. 4 of No. 5. ", "That was on Jan. 3 of that year."],
        ["The last answer was no. ", "The price is not stated."],
        ["Is it really so? ", "It is said to be! ", "Nobody knows for sure…"],
        ["He said “it is so.” ", "She said (it is not.) ", "**Both are cited.**[1][2] ", "Nothing more is known."],
        ["There are two of them:\n- the first is red\n", "- the second is blue\n"],
        ["1. The first step is this.\n", "2. The second step is that.\n", "3. There is no third step."],
        ["## What it is\n\nIt is a kind of gate.\n\n", "It holds what is drafted."],
        ["Run this:\n\n```sh\nmake run. Then wait\nmake stop\n```\n", "It then stops by itself."],
        ["我们在春天种花。", "他们说：“这是真的。”", "真的吗？", "是的！没有别的。"],
        ["価格は五百円です。 ", "安いですね。"],
        ["यह एक फूल है। ", "वह लाल रंग का है।"],
        ["It needs approx. five hours etc. and then it is done. ", "That is all of it."],
        ["Yes. It does need sun. ", "No. 5 does not need it."],
        ["The answer is 42."],
        ["42."],
        ["| term | what it means |\n", "|---|---|\n| gate | what holds drafts |\n", "| grade | what opens it |"],
    ],
)
def test_sentences_end_where_a_reader_ends_them(sentences: list[str]) -> None:
    assert texts("".join(sentences)) == sentences
    assert texts(*"".join(sentences)) == sentences, "sign by sign"


def test_a_sentence_is_complete_as_soon_as_the_next_begins_and_not_before() -> None:
    sentences = Sentences()
    assert sentences.add((Text("Roses need sun."),)) == []
    assert sentences.add((Text(" "),)) == []
    assert [s.text for s in sentences.add((Text("F"),))] == ["Roses need sun. "]
    assert [s.text for s in sentences.rest()] == ["F"]
    assert sentences.rest() == []


def test_a_citation_goes_with_its_sentence_also_when_white_space_comes_after_it() -> None:
    first, second = cut("Roses need sun.", Cited(2, 0, 15), " Ferns do not.", Cited(1, 15, 29), Cited(1, 15, 29))
    assert (first.text, first.cited) == ("Roses need sun. ", (2,))
    assert (second.text, second.cited) == ("Ferns do not.", (1,))


def test_a_citation_that_comes_late_goes_with_the_sentence_being_said() -> None:
    first, second = cut("Roses need sun. Ferns do not.", Cited(1, 0, 29))
    assert (first.cited, second.cited) == ((), (1,))


def test_what_is_no_claim_about_the_world_needs_no_check() -> None:
    preamble, claim, rule = cut(Text("Quoted from your documents.\n\n", is_claim=False), "It is so indeed.\n", "---")
    assert [preamble.is_claim, claim.is_claim, rule.is_claim] == [False, True, False]


def test_a_stop_alone_is_a_sentence_without_text() -> None:
    (only,) = cut(Stopped(StopReason.END))
    assert (only.text, only.is_claim, only.pieces) == ("", False, (Stopped(StopReason.END),))


def test_a_run_without_an_end_is_cut_at_a_blank() -> None:
    endless = "word " * 1_000
    sentences = cut(endless)
    assert "".join(s.text for s in sentences) == endless
    assert all(len(s.text) <= LONGEST_CHARACTERS for s in sentences)
    assert all(s.text.endswith(" ") for s in sentences)
    assert [len(s.text) for s in cut("x" * 4_100)] == [2_000, 2_000, 100]


def test_code_that_is_cut_for_its_length_stays_code() -> None:
    code = "```\n" + "do this. Then that\n" * 150 + "```\n"
    sentences = texts(code + "That is all there is. It ends here.")
    assert sentences[-2:] == ["That is all there is. ", "It ends here."]
    assert len(sentences) == 4


ENDS = [". ", ".", "! ", "? ", "\n", "\n\n", "。", "？", "”", "[1]", "1. ", "3.14", "e.g. ", "Dr. ", "No. ", "5", ":\n"]
WORDS = [
    "```\n",
    "# ",
    "- ",
    " ",
    "a",
    "A b c ",
    "word ",
    "Word ",
    "是",
    "é",
    "𝄞",
    "\r\n",
    "\u2028",
    "x" * 700,
    "y " * 400,
]
SCRAPS = st.sampled_from(ENDS + WORDS)
ANSWERS = st.lists(SCRAPS | st.text(max_size=5), max_size=25).map("".join)


@st.composite
def divided(draw: st.DrawFn) -> tuple[str, list[Piece]]:
    """An answer, and the same answer as pieces with citations and counts between them."""
    text = draw(ANSWERS)
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    pieces: list[Piece] = []
    for start, end in zip([0, *places], [*places, len(text)], strict=True):
        pieces.append(Text(text[start:end], draw(st.booleans())))
        if draw(st.booleans()):
            pieces.append(Cited(1, start, end) if draw(st.booleans()) else Usage(1, end))
    return text, pieces


@given(divided())
def test_nothing_is_lost_moved_or_divided_otherwise_than_the_whole(case: tuple[str, list[Piece]]) -> None:
    text, pieces = case
    sentences = cut(*pieces)
    assert "".join(s.text for s in sentences) == text
    assert [s.text for s in sentences if s.text] == texts(text) if text else True
    assert [s.start for s in sentences] == [0, *(s.end for s in sentences)][: len(sentences)]
    assert all(text[s.start : s.end] == s.text for s in sentences)
    assert all(len(s.text) <= LONGEST_CHARACTERS for s in sentences)
    others = [p for p in pieces if not isinstance(p, Text)]
    assert [p for s in sentences for p in s.pieces if not isinstance(p, Text)] == others
    marks = [p.is_claim for p in pieces if isinstance(p, Text) for _ in p.text]
    assert [p.is_claim for s in sentences for p in s.pieces if isinstance(p, Text) for _ in p.text] == marks


@given(divided())
def test_a_citation_never_comes_before_the_text_it_covers(case: tuple[str, list[Piece]]) -> None:
    said = 0
    for sentence in cut(*case[1]):
        for piece in sentence.pieces:
            said += len(piece.text) if isinstance(piece, Text) else 0
            assert not isinstance(piece, Cited) or piece.end <= said


def test_a_run_of_stops_without_an_end_is_looked_at_once() -> None:
    """Every other answer waits meanwhile."""
    began_s, sentences = time.process_time(), Sentences()
    for _ in range(500):
        sentences.add((Text("!!!!!!!!"),))
    assert "".join(each.text for each in sentences.rest()) != ""
    assert time.process_time() - began_s < 5
