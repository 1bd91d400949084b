"""Shedding: drafts before their verdict go first, then looking ahead; both before new work."""

from dataclasses import replace

import pytest

from gateway.request import Options
from gateway.settings import read_settings
from gateway.shedding import Shedding, shedding
from gateway.speculation import Speculation, Terms
from tests.support.gateway_app import scripted_house, with_parts


@pytest.mark.parametrize(
    ("answers", "sheds_drafts", "sheds_looking_ahead"),
    [(0, False, False), (4, False, False), (5, True, False), (6, True, False), (7, True, True), (999, True, True)],
)
def test_what_is_left_out_while_so_many_answers_are_open(
    answers: int, sheds_drafts: bool, sheds_looking_ahead: bool
) -> None:
    order = Shedding(drafts_above=4, looking_ahead_above=6)
    assert (order.sheds_drafts(answers), order.sheds_looking_ahead(answers)) == (sheds_drafts, sheds_looking_ahead)


@pytest.mark.parametrize(
    ("most", "busy", "expected"),
    [
        (256, None, (128, 192)),
        (96, 48, (48, 72)),
        (1, None, (1, 1)),
        (2, None, (1, 2)),
        (7, None, (3, 5)),
        (100, 10, (10, 55)),
        (100, 100, (100, 100)),
        (100, 300, (300, 300)),
    ],
)
def test_looking_ahead_goes_half_way_between_drafts_and_new_work(
    most: int, busy: int | None, expected: tuple[int, int]
) -> None:
    order = shedding(most, busy)
    assert (order.drafts_above, order.looking_ahead_above) == expected


def test_without_a_word_half_of_what_is_let_in_is_busy() -> None:
    assert read_settings(max_streams=40).terms().shedding == Shedding(20, 30)
    assert read_settings(max_streams=40, busy_streams=10).terms().shedding == Shedding(10, 25)


@pytest.mark.parametrize(("answers", "is_parallel"), [(6, True), (7, False)])
def test_a_source_that_is_searched_ahead_is_searched_when_needed_under_load(answers: int, is_parallel: bool) -> None:
    (own,) = scripted_house().parts.sources
    house = with_parts(scripted_house(), sources=(own, replace(own, name="web", parallel=True)))
    terms = Terms(shedding=Shedding(drafts_above=4, looking_ahead_above=6))
    house = replace(house, speculation=Speculation("adaptive", terms, answers=lambda: answers))
    assert [one.parallel for one in house.parts_for(Options()).sources] == [False, is_parallel]
