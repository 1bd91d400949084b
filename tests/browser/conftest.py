"""One browser and one event loop for all tests of the page; a context of its own, as a new visitor has it, for each."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from tests.support.browser import chromium


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started
