"""Tests over real sockets: uvicorn is asyncio's, so is everything here; the loop is the one that `gateway serve` uses."""

import pytest


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}
