"""The red team's passages as answers on the page: no picture, no request to anybody, no link but to where http leads."""

import pytest
from playwright.async_api import Browser

from streaming.ports import Stopped, StopReason, Text, Usage
from tests.support.browser import visit
from tests.support.fakes import DraftScript, FakeGenerator
from tests.support.gateway_app import running, scripted_house, with_parts
from tests.support.redteam import POISONS

pytestmark = pytest.mark.anyio

LOOK = """() => ({
    loaded: document.querySelectorAll(
        "img, picture, video, audio, iframe, object, embed, .answer svg, .answer form, .answer link, .answer style, .answer script"
    ).length,
    addresses: [...document.querySelectorAll(".answer *")].flatMap((one) =>
        ["src", "srcset", "href", "data", "action", "poster", "style", "ping"].filter((name) => one.hasAttribute(name))
            .map((name) => [one.tagName, name, one.getAttribute(name)])),
    handlers: [...document.querySelectorAll(".answer *")].flatMap((one) =>
        one.getAttributeNames().filter((name) => name.startsWith("on"))),
})"""


async def test_no_answer_calls_home(browser: Browser) -> None:
    scripts = [DraftScript(((0.0, (Text(poison.text), Stopped(StopReason.END, Usage(10, 10)))),)) for poison in POISONS]
    everything = "\n\n".join(poison.text for poison in POISONS)
    whole = DraftScript(((0.0, (Text(everything), Stopped(StopReason.END, Usage(10, 10)))),))
    markdown = [script for script, poison in zip(scripts, POISONS, strict=True) if "markdown" in poison.kind]
    house = with_parts(scripted_house(), generator=FakeGenerator([whole, *markdown]))
    async with running(house) as server, visit(browser, server.base_url) as visitor:
        for number in range(1 + len(markdown)):
            await visitor.asked(f"Where is number {number}?")
        found = await visitor.run(LOOK)
        assert found["loaded"] == 0
        assert found["handlers"] == []
        assert found["addresses"]
        for tag, name, address in found["addresses"]:
            assert (tag, name) == ("A", "href")
            assert address.startswith(("http://", "https://"))
        assert [one.url for one in visitor.requests if not one.url.startswith(server.base_url)] == []
