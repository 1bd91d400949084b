"""The page as a person uses it: a question, what is being done about it, and each of the ways in which it ends."""

import json
from dataclasses import dataclass, replace

import pytest
from playwright.async_api import Browser, expect

from gateway.access.keys import Keys
from gateway.providers.scripted import ScriptedGenerator
from retrieval.passage import Passage
from retrieval.store import StoredPassage
from tests.support.browser import visit
from tests.support.fakes import FakeRetriever
from tests.support.gateway_app import eventually, running, scripted_house, with_parts

pytestmark = pytest.mark.anyio

SLOW = "retrieve_ms=300 grade_ms=300"


async def test_an_answer_is_shown_with_its_sources_and_a_citation_opens_its_passage(browser: Browser) -> None:
    async with running(scripted_house()) as server, visit(browser, server.base_url) as visitor:
        turn = await visitor.asked("Where is it?")
        assert "a1d1w0 a1d1w1" in await turn.locator(".answer").inner_text()
        assert await turn.locator(".line").inner_text() == "Checked before you saw it"
        assert await turn.locator(".source .title").all_inner_texts() == ["Search 1"] * 2
        chip = turn.locator(".cite").first
        assert await chip.get_attribute("aria-label") == "Source 1: Search 1"
        await chip.press("Enter")
        sheet = visitor.page.get_by_role("dialog")
        assert "Scripted passage 1 of search 1" in await sheet.inner_text()
        await visitor.page.keyboard.press("Escape")
        await expect(sheet).to_have_count(0)
        await expect(chip).to_be_focused()


HEADLINES = """() => {
    window.lines = [];
    new MutationObserver(() => {
        const line = document.querySelector(".turn:last-child .line")?.textContent;
        if (line && line !== window.lines.at(-1)) window.lines.push(line);
    }).observe(document.querySelector("#thread"), { childList: true, subtree: true, characterData: true });
}"""


async def test_a_search_that_is_corrected_is_shown_as_it_happens_and_nothing_of_the_discarded_draft(
    browser: Browser,
) -> None:
    async with running(scripted_house()) as server, visit(browser, server.base_url) as visitor:
        await visitor.run(HEADLINES)
        turn = await visitor.asked(f'Is it? [[verdict=insufficient,sufficient missing="the price" {SLOW}]]')
        lines = await visitor.run("() => window.lines")
        assert "Checking whether what was found answers it" in lines
        assert "Found nothing on “the price (search 1)”. Searching again" in lines
        assert lines[-1] == "Found at search 2, after checking"
        answer = await turn.locator(".answer").inner_text()
        assert "a2d1w0" in answer
        assert "a1" not in answer
        await turn.locator("summary").click()
        steps = await turn.locator(".steps li").all_inner_texts()
        assert steps[1] == "Found nothing on “the price (search 1)”"
        assert steps[2].startswith("Searching again for “")


@dataclass(frozen=True, slots=True)
class Shelved:
    """Passages whole (gateway.uploads.passages.Passages)."""

    text: str

    async def passage(self, passage_id: str, tenant: str) -> StoredPassage:
        return StoredPassage(passage_id, "doc", "Title 1", None, self.text, "default")


async def test_a_source_that_came_in_short_is_opened_whole(browser: Browser) -> None:
    long = "Tea\n\nGreen tea is steeped at eighty degrees. " * 12 + "Never longer."
    found = Passage("a:0", "a", "Tea", long)
    house = with_parts(scripted_house(), retriever=FakeRetriever([(0.0, (found,))]))
    async with (
        running(replace(house, passages=Shelved(long))) as server,
        visit(browser, server.base_url) as visitor,
    ):
        turn = await visitor.asked("Where is it? [[tokens=4]]")
        await turn.locator(".source").click()
        await expect(visitor.page.get_by_role("dialog").locator("blockquote")).to_contain_text("Never longer.")
        assert (await visitor.page.get_by_role("dialog").locator("blockquote").inner_text()).startswith(
            "Green"
        )  # the title says Tea
        (asked,) = [request.url for request in visitor.requests if "/v1/passages/" in request.url]
        assert asked.endswith("/v1/passages/a%3A0")


async def test_a_refusal_cannot_be_taken_for_an_answer_and_names_the_nearest_passages(browser: Browser) -> None:
    async with running(scripted_house()) as server, visit(browser, server.base_url) as visitor:
        turn = await visitor.asked('Is it? [[verdict=insufficient missing="the price"]]')
        card = turn.get_by_role("region", name="No answer")
        assert await card.locator("h3").inner_text() == "Your documents do not answer this"
        assert await card.locator(".nearest .title").all_inner_texts() == ["Search 2"] * 3
        assert await card.locator(".tag").inner_text() == "not an answer"
        assert await turn.locator(".answer").inner_text() == ""
        assert await turn.locator(".source, .copy:visible").count() == 0
        await expect(visitor.page.locator("#said")).to_contain_text("No answer.")


@pytest.mark.parametrize("way", ["button", "Escape"])
async def test_stopping_keeps_what_was_shown_and_ends_the_work_upstream(browser: Browser, way: str) -> None:
    house = scripted_house()
    generator = house.parts.generator
    assert isinstance(generator, ScriptedGenerator)
    async with running(house) as server, visit(browser, server.base_url) as visitor:
        await visitor.ask("Where is it? [[tps=20 tokens=1000]]")
        await expect(visitor.turn.locator(".answer")).to_contain_text("a1d1w3")
        assert generator.open_drafts == 1
        if way == "button":
            await visitor.page.get_by_role("button", name="Stop").click()
        else:
            await visitor.page.keyboard.press("Escape")
        await eventually(lambda: generator.open_drafts == 0 and house.open_answers.count == 0)
        turn = await visitor.ended()
        assert await turn.locator(".line").inner_text() == "Stopped by you"
        assert "a1d1w3" in await turn.locator(".answer").inner_text()
        assert await turn.locator(".note").inner_text() == "You stopped this answer; it is not complete."
        await expect(visitor.page.get_by_role("button", name="Send")).to_be_disabled()


async def test_a_question_stopped_before_its_answer_begins_is_stopped_too(browser: Browser) -> None:
    house = scripted_house()
    async with running(house) as server, visit(browser, server.base_url) as visitor:
        await visitor.ask("Where is it? [[retrieve_ms=60000]]")
        await expect(visitor.turn.locator(".line")).to_have_text("Searching your documents")
        await visitor.page.keyboard.press("Escape")
        await eventually(lambda: house.open_answers.count == 0)
        assert await (await visitor.ended()).locator(".line").inner_text() == "Stopped by you"


async def test_an_answer_that_breaks_off_says_so_below_what_came(browser: Browser) -> None:
    async with running(scripted_house()) as server, visit(browser, server.base_url) as visitor:
        turn = await visitor.asked("Where is it? [[fault=cut@8 tokens=20 grade_ms=1 ttft_ms=5 tps=40]]")
        assert "a1d1w0" in await turn.locator(".answer").inner_text()
        card = turn.get_by_role("region", name="Fault")
        assert await card.locator("h3").inner_text() == "The answer broke off"
        assert await turn.get_by_role("region", name="No answer").count() == 0


async def test_a_question_that_the_server_does_not_take_is_told_with_the_reason(browser: Browser) -> None:
    async with (
        running(scripted_house()) as server,
        visit(browser, server.base_url, "/?collection=%E2%80%AE") as visitor,
    ):
        turn = await visitor.asked("Where is it?")
        assert "collection" in await turn.get_by_role("region", name="Fault").inner_text()


async def test_sentences_that_no_source_says_are_marked_where_they_stand(browser: Browser) -> None:
    async with running(scripted_house()) as server, visit(browser, server.base_url) as visitor:
        await visitor.page.get_by_label("Check each sentence").check()
        turn = await visitor.asked("Where is it? [[tokens=24 sentence=6 cite=6 unsupported=a1d1w7]]")
        assert await turn.locator(".badge").inner_text() == "1 of 4 sentences are not in their sources"
        doubtful = " ".join(await turn.locator(".answer mark").all_inner_texts())
        assert "a1d1w7" in doubtful
        assert "a1d1w5" not in doubtful
        assert "a1d1w12" not in doubtful
        assert await turn.locator(".doubt").count() == 1


async def test_asking_again_takes_the_place_of_the_last_answer_and_copying_gives_the_text_with_its_sources(
    browser: Browser,
) -> None:
    rights = ["clipboard-read", "clipboard-write"]
    async with running(scripted_house()) as server, visit(browser, server.base_url, permissions=rights) as visitor:
        turn = await visitor.asked("Where is it?")
        await turn.get_by_role("button", name="Copy").click()
        await expect(turn.locator(".copy")).to_have_text("Copied")
        copied = await visitor.run("() => navigator.clipboard.readText()")
        assert copied.startswith("a1d1w0 a1d1w1")
        assert copied.endswith("[1] Search 1\n[2] Search 1")
        await turn.get_by_role("button", name="Ask again").click()
        await expect(visitor.page.locator(".turn .answer")).to_contain_text("a1d2w0")
        assert await visitor.page.locator(".turn").count() == 1


async def test_the_next_question_brings_the_conversation_along(browser: Browser) -> None:
    async with running(scripted_house()) as server, visit(browser, server.base_url) as visitor:
        await visitor.asked("Where is it? [[tokens=2]]")
        await visitor.asked("And why? [[tokens=2]]")
        posts = [request.post_data for request in visitor.requests if request.url.endswith("/v1/answers")]
        assert json.loads(posts[-1] or "")["history"] == [
            {"role": "user", "content": "Where is it? [[tokens=2]]"},
            {"role": "assistant", "content": "a1d1w0 a1d1w1 "},
        ]


async def test_conversations_are_kept_in_the_browser_come_back_and_can_be_deleted(browser: Browser) -> None:
    async with running(scripted_house()) as server, visit(browser, server.base_url) as visitor:
        await visitor.asked("Where is it? [[tokens=3]]")
        await visitor.page.click("#new")
        await visitor.asked("Who was it? [[tokens=3]]")
        await visitor.page.reload()
        assert "Who was it?" in await visitor.turn.locator(".question").inner_text()
        assert "a1d1w2" in await visitor.turn.locator(".answer").inner_text()
        assert len(await visitor.page.locator("#chats .chat").all()) == 2
        await visitor.page.locator("#chats .chat").last.click()
        await expect(visitor.turn.locator(".question")).to_contain_text("Where is it?")
        await visitor.page.get_by_role("button", name="Delete Where is it?").click()
        await expect(visitor.page.locator("#chats .chat")).to_have_count(1)
        assert "Where" not in await visitor.run("() => localStorage.getItem('gateway.chats')")
        await visitor.page.click("#clear")
        await visitor.page.click("#clear")
        await expect(visitor.page.locator("#chats .chat")).to_have_count(0)
        assert await visitor.run("() => localStorage.getItem('gateway.chats')") == "[]"


async def test_a_screen_reader_is_told_stages_and_the_whole_answer_once_and_never_each_token(browser: Browser) -> None:
    watch = """() => {
        window.heard = [];
        const region = document.querySelector('[aria-live]');
        new MutationObserver(() => window.heard.push(region.textContent)).observe(region, {childList: true});
        return document.querySelectorAll('[aria-live], [role=status], [role=log], [role=alert]').length;
    }"""
    async with running(scripted_house()) as server, visit(browser, server.base_url) as visitor:
        assert await visitor.run(watch) == 1
        await visitor.asked("Where is it? [[retrieve_ms=600 grade_ms=5 tps=60 tokens=60]]")
        await expect(visitor.page.locator("#said")).to_contain_text("Answer: a1d1w0")
        heard = await visitor.run("() => window.heard")
        assert heard[0] == "Searching your documents"
        assert heard[-1].endswith("5 sources.")
        assert len(heard) <= 4


async def test_a_key_is_asked_for_where_one_is_needed_and_kept_in_the_tab_only(browser: Browser) -> None:
    house = replace(scripted_house(), keys=Keys(("right",)))
    async with running(house) as server, visit(browser, server.base_url) as visitor:
        dialog = visitor.page.get_by_role("dialog")
        for key in ("wrong", "right"):
            await dialog.get_by_label("Key", exact=True).fill(key)
            await dialog.get_by_role("button", name="Use this key").click()
            if key == "wrong":
                await expect(dialog.get_by_text("That key was not accepted.")).to_be_visible()
        await expect(dialog).to_have_count(0)
        turn = await visitor.asked("Where is it?")
        assert "a1d1w0" in await turn.locator(".answer").inner_text()
        assert await visitor.run("() => sessionStorage.getItem('gateway.key')") == "right"
        assert "right" not in await visitor.run("() => JSON.stringify({...localStorage})")


async def test_the_whole_page_can_be_used_with_the_keyboard_alone(browser: Browser) -> None:
    async with running(scripted_house()) as server, visit(browser, server.base_url) as visitor:
        await expect(visitor.page.locator("#question")).to_be_focused()
        await visitor.page.keyboard.type("One line")
        await visitor.page.keyboard.press("Shift+Enter")
        await visitor.page.keyboard.type("and another?")
        await visitor.page.keyboard.press("Enter")
        turn = await visitor.ended()
        assert "One line\nand another?" in await turn.locator(".question").inner_text()
        reached: set[str] = set()
        for _ in range(30):
            await visitor.page.keyboard.press("Shift+Tab")
            focused = await visitor.run("() => `${document.activeElement.className} ${document.activeElement.id}`")
            reached |= set(focused.split())
        assert {"cite", "source", "copy", "again", "new", "theme", "chat"} <= reached
