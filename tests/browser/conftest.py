"""One browser process and one event loop for each file of tests; a context of its own, as a new visitor has it, for each test.

Not one for the whole session: its loop would be held while tests elsewhere start loops of their own.
"""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from tests.support.browser import chromium


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started
