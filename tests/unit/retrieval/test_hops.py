"""The second hop, pure."""

import math

import pytest

from retrieval.hops import HOP_WEIGHT, Gains, link, wanted

NOTHING: frozenset[str] = frozenset()


def test_what_the_best_passage_names_gains_by_its_figure() -> None:
    gains = Gains(
        [link("Vasa (ship)", "Built at Skeppsgården in Stockholm.", 0.9), link("Other", "Near Uppsala.", 0.5)],
        [],
        NOTHING,
    )
    assert gains.of("Skeppsgården") == HOP_WEIGHT * 0.9
    assert gains.of("Stockholm (city)") == HOP_WEIGHT * 0.9
    assert gains.of("Uppsala") == HOP_WEIGHT * 0.5
    assert gains.of("Gothenburg") == gains.of("") == 0


def test_a_passage_gains_nothing_by_its_own_name() -> None:
    assert Gains([link("Vasa (ship)", "The Vasa sank.", 0.9)], [], NOTHING).of("Vasa") == 0


def test_what_the_question_names_is_no_next_step() -> None:
    links = [link("A", "On the Vasa Museum.", 0.9)]
    assert Gains(links, [], frozenset({"the", "vasa", "museum"})).of("Vasa Museum") == 0
    assert Gains(links, [], frozenset({"vasa"})).of("Vasa Museum") > 0


def test_a_name_that_many_share_leads_to_none_of_them() -> None:
    links = [link("A", "On Stockholm.", 1.0)]
    assert Gains(links, ["Stockholm"] * 100, NOTHING).of("Stockholm") == HOP_WEIGHT / 10


def test_what_all_of_the_best_name_is_the_subject_and_no_next_step() -> None:
    links = [link(f"A{n}", "On Stockholm.", 1.0) for n in range(4)]
    assert Gains(links, [], NOTHING).of("Stockholm") == pytest.approx(HOP_WEIGHT / math.sqrt(4))


def test_the_names_of_the_best_are_looked_up_the_best_passage_first() -> None:
    names = wanted([link("A", "Built at Skeppsgården.", 0.9), link("B", "Near Stockholm. At Skeppsgården.", 0.5)])
    assert {"skeppsgården", "stockholm"} <= set(names)
    assert names.index("skeppsgården") < names.index("stockholm")
    assert len(set(names)) == len(names)
