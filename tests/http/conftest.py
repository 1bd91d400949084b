"""Tests over real sockets: uvicorn is asyncio's, so is everything here; the loop is the one that `gateway serve` uses."""

from collections.abc import AsyncIterator

import pytest

from tests.support.tenants import Tenants, two_tenants


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def tenants(database_url: str) -> AsyncIterator[Tenants]:
    """Two of them on one database, each with passages of its own."""
    async with two_tenants(database_url) as both:
        yield both
