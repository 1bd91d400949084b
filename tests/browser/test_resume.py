"""The page when the network is not there: an answer goes on where it stopped, and what cannot go on is told."""

from dataclasses import replace

import anyio
import pytest
from anyio import abc
from playwright.async_api import Browser, Route, expect

from gateway.keeping.keeper import open_keeper
from gateway.providers.script import Script
from gateway.providers.scripted import ScriptedGenerator
from tests.support.browser import visit
from tests.support.clients import client
from tests.support.gateway_app import eventually, running, scripted_house
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.anyio

QUESTION = "Where is it? [[retrieve_ms=1 grade_ms=1 ttft_ms=5 tps=60 tokens=90]]"
WHOLE = Script.parse(QUESTION).words(1)


class Line(TcpProxy):
    """The network between page and gateway; while it is cut there is no way through."""

    def __init__(self, port: int) -> None:
        super().__init__(lambda: anyio.connect_tcp("127.0.0.1", port))
        self.is_cut = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def cut(self) -> None:
        """Breaks every connection and lets none through until `is_cut` is False again."""
        self.is_cut = True
        for stream in tuple(self._open):
            await stream.aclose()

    async def _serve(self, client: abc.ByteStream) -> None:
        if self.is_cut:
            await client.aclose()
            return
        await super()._serve(client)


async def test_an_answer_cut_off_by_the_network_goes_on_where_it_stopped(browser: Browser) -> None:
    house = scripted_house()
    generator = house.parts.generator
    assert isinstance(generator, ScriptedGenerator)
    async with running(house) as server, Line(server.port) as line, visit(browser, line.url) as visitor:
        await visitor.ask(QUESTION)
        await expect(visitor.turn.locator(".answer")).to_contain_text("a1d1w9")
        await line.cut()
        await expect(visitor.turn.locator(".line")).to_have_text("Connection lost, taking the answer up again")
        line.is_cut = False
        turn = await visitor.ended()
        await turn.locator(".cite").evaluate_all("(chips) => chips.forEach((chip) => chip.remove())")
        assert (await turn.locator(".answer").inner_text()).split() == [word.strip() for word in WHOLE]
        assert await turn.locator(".line").inner_text() == "Checked before you saw it"


async def test_a_page_that_is_loaded_anew_takes_its_answer_up_again(browser: Browser) -> None:
    async with running(scripted_house()) as server, visit(browser, server.base_url) as visitor:
        await visitor.ask(QUESTION)
        await expect(visitor.turn.locator(".answer")).to_contain_text("a1d1w9")
        await visitor.page.reload()
        turn = await visitor.ended()
        await turn.locator(".cite").evaluate_all("(chips) => chips.forEach((chip) => chip.remove())")
        assert (await turn.locator(".answer").inner_text()).split() == [word.strip() for word in WHOLE]


async def test_an_answer_that_is_not_there_any_more_when_the_network_is_back_is_told_to_be_lost(
    browser: Browser,
) -> None:
    async with (
        open_keeper() as keeper,
        running(replace(scripted_house(), keeper=keeper)) as server,
        Line(server.port) as line,
        visit(browser, line.url) as visitor,
        client(server.base_url) as http,
    ):
        await visitor.ask(QUESTION.replace("tokens=90", "tokens=2000"))
        await expect(visitor.turn.locator(".answer")).to_contain_text("a1d1w9")
        await line.cut()
        (answer_id,) = keeper._kept
        assert (await http.delete(f"/v1/answers/{answer_id}")).status_code == 204
        await eventually(lambda: keeper.count == 0)
        line.is_cut = False
        turn = await visitor.ended()
        assert await turn.locator(".line").inner_text() == "The connection was lost"
        assert "a1d1w9" in await turn.locator(".answer").inner_text()
        assert await turn.get_by_role("button", name="Ask again").is_visible()


async def test_a_server_that_keeps_no_answers_is_asked_without(browser: Browser) -> None:
    async with running(scripted_house()) as server, visit(browser, server.base_url) as visitor:
        field = {"path": "options.resumable", "message": "Extra inputs are not permitted"}
        posts: list[str] = []

        async def older(route: Route) -> None:
            posts.append(route.request.post_data or "")
            if "resumable" in posts[-1]:
                await route.fulfill(
                    status=422, json={"error": {"type": "invalid_request", "message": "no", "fields": [field]}}
                )
            else:
                await route.continue_()

        await visitor.page.route("**/v1/answers", older)
        for _ in range(2):
            assert "w0" in await (await visitor.asked("Where is it? [[tokens=4]]")).locator(".answer").inner_text()
            await visitor.page.click("#new")
        assert ["resumable" in post for post in posts] == [True, False, False]


async def test_a_question_whose_post_is_lost_is_posted_again_and_answered_once(browser: Browser) -> None:
    house = scripted_house()
    async with running(house) as server, Line(server.port) as line, visit(browser, line.url) as visitor:
        await visitor.page.wait_for_load_state("networkidle")
        await line.cut()
        async with visitor.page.expect_event("requestfailed"):
            await visitor.ask("Where is it? [[tokens=4]]")
        line.is_cut = False
        turn = await visitor.ended()
        assert "w3" in await turn.locator(".answer").inner_text()
        keys = {
            request.headers["idempotency-key"]
            for request in visitor.requests
            if request.url.endswith("/v1/answers") and request.method == "POST"
        }
        assert len(keys) == 1
