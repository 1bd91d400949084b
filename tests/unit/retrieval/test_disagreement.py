"""Passages that disagree in a figure, on made cases; and what only looks like it."""

import pytest

from retrieval.disagreement import MOST, disagreements
from retrieval.evidence import Why, evidence
from retrieval.passage import Passage, Scalar

RULE = "Every employee has {} days of annual leave in each calendar year."


def passage(name: str, text: str, title: str = "Leave", document: str = "", **metadata: Scalar) -> Passage:
    return Passage(name, document or name, title, text, metadata=metadata)


def test_one_sentence_with_two_figures_is_a_disagreement() -> None:
    (found,) = disagreements([passage("a", "Welcome. " + RULE.format(30)), passage("b", RULE.format(25) + " Ask.")])
    assert (found.one.id, found.other.id) == ("a", "b")
    assert found.words == (
        "“Every employee has 30 days of annual leave in each calendar year” (Leave), "
        "but “Every employee has 25 days of annual leave in each calendar year” (Leave)"
    )


@pytest.mark.parametrize(
    "rule",
    [
        "{} days of annual leave belong to every employee here",
        "Every employee of the company pays €{}.50 for parking each month",
        "Since 2011. Every employee has between {}-40 days of leave each year.\nAsk.",
        "The company closes its offices every Friday at {}:30",
    ],
)
def test_a_figure_may_stand_anywhere_and_look_like_anything(rule: str) -> None:
    (found,) = disagreements([passage("a", rule.format(30)), passage("b", rule.format(25))])
    assert "30" in found.said
    assert "25" in found.denied


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (RULE.format(30), RULE.format(30)),
        (RULE.format(30), "An employee may take 25 days of leave in a year."),
        ("It has 30 days.", "It has 25 days."),
        (
            "Last updated on 12 March 2024 by somebody from accounting",
            "Last updated on 13 March 2024 by somebody from accounting",
        ),
        ("Page 3 of these guidelines about annual leave", "Page 4 of these guidelines about annual leave"),
        ("The McLaren MP4/10 raced during that whole season", "The McLaren MP4/11 raced during that whole season"),
        ("x" * 300 + " 3 days of annual leave every year", "x" * 300 + " 4 days of annual leave every year"),
        ("No figure stands here at all.", ""),
    ],
)
def test_what_only_looks_like_a_disagreement_is_none(one: str, other: str) -> None:
    assert disagreements([passage("a", one), passage("b", other)]) == ()


def test_other_subjects_and_one_document_do_not_disagree() -> None:
    villages = [passage("a", RULE.format(30), "Middle Rasen"), passage("b", RULE.format(25), "Newton on Trent")]
    assert disagreements(villages) == ()
    untitled = [passage("a", RULE.format(30), ""), passage("b", RULE.format(25), "")]
    assert disagreements(untitled) == ()
    table = [passage("a", RULE.format(30), document="one"), passage("b", RULE.format(25), document="one")]
    assert disagreements(table) == ()


def test_titles_may_differ_by_their_date() -> None:
    years = [passage("a", RULE.format(30), "Leave 2023"), passage("b", RULE.format(25), "Leave 2024")]
    assert len(disagreements(years)) == 1


def test_no_more_are_told_than_anyone_reads() -> None:
    rules = [RULE.replace("annual", word) for word in ("annual", "parental", "special", "unpaid", "sabbatical")]
    found = disagreements(
        [passage("a", " ".join(r.format(1) for r in rules)), passage("b", " ".join(r.format(2) for r in rules))]
    )
    assert len(found) == MOST


def test_the_place_of_a_repeat_goes_to_the_next_that_was_found() -> None:
    other = [
        passage(f"p{n}", f"Something else entirely, number {n}, in words of its own: {'abcdef'[n] * 9}")
        for n in range(5)
    ]
    found = [passage("a", RULE.format(30)), passage("copy", RULE.format(30)), *other]
    clean = evidence((), found, 3)
    assert [each.id for each in clean.kept] == ["a", "p0", "p1"]
    assert clean.count(Why.REPEAT) == 1


def test_what_is_kept_of_the_last_set_takes_no_new_place() -> None:
    kept = [passage("old", "Something that was relevant in the last set.")]
    found = [kept[0], *(passage(f"p{n}", f"{'abcdef'[n] * 9} is another matter", f"T{n}") for n in range(4))]
    assert [each.id for each in evidence(kept, found, 2).kept] == ["old", "p0", "p1"]


def test_what_did_not_make_it_into_the_set_is_not_counted() -> None:
    found = [
        passage("a", "This is the best of all of them, by far.", "One"),
        passage("b", RULE.format(30)),
        passage("c", RULE.format(30)),
        passage("d", RULE.format(25)),
    ]
    clean = evidence((), found, 1)
    assert (len(clean.kept), clean.dropped, clean.conflicts) == (1, (), ())


def test_the_house_outranks_what_contradicts_it_from_outside() -> None:
    house, web = passage("house", RULE.format(30)), passage("web", RULE.format(25), external=True)
    other = passage("wiki", RULE.format(20))
    clean = evidence((), [web, house, other], 5)
    assert [each.id for each in clean.kept] == ["house", "wiki"]
    assert [(each.passage.id, each.why, each.by.id) for each in clean.dropped] == [("web", Why.OUTRANKED, "house")]
    assert [(each.one.id, each.other.id) for each in clean.conflicts] == [("house", "wiki")]
    outside = evidence((), [web, passage("web2", RULE.format(20), external=True)], 5)
    assert (len(outside.kept), len(outside.conflicts)) == (2, 1)
