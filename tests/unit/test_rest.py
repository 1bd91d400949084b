"""How long a draft that speaks is left unread, and what that comes to at the socket of many."""

import math
from collections import Counter

import anyio
import pytest

from gateway.bench.messages_api import messages_api
from gateway.providers.claude.client import open_client
from gateway.providers.claude.connections import Reading
from gateway.providers.claude.generator import AnthropicGenerator
from gateway.providers.claude.rest import FEW_DRAFTS, FREE_DRAFTS, LONGEST_S, STEPS, TOGETHER, Rest
from gateway.providers.script import Script
from streaming.ports import Piece, Text
from tests.support.generators import prompt, read

pytestmark = pytest.mark.anyio

SCRIPT = Script(ttft_ms=5, tps=200, tokens=60)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the SDK's


def busy(drafts: int, longest_s: float = LONGEST_S) -> Rest:
    rest = Rest(longest_s)
    for _ in range(drafts):
        rest.begin()
    return rest


def test_few_drafts_take_no_rest_and_more_take_longer_ones_up_to_a_bound() -> None:
    rests = [busy(drafts).whole_s for drafts in range(1_000)]
    assert set(rests[: FREE_DRAFTS + 1]) == {0.0}
    assert 0 < rests[FREE_DRAFTS + 1] < LONGEST_S
    assert rests == sorted(rests)
    assert rests[-1] == LONGEST_S


def test_a_longest_rest_of_nothing_passes_each_token_on_as_it_comes() -> None:
    rest = Rest(0.0)
    for _ in range(1_000):
        rest.begin()
    assert rest.whole_s == rest.until(3.21) == 0


@pytest.mark.parametrize("drafts", [FREE_DRAFTS + 1, 9, FEW_DRAFTS, FEW_DRAFTS + 1, 64, 1_000])
def test_drafts_that_were_looked_at_at_any_moment_are_looked_at_together_next(drafts: int) -> None:
    rest = busy(drafts)
    whole_s, moments = rest.whole_s, Counter[int]()
    for number in range(drafts):
        now_s = 100 + whole_s * number / drafts
        rest_s = rest.until(now_s)
        assert whole_s / STEPS <= rest_s <= whole_s * (1 + 1 / STEPS)
        moments[round((now_s + rest_s) * 1e6)] += 1
    groups = 1 if drafts <= FEW_DRAFTS else math.ceil(drafts / TOGETHER)
    assert len(moments) <= 2 * groups
    assert max(moments.values()) <= max(2, 2 * drafts / groups)
    if groups > 1:
        assert max(moments.values()) < drafts


async def test_tokens_that_come_during_a_rest_come_together_and_whole() -> None:
    """The same answer read by a generator with nobody beside it and by one of many: fewer batches, the same text."""
    seen = dict[str, tuple[int, str]]()
    async with messages_api(SCRIPT) as api:
        client = open_client("a-key", api.base_url, connect_s=5, read_s=5)
        try:
            for name, rest in (("alone", Rest()), ("of many", busy(200))):
                generator, batches = AnthropicGenerator(client, "claude-scripted", rest=rest), 0
                text = ""
                draft = await generator.draft(prompt("q"))
                with anyio.fail_after(10):
                    async for pieces in draft:
                        said = words(pieces)
                        batches, text = batches + bool(said), text + said
                await draft.aclose()
                seen[name] = batches, text
        finally:
            await client.close()
    assert (seen["alone"][1], seen["of many"][1]) == (SCRIPT.text(1, 1), SCRIPT.text(1, 2))
    assert seen["of many"][0] < seen["alone"][0] / 2


async def test_what_has_come_to_its_end_is_read_without_a_rest() -> None:
    """An answer that came all at once, more than one read takes: there is nothing left to be told of together."""
    script = Script(ttft_ms=5, tps=1e6, tokens=1_000, cite=0)
    rest = busy(200, longest_s=0.6)
    async with messages_api(script) as api:
        client = open_client("a-key", api.base_url, connect_s=5, read_s=5)
        try:
            draft = await AnthropicGenerator(client, "claude-scripted", rest=rest).draft(prompt("q"))
            first, text = words(await anext(aiter(draft))), ""
            await api.wait_until(lambda log: not log.open)
            with anyio.fail_after(2):  # four rests take longer
                async for pieces in draft:
                    text += words(pieces)
            await draft.aclose()
        finally:
            await client.close()
    assert first + text == script.text(1, 1)


@pytest.mark.parametrize(("tps", "rests"), [(1e6, range(3)), (400.0, range(5, 60))])
async def test_a_draft_that_comes_faster_than_it_is_read_takes_no_rests(
    tps: float, rests: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(ttft_ms=5, tps=tps, tokens=200, cite=0)
    taken: list[float] = []
    rest = Reading.rest

    def counted(reading: Reading, seconds: float, enough: int) -> bool:
        taken.append(seconds)
        return rest(reading, seconds, enough)

    monkeypatch.setattr(Reading, "rest", counted)
    async with messages_api(script) as api:
        client = open_client("a-key", api.base_url, connect_s=5, read_s=5)
        try:
            draft = await AnthropicGenerator(client, "claude-scripted", rest=busy(200)).draft(prompt("q"))
            await read(draft)
            await draft.aclose()
        finally:
            await client.close()
    assert len(taken) in rests


async def test_a_draft_that_is_closed_counts_no_more() -> None:
    rest = busy(FREE_DRAFTS)
    assert rest.whole_s == 0
    async with messages_api(SCRIPT) as api:
        client = open_client("a-key", api.base_url, connect_s=5, read_s=5)
        try:
            draft = await AnthropicGenerator(client, "claude-scripted", rest=rest).draft(prompt("q"))
            assert rest.whole_s > 0
            await read(draft)
            await draft.aclose()
            await draft.aclose()
            assert rest.whole_s == 0
        finally:
            await client.close()


def words(pieces: tuple[Piece, ...]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, Text))
