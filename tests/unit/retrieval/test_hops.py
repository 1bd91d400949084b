"""The second hop, pure."""

from retrieval.hops import HOP_WEIGHT, followed, link, wanted


def test_what_the_best_passage_names_gains_by_its_figure() -> None:
    links = [link("Vasa (ship)", "Built at Skeppsgården in Stockholm.", 0.9), link("Other", "Near Stockholm.", 0.5)]
    assert followed("Skeppsgården", links) == HOP_WEIGHT * 0.9
    assert followed("Stockholm (city)", links) == HOP_WEIGHT * 0.9
    assert followed("Uppsala", links) == 0


def test_a_passage_gains_nothing_by_its_own_name() -> None:
    assert followed("Vasa", [link("Vasa (ship)", "The Vasa sank.", 0.9)]) == 0


def test_a_name_that_many_share_leads_to_none_of_them() -> None:
    links = [link("A", "On Stockholm.", 1.0)]
    assert followed("Stockholm", links, namesakes=100) == HOP_WEIGHT / 10


def test_the_names_of_the_best_are_looked_up_the_best_passage_first() -> None:
    names = wanted([link("A", "Built at Skeppsgården.", 0.9), link("B", "Near Stockholm. At Skeppsgården.", 0.5)])
    assert {"skeppsgården", "stockholm"} <= set(names)
    assert names.index("skeppsgården") < names.index("stockholm")
    assert len(set(names)) == len(names)
