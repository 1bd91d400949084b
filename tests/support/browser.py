"""Headless Chromium, and a visit to the page in it."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.async_api import Browser, ConsoleMessage, Error, Locator, Page, Request, async_playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW = "no Chromium on this machine: `make browser` installs one"
QUIET = (  # what Chromium would do on its own, and a sandbox that a container's root cannot have
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
STEP_LIMIT_MS = 15_000  # of each thing that is waited for; a busy machine needs a tenth of it
RUNS = "() => !document.querySelector('#composer') || document.documentElement.classList.contains('runs')"
EXPECTED = "Failed to load resource"  # the console's note of an error status, which the page shows by itself


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """One browser process, ended with the block. Skips the test where there is none and says how to get one; in CI that is a failure."""
    program = next(
        filter(None, map(shutil.which, NAMES)), None
    )  # else the build that Playwright keeps in the user's cache
    async with async_playwright() as playwright:
        try:
            browser = await playwright.chromium.launch(executable_path=program, args=QUIET)
        except Error as error:
            if "Executable doesn't exist" not in error.message:
                raise
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(HOW)
        try:
            yield browser
        finally:
            await browser.close()


@dataclass(slots=True)
class Visit:
    """A person at the page. `faults` are what the page should never do: errors of scripts, breaches of the policy."""

    page: Page
    faults: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    @property
    def turn(self) -> Locator:
        """The latest turn."""
        return self.page.locator(".turn").last

    async def ask(self, question: str) -> None:
        """Types a question and sends it."""
        await self.page.fill("#question", question)
        await self.page.press("#question", "Enter")

    async def ended(self) -> Locator:
        """The latest turn, once nothing more comes."""
        await self.page.wait_for_selector('.turn:last-child[aria-busy="false"]')
        return self.turn

    async def asked(self, question: str) -> Locator:
        """As `ask` and then `ended`."""
        await self.ask(question)
        return await self.ended()

    async def run(self, script: str, argument: Any = None) -> Any:
        """What a function of JavaScript returns on the page."""
        return await self.page.evaluate(script, argument)

    def note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(EXPECTED):
            self.faults.append(message.text)


@asynccontextmanager
async def visit(browser: Browser, url: str, path: str = "/", **context: Any) -> AsyncIterator[Visit]:
    """The page of the gateway at `url`, opened as a new visitor does; at the end it must have done nothing it should not."""
    private = await browser.new_context(**context)
    private.set_default_timeout(STEP_LIMIT_MS)
    page = await private.new_page()
    visitor = Visit(page)
    page.on("pageerror", lambda error: visitor.faults.append(str(error)))
    page.on("console", lambda message: visitor.note(message))
    page.on("request", lambda request: visitor.requests.append(request))
    try:
        await page.goto(url + path)
        await page.wait_for_function(RUNS)
        yield visitor
    finally:
        await private.close()
    assert visitor.faults == []
    assert [request.url for request in visitor.requests if not request.url.startswith((url, "blob:"))] == []
