"""What every generator promises: the contract of streaming.ports.Generator, over each adapter and each event loop it runs on."""

from dataclasses import replace

import anyio
import pytest

from gateway.providers.script import Script
from retrieval.faults import GatewayFault
from streaming.faults import AnswerIncomplete, GeneratorMisconfigured, GeneratorOverloaded, GeneratorUnavailable
from streaming.ports import Cited, Piece, Stopped, StopReason, Text, Turn, Usage
from tests.support.generators import GENERATORS, GeneratorCase, prompt, read, read_into, text_of

pytestmark = pytest.mark.anyio

QUICK = Script(ttft_ms=5, tps=2000, tokens=25, grade_ms=5)
SOON_S = 2.0  # bounds every wait; nothing is timed against it
Case = tuple[GeneratorCase, str]
EVERY = [(case, backend) for case in GENERATORS for backend in case.backends]
SCRIPTED = [(case, backend) for case, backend in EVERY if case.is_scripted]


@pytest.fixture
def anyio_backend(case: Case) -> str:
    return case[1]


every = pytest.mark.parametrize("case", EVERY, ids=lambda case: f"{case[0]}-{case[1]}")
scripted = pytest.mark.parametrize("case", SCRIPTED, ids=lambda case: f"{case[0]}-{case[1]}")


@every
async def test_an_answer_is_batches_of_pieces_that_end_with_one_stop(case: Case) -> None:
    async with case[0].open(QUICK) as generator:
        draft = await generator.draft(prompt("What do they say?"))
        batches = [batch async for batch in draft]
        await draft.aclose()
    pieces = [piece for batch in batches for piece in batch]
    assert all(batches)
    assert text_of(pieces).strip()
    assert [type(piece) for piece in pieces].count(Stopped) == 1
    assert isinstance(pieces[-1], Stopped)


@every
async def test_a_citation_follows_the_text_it_covers_and_names_a_given_number(case: Case) -> None:
    numbers = (2, 5, 9)
    async with case[0].open(QUICK) as generator:
        pieces = await read(await generator.draft(prompt("Who says it?", numbers=numbers)))
    length = 0
    cited: list[Cited] = []
    for piece in pieces:
        match piece:
            case Text(text):
                length += len(text)
            case Cited(n, start, end):
                assert n in numbers
                assert 0 <= start < end <= length
                cited.append(piece)
            case _:
                pass
    assert cited


@every
async def test_drafts_at_the_same_time_do_not_mix(case: Case) -> None:
    async with case[0].open(QUICK) as generator:
        alone = [text_of(await read(await generator.draft(prompt("q", search=n)))) for n in (1, 2, 3)]
    together: dict[int, str] = {}
    async with case[0].open(QUICK) as generator, anyio.create_task_group() as tasks:

        async def one(search: int) -> None:
            together[search] = text_of(await read(await generator.draft(prompt("q", search=search))))

        for n in (1, 2, 3):
            tasks.start_soon(one, n)
    assert [together[n] for n in (1, 2, 3)] == alone


@every
async def test_a_conversation_may_come_before_the_question(case: Case) -> None:
    turns = (Turn("assistant", "Hello."), Turn("user", "Hi."), Turn("user", " "), Turn("assistant", "Ask me."))
    async with case[0].open(QUICK) as generator:
        pieces = await read(await generator.draft(replace(prompt("And now?"), history=turns)))
    assert isinstance(pieces[-1], Stopped)


@every
@pytest.mark.parametrize("batches", [0, 1, 3])
async def test_closing_early_is_quick_and_may_be_repeated(case: Case, batches: int) -> None:
    async with case[0].open(QUICK) as generator:
        draft = await generator.draft(prompt("q"))
        reader = aiter(draft)
        for _ in range(batches):
            await anext(reader, ())  # on a busy machine fewer may hold the whole answer
        with anyio.fail_after(SOON_S):
            await draft.aclose()
            await draft.aclose()


@every
async def test_a_draft_that_is_cut_ends_for_its_reader_as_the_cancellation_it_is(case: Case) -> None:
    async with case[0].open(QUICK) as generator:
        draft = await generator.draft(prompt("q [[ttft_ms=60000]]" if case[0].is_scripted else "q"))
        ends: list[str] = []
        reading = anyio.CancelScope()

        async def read_on() -> None:
            with reading:
                async for _ in draft:
                    pass
            ends.append("cancelled" if reading.cancelled_caught else "read")

        with anyio.fail_after(SOON_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read_on)
                await anyio.sleep(0.05 if case[0].is_scripted else 0)
                reading.cancel()
                draft.cut()
                draft.cut()
            await draft.aclose()
    assert ends == ["cancelled"]


@every
async def test_closing_a_finished_draft_does_nothing(case: Case) -> None:
    async with case[0].open(QUICK) as generator:
        draft = await generator.draft(prompt("q"))
        assert [batch async for batch in draft]
        await draft.aclose()
        assert [batch async for batch in draft] == []


@scripted
async def test_the_text_is_the_scripts_byte_for_byte(case: Case) -> None:
    async with case[0].open(QUICK) as generator:
        pieces = await read(await generator.draft(prompt("q [[tokens=70]]", search=2)))
    assert text_of(pieces) == replace(QUICK, tokens=70).text(attempt=2)


@scripted
async def test_tokens_are_counted_by_the_service(case: Case) -> None:
    async with case[0].open(QUICK) as generator:
        pieces = await read(await generator.draft(prompt("q [[tokens=7]]")))
    assert isinstance(first := pieces[0], Usage)
    assert first.input_tokens > 0
    assert pieces[-1] == Stopped(StopReason.END, Usage(first.input_tokens, 7))


STOPS = {
    "[[fault=refusal]]": (0, StopReason.REFUSAL),
    "[[fault=refusal@9]]": (9, StopReason.REFUSAL),
    "[[fault=max_tokens@9]]": (9, StopReason.LENGTH),
    "[[fault=other@9]]": (9, StopReason.OTHER),
    "[[fault=unstopped@9]]": (9, StopReason.END),
    "[[tokens=0]]": (0, StopReason.END),
}


@scripted
@pytest.mark.parametrize("marker", STOPS)
async def test_each_way_to_stop_has_its_reason(case: Case, marker: str) -> None:
    said, reason = STOPS[marker]
    async with case[0].open(QUICK) as generator:
        pieces = await read(await generator.draft(prompt(f"q {marker}")))
    assert isinstance(last := pieces[-1], Stopped)
    assert last.reason is reason
    assert text_of(pieces) == "".join(QUICK.words(1)[:said])


@scripted
async def test_an_answer_that_reaches_the_limit_of_tokens_stops_for_its_length(case: Case) -> None:
    async with case[0].open(QUICK) as generator:
        pieces = await read(await generator.draft(prompt("q", max_tokens=8)))
    assert isinstance(last := pieces[-1], Stopped)
    assert last.reason is StopReason.LENGTH
    assert text_of(pieces) == "".join(QUICK.words(1)[:8])


FAULTS: dict[str, type[GatewayFault]] = {
    "overloaded": GeneratorOverloaded,
    "overloaded@0": GeneratorOverloaded,
    "overloaded@10": GeneratorOverloaded,
    "rate_limited": GeneratorOverloaded,
    "rate_limited@10": GeneratorOverloaded,
    "server_error": GeneratorUnavailable,
    "server_error@10": GeneratorUnavailable,
    "unauthorized": GeneratorMisconfigured,
    "bad_request": GeneratorMisconfigured,
    "ends@0": AnswerIncomplete,
    "ends@10": AnswerIncomplete,
    "cut@10": AnswerIncomplete,
}


@scripted
@pytest.mark.parametrize("fault", FAULTS)
async def test_each_failure_is_its_fault_and_what_came_before_is_a_prefix(case: Case, fault: str) -> None:
    pieces: list[Piece] = []
    async with case[0].open(QUICK) as generator:
        with pytest.raises(FAULTS[fault]) as raised, anyio.fail_after(SOON_S):
            await read_into(pieces, generator, prompt(f"q [[fault={fault}]]"))
    assert QUICK.text(1).startswith(text_of(pieces))
    assert not any(isinstance(piece, Stopped) for piece in pieces)
    assert not set(str(raised.value).split()) & {"a-key", "Error", "APIStatusError"}
    assert "http" not in str(raised.value)


@scripted
async def test_a_draft_after_a_failed_one_is_another_draft(case: Case) -> None:
    question = "q [[fault=overloaded@3,none]]"
    async with case[0].open(QUICK) as generator:
        with pytest.raises(GeneratorOverloaded):
            await read(await generator.draft(prompt(question)))
        pieces = await read(await generator.draft(prompt(question)))
    assert text_of(pieces) == QUICK.text(attempt=1, draft=2)


@scripted
async def test_cancelled_while_it_opens_it_returns_at_once(case: Case) -> None:
    async with case[0].open(QUICK) as generator:
        with anyio.fail_after(SOON_S), anyio.move_on_after(0.05) as opening:
            await generator.draft(prompt("q [[fault=stall]]"))
    assert opening.cancelled_caught


@scripted
@pytest.mark.parametrize("after", [0, 10])
async def test_cancelled_while_the_model_is_silent_it_returns_at_once(case: Case, after: int) -> None:
    async with case[0].open(QUICK) as generator:
        draft = await generator.draft(prompt(f"q [[fault=stall@{after}]]"))
        said = ""
        with anyio.fail_after(SOON_S), anyio.move_on_after(0.1) as reading:
            async for batch in draft:
                said += text_of(list(batch))
        with anyio.CancelScope(shield=True):
            await draft.aclose()
    assert reading.cancelled_caught
    assert said == "".join(QUICK.words(1)[:after])


@pytest.mark.parametrize("case", [c for c in SCRIPTED if c[0].has_read_limit], ids=lambda case: f"{case[0]}-{case[1]}")
@pytest.mark.parametrize("stall", ["stall", "stall@0", "stall@10"])
async def test_a_silence_longer_than_the_read_limit_makes_the_service_unavailable(case: Case, stall: str) -> None:
    async with case[0].open(QUICK) as generator:
        with pytest.raises(GeneratorUnavailable), anyio.fail_after(5):
            await read(await generator.draft(prompt(f"q [[fault={stall}]]")))
