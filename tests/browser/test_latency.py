"""The latency page: what it shows is what the metrics say; live, on a phone, and for people with assistive technology."""

from importlib.resources import files

import anyio
import pytest
from playwright.async_api import Browser, expect

from tests.support.browser import Visit, visit
from tests.support.clients import ask
from tests.support.gateway_app import Running, eventually, running, scripted_house

pytestmark = pytest.mark.anyio

PHONE = {"width": 360, "height": 740}
QUESTIONS = ("Is it?", "Is it?", "Is it? [[verdict=partial,sufficient]]", "Is it? [[verdict=insufficient]]")


async def asked(server: Running) -> None:
    for question in QUESTIONS:
        await ask(server.base_url, question)
    await eventually(lambda: not server.house.telemetry.metrics.open_answers)


async def figures(visitor: Visit) -> dict[str, str]:
    """How many answers the table counts, by path."""
    rows = await visitor.page.locator("#figures tr:has(td)").all()
    cells = [await row.locator("td").all_inner_texts() for row in rows]
    return {path: count for path, count, *_ in cells}


async def test_it_shows_each_path_on_one_scale_and_where_a_slow_answers_time_went(browser: Browser) -> None:
    async with running(scripted_house()) as server:
        await asked(server)
        async with visit(browser, server.base_url, "/latency") as visitor:
            await expect(visitor.page.locator("#first svg")).to_be_visible()
            assert await figures(visitor) == {"clean": "2", "recovered": "1", "refused": "1", "failure path": "2"}
            first = await visitor.page.locator("#first svg").get_attribute("aria-label")
            assert first is not None
            assert "clean: 2 answers" in first
            assert "refused" not in first, "it has no first byte"
            options = await visitor.page.locator("#slow option").all_inner_texts()
            assert len(options) == 4
            recovered = next(option for option in options if option.startswith("recovered"))
            await visitor.page.select_option("#slow", label=recovered)
            told = await visitor.page.locator("#waterfall svg").get_attribute("aria-label")
            assert told is not None
            for part in (
                "search 1",
                "grade 1",
                "partial",
                "draft 1",
                "discarded",
                "search 2",
                "sufficient",
                "released",
            ):
                assert part in told


async def test_it_is_live(browser: Browser) -> None:
    async with running(scripted_house()) as server, visit(browser, server.base_url, "/latency") as visitor:
        await expect(visitor.page.locator("#first")).to_have_text("No answer yet.")
        await asked(server)
        await expect(visitor.page.locator("#figures")).to_contain_text("recovered")


async def test_a_gateway_that_went_away_is_told_and_found_again(browser: Browser) -> None:
    async with running(scripted_house()) as server, visit(browser, server.base_url, "/latency") as visitor:
        await expect(visitor.page.locator("#state")).to_contain_text("live")
        await visitor.page.route("**/metrics", lambda route: route.abort())
        await expect(visitor.page.locator("#state")).to_contain_text("not reached")
        await visitor.page.unroute("**/metrics")
        await expect(visitor.page.locator("#state")).to_contain_text("live")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_fits_a_phone_and_keeps_nobody_out(browser: Browser, scheme: str) -> None:
    async with running(scripted_house()) as server:
        await asked(server)
        async with visit(browser, server.base_url, "/latency", viewport=PHONE, color_scheme=scheme) as visitor:
            await expect(visitor.page.locator("#waterfall svg")).to_be_visible()
            widths = await visitor.run("() => [document.documentElement.scrollWidth, innerWidth]")
            assert widths[0] <= widths[1]
            await visitor.run((files("axe_playwright_python") / "axe.min.js").read_text())
            result = await visitor.run("() => axe.run({ resultTypes: ['violations'] })")
    assert [one["id"] for one in result["violations"] if one["impact"] in ("serious", "critical")] == []


async def test_slowest_answers_are_figures_without_words() -> None:
    async with running(scripted_house()) as server:
        await asked(server)
        slowest = server.house.telemetry.metrics.slow.slowest()
    assert len(slowest) == 4
    assert [answer["total_s"] for answer in slowest] == sorted((a["total_s"] for a in slowest), reverse=True)  # type: ignore[type-var]
    assert "Is it" not in repr(slowest)
    await anyio.lowlevel.checkpoint()
