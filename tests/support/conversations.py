"""The five things that every chat client is shown, as questions that the scripted provider plays; and what must be seen of each."""

from collections.abc import Mapping
from itertools import count

from gateway.providers.script import Script
from tests.support.gateway_app import Running, eventually
from tests.support.leftovers import GONE_S, answer_tasks

SCENARIOS: Mapping[str, str] = {
    "clean": "[[passages=3 tokens=12 cite=6 grade_ms=150]]",
    "retry": '[[verdict=partial,sufficient missing="the year" tokens=12 grade_ms=60]]',
    "refusal": '[[verdict=insufficient missing="the price"]]',
    "fault": "[[fault=server_error@8 grade_ms=1 ttft_ms=100 tokens=40]]",
    "stop": "[[grade_ms=1 ttft_ms=1 tps=20 tokens=5000]]",
}
REFUSED = "I searched, and what I found does not answer this. Missing: "
NUMBERS = count(1)
FAULT = "the model's service failed (after 8 tokens)"
SEARCHED_AGAIN = "searching again"


def question(scenario: str) -> str:
    """A question that was not asked before: the scripted model counts its drafts by question."""
    return f"What is number {next(NUMBERS)}? {SCENARIOS[scenario]}"


def text_of(scenario: str) -> str:
    """The whole text that the scripted model has for this question, of the attempt that is released."""
    return Script.parse(SCENARIOS[scenario]).text(2 if scenario == "retry" else 1)


async def assert_nothing_goes_on(server: Running) -> None:
    """The client stopped: no answer is open, no draft, no grade, though the client may keep its idle connection."""

    def what_goes_on() -> tuple[int, int, list[str]]:
        drafts: int = server.house.parts.generator.open_drafts  # type: ignore[attr-defined]
        return server.house.open_answers.count, drafts, answer_tasks()

    await eventually(lambda: what_goes_on() == (0, 0, []), GONE_S)


async def assert_something_goes_on(server: Running) -> None:
    """An answer is open: what a client has stopped was running before."""
    await eventually(lambda: server.house.open_answers.count)
