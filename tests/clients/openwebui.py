"""Open WebUI in a browser, in front of the gateway: five scenarios. Opt-in, `make test-openwebui`: it takes 1 GB and a minute to start."""

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from playwright.async_api import Page, expect

from tests.support.browser import chromium
from tests.support.conversations import (
    FAULT,
    REFUSED,
    SEARCHED_AGAIN,
    assert_nothing_goes_on,
    assert_something_goes_on,
    question,
    text_of,
)
from tests.support.gateway_app import Running
from tests.support.nginx import end, free_port

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(400)]

VENV = Path(os.environ["OPENWEBUI"])  # tests/clients/install_openwebui.sh says it
START_LIMIT_S = 300.0
STEP_LIMIT_MS = 30_000
SETTINGS = {
    "FROM_INIT_PY": "true",
    "WEBUI_AUTH": "False",
    "WEBUI_SECRET_KEY": "any",
    "OFFLINE_MODE": "true",
    "RAG_EMBEDDING_ENGINE": "openai",  # no model of its own is loaded
    "ENABLE_OLLAMA_API": "false",
    "OPENAI_API_KEY": "any",
    "ENABLE_TITLE_GENERATION": "false",
    "ENABLE_TAGS_GENERATION": "false",
    "ENABLE_FOLLOW_UP_GENERATION": "false",
    "ENABLE_AUTOCOMPLETE_GENERATION": "false",
    "ENABLE_SEARCH_QUERY_GENERATION": "false",
    "ENABLE_RETRIEVAL_QUERY_GENERATION": "false",
    "ENABLE_VERSION_UPDATE_CHECK": "false",
    "ANONYMIZED_TELEMETRY": "false",
    "USER_AGENT": "test",
}


@asynccontextmanager
async def open_webui(gateway_url: str, folder: Path) -> AsyncIterator[str]:
    """The address of an Open WebUI that serves inside the block and keeps everything in `folder`."""
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TZ")}
    env = {**kept, **SETTINGS, "HOME": str(folder), "DATA_DIR": str(folder), "OPENAI_API_BASE_URL": f"{gateway_url}/v1"}
    serve = [str(VENV / "bin" / "python"), "-m", "uvicorn", "open_webui.main:app", "--host", "127.0.0.1"]
    with (folder / "log").open("wb") as log:
        async with await anyio.open_process([*serve, "--port", str(port)], env=env, stdout=log, stderr=log) as process:
            try:
                async with httpx2.AsyncClient(trust_env=False, verify=False) as http:
                    with anyio.fail_after(START_LIMIT_S):
                        while not await is_up(http, f"http://127.0.0.1:{port}/health"):
                            assert process.returncode is None, (folder / "log").read_text()[-3000:]
                            await anyio.sleep(0.5)
                yield f"http://127.0.0.1:{port}"
            finally:
                await end(process)


async def is_up(http: httpx2.AsyncClient, url: str) -> bool:
    try:
        return (await http.get(url)).status_code == 200
    except httpx2.TransportError:
        return False


@pytest.fixture(scope="module")
async def page(gateway: Running, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Page]:
    """Open WebUI, opened for the first time."""
    async with open_webui(gateway.base_url, tmp_path_factory.mktemp("openwebui")) as address, chromium() as browser:
        opened = await browser.new_page(base_url=address)
        opened.set_default_timeout(STEP_LIMIT_MS)
        expect.set_options(timeout=STEP_LIMIT_MS)
        await opened.goto("/")
        await opened.get_by_text("Okay, Let's Go!").click()
        yield opened


async def ask(page: Page, scenario: str) -> None:
    """Asks in a chat of its own, as a person does."""
    await page.goto("/?models=gateway")
    await page.locator("#chat-input").click()
    await page.keyboard.insert_text(question(scenario))
    await page.keyboard.press("Enter")


async def test_answer_is_shown_with_its_sources(page: Page) -> None:
    await ask(page, "clean")
    await expect(page.get_by_text(text_of("clean").strip())).to_be_visible()
    await expect(page.get_by_role("button", name=re.compile("3 sources", re.IGNORECASE))).to_be_visible()


async def test_second_search_is_in_the_line_of_status(page: Page) -> None:
    await ask(page, "retry")
    await expect(page.get_by_text(text_of("retry").strip())).to_be_visible()
    await page.get_by_label("Toggle status history").click()
    await expect(page.get_by_text(re.compile(f"the year.*{SEARCHED_AGAIN}"))).to_be_visible()


async def test_refusal_is_read(page: Page) -> None:
    await ask(page, "refusal")
    await expect(page.get_by_text(REFUSED.strip())).to_be_visible()
    await expect(page.get_by_text("Not answered")).to_be_visible()


async def test_fault_is_shown_below_what_was_said(page: Page) -> None:
    await ask(page, "fault")
    await expect(page.get_by_text(FAULT).last).to_be_visible()
    await expect(page.get_by_text("a1d1w7")).to_be_visible()


async def test_stop_cancels_upstream(page: Page, gateway: Running) -> None:
    await ask(page, "stop")
    await expect(page.get_by_text("a1d1w0 ").first).to_be_visible()
    await assert_something_goes_on(gateway)
    await page.get_by_label("Stop", exact=True).click()
    await assert_nothing_goes_on(gateway)
