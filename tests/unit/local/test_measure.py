"""What the local models measure of a set: what is wanted, and single passages of a set that does not convince."""

from dataclasses import astuple

import pytest

from gateway.providers.local.grader import READ_ALONE
from gateway.providers.local.measure import CONVINCES
from grading.evidence import piece
from tests.support.local import GARDEN, passages, shared_models

pytestmark = pytest.mark.anyio

BULBS = "How deep do the bulbs of tulips go, and when are roses pruned?"
NORWAY = "Who was the first king of Norway?"


async def test_only_what_the_signals_are_made_of_is_measured() -> None:
    everything = await shared_models().measure_for(None)(BULBS, GARDEN)
    assert len(everything.clause_logits) == 2
    assert everything.similar
    lead = await shared_models().measure_for(("best_lead",))(BULBS, GARDEN)
    assert (lead.clause_logits, lead.similar) == ((), ())
    assert (lead.whole, lead.logits) == (everything.whole, everything.logits)


async def test_the_likeliest_passages_of_a_set_that_does_not_convince_are_read_alone() -> None:
    found = await shared_models().measure_for(("best_lead",))(NORWAY, GARDEN)
    assert found.whole.lead < CONVINCES
    likeliest = sorted(range(len(GARDEN)), key=lambda place: -(found.logits[place] or 0.0))[:READ_ALONE]
    assert [number for number, _ in found.alone] == [place + 1 for place in likeliest]
    number, alone = found.alone[0]
    passage = GARDEN[number - 1]
    reading = await shared_models().grader.read(NORWAY, [piece(passage.title, passage.text)])
    assert astuple(alone) == astuple(reading)


async def test_nothing_is_read_alone_where_the_set_convinces_or_is_one_passage() -> None:
    measure = shared_models().measure_for(("best_lead",))
    convincing = await measure("When are tulip bulbs planted?", GARDEN[:2])
    assert convincing.whole.lead >= CONVINCES
    assert convincing.alone == ()
    assert (await measure(NORWAY, passages("Ferns grow in shade."))).alone == ()
