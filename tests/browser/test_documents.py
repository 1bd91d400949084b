"""Documents on the page: dropped or chosen, followed while they are read, listed, removed."""

from collections.abc import Callable, Container
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import anyio
import pytest
from playwright.async_api import Browser, expect

from gateway.house import House
from gateway.uploads.documents import Before, Finished, Reading, Step
from gateway.uploads.upload import Upload
from retrieval.faults import CollectionNotFound, DocumentUnreadable
from retrieval.store import StoredDocument
from tests.support.browser import visit
from tests.support.gateway_app import running, scripted_house

pytestmark = pytest.mark.anyio

DROP = """([names, text]) => {
    const bag = new DataTransfer();
    for (const name of names) bag.items.add(new File([text], name, { type: "text/plain" }));
    const tell = (kind) => document.body.dispatchEvent(
        new DragEvent(kind, { dataTransfer: bag, bubbles: true, cancelable: true }));
    tell("dragenter");
    const isOffered = document.documentElement.classList.contains("takes-drop");
    tell("dragover");
    tell("drop");
    return isOffered;
}"""


@dataclass(slots=True)
class Shelf:
    """Documents in memory (gateway.uploads.documents.Documents); `go` lets the ingest that waits half-way go on."""

    stored: dict[str, StoredDocument] = field(default_factory=dict)
    go: anyio.Event = field(default_factory=anyio.Event)

    async def begin(self, upload: Upload, tenant: str) -> "Placing":
        return Placing(self, upload)

    async def newest(
        self,
        limit: int,
        before: Before | None,
        collection: str,
        tenant: str,
    ) -> tuple[StoredDocument, ...]:
        if not self.stored:
            raise CollectionNotFound("no collection has this name")
        return tuple(self.stored.values())[:limit]

    async def remove(self, document_id: str, tenant: str, within: Container[str] | None) -> bool:
        return self.stored.pop(document_id, None) is not None

    def put(self, name: str, title: str) -> None:
        self.stored[f"doc_{name}"] = StoredDocument(f"doc_{name}", name, title, None, 4, datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class Placing:
    shelf: Shelf
    upload: Upload

    async def run(self, tell: Callable[[Step], None]) -> None:
        for done, document in enumerate(self.upload.documents):
            name, total = document.name, len(self.upload.documents)
            tell(Reading(name, done, total, 1, 4))
            await self.shelf.go.wait()
            if name.startswith("broken"):
                tell(Finished(name, "unreadable", fault=DocumentUnreadable(f"{name}: holds no text")))
                continue
            self.shelf.put(name, f"The {name}")
            tell(Finished(name, "added", f"doc_{name}", f"The {name}", 4))


def house_with(shelf: Shelf) -> House:
    return replace(scripted_house(), documents=shelf)


async def test_dropped_files_are_followed_until_they_can_be_asked_about(browser: Browser) -> None:
    shelf = Shelf()
    async with running(house_with(shelf)) as server, visit(browser, server.base_url) as visitor:
        await expect(visitor.page.locator("#library")).to_contain_text("There are no documents yet.")
        assert await visitor.run(DROP, [["notes.md", "broken.txt"], "# Notes"])
        rows = visitor.page.locator(".sent li")
        await expect(rows.filter(has_text="notes.md")).to_contain_text("reading, 1 of 4 passages")
        assert await rows.filter(has_text="notes.md").locator("progress").get_attribute("value") == "0.25"
        shelf.go.set()
        await expect(rows.filter(has_text="notes.md")).to_contain_text("added, 4 passages")
        await expect(rows.filter(has_text="broken.txt")).to_contain_text("broken.txt: holds no text")
        await expect(visitor.page.locator(".documents .name")).to_have_text(["The notes.md"])
        await expect(visitor.page.locator("#library")).to_contain_text("Ready to answer from The notes.md.")


async def test_a_document_is_removed_only_when_asked_twice(browser: Browser) -> None:
    shelf = Shelf()
    shelf.put("a.md", "About a")
    shelf.put("b.md", "About b")
    async with running(house_with(shelf)) as server, visit(browser, server.base_url) as visitor:
        await visitor.page.click("#open-documents")
        remove = visitor.page.get_by_role("button", name="Remove About a")
        await remove.click()
        await expect(remove).to_have_text("Really remove?")
        assert len(shelf.stored) == 2
        await remove.click()
        await expect(visitor.page.locator(".documents .name")).to_have_text(["About b"])


async def test_chosen_files_are_sent_by_their_names(browser: Browser) -> None:
    shelf = Shelf()
    shelf.go.set()
    async with running(house_with(shelf)) as server, visit(browser, server.base_url) as visitor:
        await visitor.page.click("#open-documents")
        files = [{"name": f"ä {n}.txt", "mimeType": "text/plain", "buffer": b"x"} for n in range(3)]
        await visitor.page.locator("input[type=file]").set_input_files(files)  # type: ignore[arg-type]
        await expect(visitor.page.locator(".documents li")).to_have_count(3)
        assert {one.source for one in shelf.stored.values()} == {f"ä {n}.txt" for n in range(3)}


async def test_a_gateway_without_documents_says_so_and_still_answers(browser: Browser) -> None:
    async with running(scripted_house()) as server, visit(browser, server.base_url) as visitor:
        await visitor.run(DROP, [["notes.md"], "x"])
        await expect(visitor.page.locator(".sent li")).to_contain_text("this gateway has no database for documents")
        await visitor.page.keyboard.press("Escape")
        assert "a1d1w0" in await (await visitor.asked("Where?")).locator(".answer").inner_text()
