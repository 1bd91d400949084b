"""Takes the pictures of the page that the documents show: `python -m tests.browser.pictures FOLDER`."""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import anyio
from playwright.async_api import Browser, expect

from gateway.house import House
from grading.grade import Grade, Verdict
from retrieval.passage import Passage
from streaming.ports import Cited, Piece, Stopped, StopReason, Text, Usage
from tests.browser.test_documents import Shelf
from tests.support.browser import Visit, chromium, visit
from tests.support.fakes import DraftScript, FakeGenerator, FakeGrader, FakeRetriever, FakeVerifier
from tests.support.gateway_app import running, scripted_house, with_parts

Scheme = Literal["light", "dark"]
WIDE = {"width": 1160, "height": 760}
PHONE = {"width": 390, "height": 780}

PASSAGES = (
    Passage(
        "a:1",
        "a",
        "Leave handbook › Parental leave",
        "Each parent may take up to twelve months. It is applied for in writing, seven weeks before it begins, and may be split into "
        "three parts.",
        url="https://handbook.example/leave",
        score=0.91,
    ),
    Passage(
        "b:4",
        "b",
        "Payroll guide › During leave",
        "No salary is paid during parental leave. Employer pension contributions continue for the first six months.",
        url="https://handbook.example/payroll",
        score=0.84,
    ),
    Passage(
        "c:2",
        "c",
        "Holiday policy",
        "Unused holiday from before parental leave does not expire; it is carried into the year of return.",
        score=0.77,
    ),
)
ANSWER = (
    ("Up to **twelve months for each parent**, taken in at most three parts.", 1),
    ("\n\nApply in writing, *seven weeks* before it begins.", 1),
    (" While you are away:\n\n- no salary is paid,", 2),
    ("\n- pension contributions go on for six months,", 2),
    ("\n- holiday that you had left stays yours until the year you return.", 3),
)
QUESTION = "How much parental leave can I take, and what happens to my pension meanwhile?"
LACKING = "the dress code at client sites"


@dataclass(frozen=True, slots=True)
class Scene:
    """What one picture shows: a question and the verdicts on what is found for it."""

    question: str
    verdicts: tuple[Verdict, ...]
    missing: str | None = None

    def house(self) -> House:
        said: list[Piece] = []
        for text, n in ANSWER:
            start = sum(len(piece.text) for piece in said if isinstance(piece, Text))
            said += [Text(text), Cited(n, start + len(text) - len(text.lstrip()), start + len(text))]
        draft = DraftScript(((0.05, tuple(said)), (0.0, (Stopped(StopReason.END, Usage(900, 80)),))))
        grades = [
            (0.9, Grade(verdict, missing=None if verdict is Verdict.SUFFICIENT else self.missing, relevant=(1, 2, 3)))
            for verdict in self.verdicts
        ]
        shelf = Shelf()
        for name, title in (
            ("leave.md", "Leave handbook"),
            ("payroll.md", "Payroll guide"),
            ("holiday.md", "Holiday policy"),
        ):
            shelf.put(name, title)
        parts = with_parts(
            scripted_house(),
            retriever=FakeRetriever([(0.02, PASSAGES[:1]), (0.9, PASSAGES)])
            if len(grades) > 1
            else FakeRetriever([(0.02, PASSAGES)]),
            grader=FakeGrader(list(grades)),
            generator=FakeGenerator([draft]),
            verifier=FakeVerifier(),
        )
        return replace(parts, documents=shelf)


CLEAN = Scene(QUESTION, (Verdict.SUFFICIENT,))
CORRECTED = Scene(QUESTION, (Verdict.PARTIAL, Verdict.SUFFICIENT), "pension contributions during leave")
REFUSED = Scene("Do I have to wear a suit when I visit clients?", (Verdict.INSUFFICIENT,), LACKING)


async def take(browser: Browser, folder: Path) -> None:
    for scheme in ("light", "dark"):
        await picture(browser, CLEAN, folder / f"welcome-{scheme}.png", scheme, WIDE, asks=False)
        await picture(browser, CLEAN, folder / f"answer-{scheme}.png", scheme, WIDE)
        await picture(browser, CORRECTED, folder / f"corrected-{scheme}.png", scheme, WIDE, until="Searching again")
        await picture(browser, REFUSED, folder / f"refusal-{scheme}.png", scheme, WIDE)
        await picture(browser, CLEAN, folder / f"source-{scheme}.png", scheme, WIDE, opens=True)
    await picture(browser, CLEAN, folder / "welcome-phone.png", "light", PHONE, asks=False)
    await picture(browser, CORRECTED, folder / "answer-phone.png", "light", PHONE)
    await picture(browser, REFUSED, folder / "refusal-phone.png", "dark", PHONE)


async def picture(
    browser: Browser,
    scene: Scene,
    path: Path,
    scheme: Scheme,
    viewport: dict[str, int],
    *,
    asks: bool = True,
    until: str | None = None,
    opens: bool = False,
) -> None:
    async with (
        running(scene.house()) as server,
        visit(browser, server.base_url, viewport=viewport, color_scheme=scheme) as visitor,
    ):
        await visitor.page.wait_for_load_state("networkidle")
        if asks:
            await visitor.page.get_by_label("Check each sentence").set_checked(scene is CLEAN)
            await visitor.ask(scene.question)
            await shown(visitor, until)
        if opens:
            await visitor.turn.locator(".cite").nth(2).click()
        await visitor.page.screenshot(path=path, animations="disabled")


async def shown(visitor: Visit, until: str | None) -> None:
    if until is not None:
        await expect(visitor.turn.locator(".line")).to_contain_text(until)
        return
    await visitor.ended()
    await visitor.run("() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")


async def main(folder: Path) -> None:

    async with chromium() as browser:
        await take(browser, folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    chosen: Path = parser.parse_args().folder
    chosen.mkdir(parents=True, exist_ok=True)
    anyio.run(main, chosen)
