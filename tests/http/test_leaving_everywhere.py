"""Clients leave on every route, at random moments, also in the middle of what they send. The long version is `make bench-leaving`."""

import pytest

from tests.bench.leaving import measure

pytestmark = pytest.mark.anyio


@pytest.mark.timeout(150)
async def test_120_connections_that_leave_on_every_route_leave_nothing_behind(database_url: str) -> None:
    figures = await measure(120, seed=11, database_url=database_url, warm_up=40)
    assert figures["more"] == {}
    assert figures["left"]["in the middle of its request"] >= 10
    assert figures["left"]["in the middle of its response"] >= 10
    assert len(figures["asked"]) >= 12
