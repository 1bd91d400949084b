"""Repeats, versions and authority, on made cases."""

from retrieval.evidence import (
    Why,
    authority,
    by_authority,
    cleaned,
    independent_sources,
    without_outdated,
    without_repeats,
)
from retrieval.passage import Passage, Scalar

TEXT = (
    "Annual leave is twenty-five days a year. It is requested in the portal at least two weeks ahead. "
    "Days that are left over lapse at the end of March of the following year."
)


def passage(name: str, text: str = TEXT, title: str = "Leave", document: str = "", **metadata: Scalar) -> Passage:
    return Passage(name, document or name, title, text, metadata=metadata)


def ids(passages: tuple[Passage, ...]) -> list[str]:
    return [one.id for one in passages]


def test_of_copies_the_first_is_kept() -> None:
    found = without_repeats(
        [passage("a"), passage("b", TEXT.replace("Annual", "The annual")), passage("c", "Sick leave.")]
    )
    assert ids(found.kept) == ["a", "c"]
    assert [(one.passage.id, one.why, one.by.id) for one in found.dropped] == [("b", Why.REPEAT, "a")]


def test_a_piece_of_a_passage_repeats_it() -> None:
    assert ids(without_repeats([passage("a"), passage("b", TEXT[41:97])]).kept) == ["a"]


def test_neighbours_that_overlap_by_a_sentence_are_two() -> None:
    neighbour = (
        "Days that are left over lapse at the end of March of the following year. "
        + "Others may be paid out on leaving. " * 4
    )
    assert ids(without_repeats([passage("a"), passage("b", neighbour)]).kept) == ["a", "b"]


def test_short_texts_of_other_words_are_no_repeats() -> None:
    assert ids(
        without_repeats([passage("a", "Yes."), passage("b", "No."), passage("c", ""), passage("d", "")]).kept
    ) == ["a", "b", "c"]


def test_five_pieces_of_one_source_are_one_source() -> None:
    pieces = [passage(f"p{n}", f"Piece {n} speaks of {n} other things entirely", document="one") for n in range(5)]
    assert independent_sources(pieces) == 1
    assert independent_sources([*pieces, passage("else", "A wholly different text of its own")]) == 2
    assert independent_sources([passage("a"), passage("copy of a")]) == 1


def test_the_newest_version_stays_wherever_it_ranks() -> None:
    old = passage("old", TEXT.replace("twenty-five", "twenty"), version="1.9")
    new = passage("new", version="1.10")
    found = without_outdated([old, passage("other", "Nothing alike", title="Travel", version="0.1"), new])
    assert ids(found.kept) == ["other", "new"]
    assert [(one.passage.id, one.why, one.by.id) for one in found.dropped] == [("old", Why.OUTDATED, "new")]


def test_dates_tell_versions_apart_and_titles_may_carry_them() -> None:
    old = passage("old", TEXT, title="Leave policy 2023", updated="2023-01-15")
    new = passage("new", TEXT.replace("twenty-five", "thirty"), title="Leave policy 2024", updated="2024-01-15")
    assert ids(without_outdated([old, new]).kept) == ["new"]
    assert ids(without_outdated([new, old]).kept) == ["new"]


def test_two_sections_of_one_version_and_two_titles_are_kept() -> None:
    same = [passage("a", version="2"), passage("b", "Sick leave is paid for six weeks.", version="2")]
    assert ids(without_outdated(same).kept) == ["a", "b"]
    other = [passage("a", version="2"), passage("b", title="Leave in Spain", version="1")]
    assert ids(without_outdated(other).kept) == ["a", "b"]


def test_a_passage_without_date_or_version_is_never_outdated() -> None:
    assert ids(without_outdated([passage("a"), passage("b", version="3")]).kept) == ["a", "b"]


def test_different_subjects_of_one_title_are_no_versions() -> None:
    news = [passage("a", "The merger was called off by the board on Monday.", date="2024-05-01")]
    news.append(passage("b", "Quarterly profits rose to nine millions thanks to exports.", date="2024-06-01"))
    assert ids(without_outdated(news).kept) == ["a", "b"]


def test_cleaning_leaves_the_newest_once() -> None:
    found = cleaned([passage("old", version="1"), passage("new", version="2"), passage("copy", version="2")])
    assert ids(found.kept) == ["new"]
    assert {one.passage.id: one.why for one in found.dropped} == {"old": Why.OUTDATED, "copy": Why.REPEAT}


def test_weightier_sources_come_first_and_ranks_keep_their_order() -> None:
    mixed = [
        passage("web", authority=-1),
        passage("wiki"),
        passage("policy", authority="policy"),
        passage("wiki 2", authority=0),
    ]
    assert ids(by_authority(mixed, {"policy": 5})) == ["policy", "wiki", "wiki 2", "web"]
    assert authority(passage("unknown", authority="rumour")) == 0
