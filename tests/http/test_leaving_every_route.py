"""Clients leave at random moments, on every route that answers, by FIN and by RST: nothing of them is left."""

import pytest

from tests.support.gateway_app import Spans, running, scripted_house
from tests.support.leavers import ROUTES, come_and_go
from tests.support.leftovers import assert_nothing_is_left

pytestmark = pytest.mark.anyio

COUNT = 200  # a thousand: `python -m tests.bench.leavers`


async def test_clients_that_leave_at_random_moments_leave_nothing_behind_on_any_route() -> None:
    spans = Spans()
    async with running(scripted_house(processors=[spans])) as server:
        readers = await come_and_go(server.port, COUNT, seed=4)
        await assert_nothing_is_left(server, spans)
    assert readers >= COUNT / 2
    asked = {
        str(span.attributes["http.route"])
        for span in spans.ended
        if span.attributes and "http.route" in span.attributes
    }
    assert asked == {route.path for route in ROUTES}
