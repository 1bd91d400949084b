"""The answer that quotes: what it says, in which order, and how it is read."""

from collections.abc import Sequence

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.providers.local.extractive import (
    HIGHEST_LOGIT,
    MARGIN,
    MOST_CANDIDATES,
    MOST_PER_PASSAGE,
    MOST_QUOTES,
    PREAMBLE,
    ExtractiveGenerator,
    Picks,
    Scored,
    nearest,
)
from gateway.providers.local.faults import LocalModelMissing
from gateway.providers.local.files import ModelFiles
from gateway.providers.local.network import Network
from gateway.providers.local.pairs import PairScorer
from gateway.providers.local.quotes import Quote, quotes
from gateway.providers.local.slots import Slots
from retrieval.passage import Passage
from streaming.faults import GeneratorUnavailable
from streaming.ports import Cited, Piece, Prompt, Stopped, StopReason, Text
from tests.support.generators import read, text_of
from tests.support.local import GARDEN, numbered, passages, shared_models

pytestmark = pytest.mark.anyio

SOON_S = 10.0  # bounds every wait; nothing is timed against it


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def answer(question: str, found: Sequence[Passage] = GARDEN, max_tokens: int = 1024) -> list[Piece]:
    draft = await shared_models().generator.draft(Prompt(question, numbered(found), max_tokens=max_tokens))
    return await read(draft)


def cited(pieces: list[Piece]) -> list[Cited]:
    return [piece for piece in pieces if isinstance(piece, Cited)]


async def test_it_says_what_it_is_then_quotes_the_sentence_that_answers() -> None:
    pieces = await answer("How deep are tulip bulbs planted?")
    assert text_of(pieces).startswith(PREAMBLE)
    assert "no model wrote this" in PREAMBLE
    assert "The bulbs go fifteen centimetres deep." in text_of(pieces)
    assert {each.n for each in cited(pieces)} == {2}
    assert pieces[-1] == Stopped(StopReason.END, None)


async def test_every_sentence_is_cited_with_its_offsets_and_the_passages_own_words() -> None:
    found = passages(
        ("Roses", "Roses are pruned\nin March. They need sun."), ("Also", "Pruning of roses in March\nkeeps them well.")
    )
    pieces = await answer("When are roses pruned?", found)
    text = text_of(pieces)
    left = text
    for each in reversed(cited(pieces)):
        assert each.quote is not None
        assert each.quote in found[each.n - 1].text
        assert left[each.start : each.end] == " ".join(each.quote.split())
        assert left[each.end :].strip() == ""  # what no citation covers is only what parts two quotes
        left = left[: each.start]
    assert left == PREAMBLE
    assert {each.n for each in cited(pieces)} == {1, 2}


async def test_sentences_of_a_passage_stand_in_reading_order_in_one_paragraph() -> None:
    found = passages("Tulip bulbs are planted in October. Nothing else is said here. Tulip bulbs are planted deep.")
    paragraphs = text_of(await answer("When and how are tulip bulbs planted?", found)).split("\n\n")
    assert paragraphs[1:] == ["Tulip bulbs are planted in October. Tulip bulbs are planted deep."]


async def test_list_items_and_rows_stand_alone() -> None:
    found = passages("When tulips are planted:\n- tulip bulbs are planted in October\n- tulip bulbs are planted deep")
    paragraphs = text_of(await answer("When and how are tulip bulbs planted?", found)).split("\n\n")
    assert paragraphs[1:] == ["tulip bulbs are planted in October", "tulip bulbs are planted deep"]


async def test_the_same_words_are_quoted_once() -> None:
    found = passages(*["Tulip bulbs are planted in October."] * 3, "As said: Tulip bulbs are planted in October.")
    assert len(cited(await answer("When are tulip bulbs planted?", found))) <= 2
    assert text_of(await answer("When are tulip bulbs planted?", found[:3])).count("October") == 1


async def test_the_numbers_are_those_of_the_prompt() -> None:
    prompt = Prompt("How deep are tulip bulbs planted?", ((4, GARDEN[0]), (9, GARDEN[1])))
    pieces = await read(await shared_models().generator.draft(prompt))
    assert {each.n for each in cited(pieces)} == {9}


async def test_an_answer_keeps_to_its_tokens_but_always_quotes_something() -> None:
    long = passages(*(f"Tulip bulbs number {n} are planted in October, {'and so on ' * 20}for ever." for n in range(4)))
    pieces = await answer("When are tulip bulbs planted?", long, max_tokens=20)
    assert len(cited(pieces)) == 1
    assert pieces[-1] == Stopped(StopReason.LENGTH)


@pytest.mark.parametrize("text", ["```sh\nmake run\n```", "x" * 5000, "| a | b |\n|---|---|\n| c | d |", "Yes."])
async def test_a_passage_without_prose_is_quoted_all_the_same(text: str) -> None:
    pieces = await answer("What is run?", passages(text))
    assert cited(pieces)
    assert isinstance(pieces[-1], Stopped)


async def test_blank_passages_give_no_quote_and_an_end() -> None:
    pieces = await answer("What is run?", passages("", "  \n"))
    assert text_of(pieces) == PREAMBLE
    assert pieces[-1] == Stopped(StopReason.END)


async def test_it_says_what_it_is_before_any_model_has_run() -> None:
    models = shared_models()
    busy = PairScorer(models.pairs.network, Slots(1))
    draft = await ExtractiveGenerator(busy).draft(Prompt("Where do ferns grow?", numbered(GARDEN)))
    assert await anext(aiter(draft)) == (Text(PREAMBLE, is_claim=False),)
    assert busy.known == 0
    await draft.aclose()


async def test_a_sentence_is_sent_before_the_next_passage_is_read() -> None:
    pairs = PairScorer(shared_models().pairs.network, Slots(2))
    found = passages(
        "Ferns grow in shade. The shade of a wall will do.",
        "Where do ferns grow? In shade, it is said. Some ferns grow in the sun.",
        "Ferns do grow where it is wet. Many of them grow on rocks.",
    )
    draft = await ExtractiveGenerator(pairs).draft(Prompt("Where do ferns grow?", numbered(found)))
    known = [pairs.known async for batch in draft if isinstance(batch[0], Text)]
    await draft.aclose()
    assert known[0] == 0
    assert known[1] < known[-1]


async def test_cancelled_between_sentences_it_closes_and_nothing_runs_on() -> None:
    pairs = PairScorer(shared_models().pairs.network, Slots(1))
    many = passages(
        *(f"Ferns number {n} grow in shade. They say that ferns of kind {n} grow. And {n} more." for n in range(30))
    )
    draft = await ExtractiveGenerator(pairs).draft(Prompt("Where do ferns grow?", numbered(many)))
    with anyio.fail_after(SOON_S):
        with anyio.move_on_after(0.03) as scope:
            await read(draft)
        await draft.aclose()
    assert scope.cancelled_caught
    known = pairs.known
    await anyio.wait_all_tasks_blocked()
    assert pairs.known == known < 30


async def test_a_model_that_is_not_there_is_said_to_be_missing() -> None:
    def missing() -> ModelFiles:
        raise LocalModelMissing("not here")

    draft = await ExtractiveGenerator(PairScorer(Network(missing, 320), Slots(1))).draft(Prompt("q", numbered(GARDEN)))
    with pytest.raises(GeneratorUnavailable, match="not here"):
        await read(draft)


SCORES = st.lists(st.tuples(st.integers(0, 12), st.floats(-11, 16)), min_size=1, max_size=8)


@given(st.lists(SCORES, max_size=6))
def test_picks_are_few_fresh_near_the_best_and_in_reading_order(pages: list[list[tuple[int, float]]]) -> None:
    picks, picked, best = Picks(), [], float("-inf")
    for n, page in enumerate(pages, 1):
        scored = [Scored(Quote(n, 10 * at, f"w{word}", f"w{word}"), score) for at, (word, score) in enumerate(page)]
        best = max(best, *(each.score for each in scored), best)
        chosen = picks.pick(scored)
        assert [quote.place for quote in chosen] == sorted(quote.place for quote in chosen)
        assert len(chosen) <= MOST_PER_PASSAGE
        by_quote = {id(each.quote): each.score for each in scored}
        assert all(by_quote[id(quote)] >= best - MARGIN for quote in chosen)
        picked += chosen
    assert len(picked) <= MOST_QUOTES
    assert len({quote.key for quote in picked}) == len(picked)
    assert bool(picked) == bool(pages)


def test_a_passage_that_cannot_reach_the_best_is_not_read() -> None:
    picks = Picks()
    assert picks.may_gain(-11.0)
    picks.pick([Scored(Quote(1, 0, "w", "w"), HIGHEST_LOGIT + 4)])
    assert picks.may_gain(8.0)
    assert not picks.may_gain(-11.0)


def test_of_many_sentences_those_that_share_words_with_the_question_are_scored() -> None:
    filler = " ".join(f"Nothing at all in number {n}." for n in range(30))
    found = quotes(1, f"{filler} Bulbs are planted in October. {filler}")
    kept = nearest("When is a bulb planted?", found, MOST_CANDIDATES)
    assert len(kept) == MOST_CANDIDATES
    assert any("October" in quote.shown for quote in kept)
