"""Streams of the Messages API that end early, break, refuse or carry what nobody knows (field reports C1, C2, C7, C11)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from gateway.bench.messages_api import MessagesApi, messages_api
from gateway.providers.claude.client import open_client
from gateway.providers.claude.generator import AnthropicGenerator
from gateway.providers.script import Script
from retrieval.faults import GatewayFault
from streaming.drafting import count
from streaming.faults import AnswerIncomplete, GeneratorOverloaded, GeneratorUnavailable
from streaming.ledger import Entry
from streaming.ports import Cited, Piece, Stopped, StopReason, Usage
from streaming.silence import Silence
from tests.support.generators import prompt, read, read_into, text_of

pytestmark = pytest.mark.anyio

QUICK = Script(ttft_ms=5, tps=2000, tokens=25)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the SDK's


@asynccontextmanager
async def claude(*, read_s: float = 5) -> AsyncIterator[tuple[AnthropicGenerator, MessagesApi]]:
    async with messages_api(QUICK) as api:
        client = open_client("a-key", api.base_url, connect_s=5, read_s=read_s)
        try:
            yield AnthropicGenerator(client, "claude-scripted"), api
        finally:
            await client.close()


async def test_a_body_that_ends_without_a_stop_reason_is_not_an_answer() -> None:
    pieces: list[Piece] = []
    said = "".join(QUICK.words(1)[:20])
    async with claude() as (generator, _):
        with pytest.raises(AnswerIncomplete, match=f"without a stop reason after {len(said)} characters"):
            await read_into(pieces, generator, prompt("q [[fault=ends@20]]"))
    assert text_of(pieces) == said


async def test_a_stop_reason_without_message_stop_is_an_answer() -> None:
    async with claude() as (generator, _):
        pieces = await read(await generator.draft(prompt("q [[fault=unstopped@20]]")))
    assert pieces[-1] == Stopped(StopReason.END, Usage(pieces_input(pieces), 20))


@pytest.mark.parametrize("fault", ["none", "unstopped@20"])
async def test_a_connection_that_breaks_after_the_stop_reason_takes_nothing_away(fault: str) -> None:
    async with claude() as (generator, _):
        pieces = await read(await generator.draft(prompt(f"q [[tokens=20 fault={fault}]] [[wire: break_end=1]]")))
    assert text_of(pieces) == "".join(QUICK.words(1)[:20])
    assert pieces[-1] == Stopped(StopReason.END, Usage(pieces_input(pieces), 20))


@pytest.mark.parametrize("after", [0, 10])
async def test_an_overload_inside_a_stream_of_status_200_is_an_overload(after: int) -> None:
    pieces: list[Piece] = []
    async with claude() as (generator, api):
        with pytest.raises(GeneratorOverloaded, match="overloaded_error") as raised:
            await read_into(pieces, generator, prompt(f"q [[fault=overloaded@{after}]]"))
        assert len(api.log) == 1
    assert raised.value.retryable
    assert text_of(pieces) == "".join(QUICK.words(1)[:after])


async def test_a_refusal_without_a_word_is_a_refusal_and_is_asked_once() -> None:
    async with claude() as (generator, api):
        pieces = await read(await generator.draft(prompt("q [[fault=refusal]]")))
        assert len(api.log) == 1
    assert isinstance(last := pieces[-1], Stopped)
    assert last.reason is StopReason.REFUSAL
    assert text_of(pieces) == ""


async def test_thinking_pings_and_unknown_events_bring_no_text() -> None:
    odd = "[[wire: thinking=3 pings=2 unknown=1]]"
    async with claude() as (generator, _):
        pieces = await read(await generator.draft(prompt(f"q {odd}")))
    assert text_of(pieces) == QUICK.text(1)
    assert {piece.n for piece in pieces if isinstance(piece, Cited)} == {1, 2, 3}  # number 99's is dropped


@pytest.mark.parametrize("wire", ["split=1", "split=7", "crlf=1", "crlf=1 split=1", "crlf=1 split=3", "cite_first=1"])
async def test_the_same_pieces_come_wherever_the_bytes_are_cut(wire: str) -> None:
    async with claude() as (generator, _):
        plain = await read(await generator.draft(prompt("q")))
        other = await read(await generator.draft(prompt(f"q [[wire: {wire}]]")))
    assert text_of(other) == text_of(plain)
    assert cited(other) == cited(plain)
    assert type(other[-1]) is Stopped


async def test_citations_cover_the_text_of_their_block_in_characters() -> None:
    async with claude() as (generator, _):
        pieces = await read(await generator.draft(prompt("q", numbers=(2, 4))))
    words = QUICK.words(1)
    blocks = ["".join(words[:10]), "".join(words[10:20]), "".join(words[20:])]
    text = text_of(pieces)
    assert [(n, text[start:end]) for n, start, end, _ in cited(pieces)] == list(zip((2, 4, 2), blocks, strict=True))


async def test_pings_alone_say_nothing_of_a_model() -> None:
    async with claude() as (generator, _):
        stalled = await generator.draft(prompt("q [[fault=stall@0]] [[wire: ping_ms=20]]"))
        batches = aiter(stalled)
        while await anext(batches) == ():  # the events that open the message
            pass
        with anyio.move_on_after(0.3) as pinged:
            await anext(batches)
        await stalled.aclose()
        assert pinged.cancelled_caught


async def test_a_model_that_thinks_is_at_work_and_says_nothing() -> None:
    thought = b'{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}'
    batches: list[tuple[Piece, ...]] = []
    fault = await fault_from_peer(BEGUN, *[framed(thought)] * 3, pause_s=0.05, batches=batches)
    assert isinstance(fault, AnswerIncomplete)
    assert set(batches[1:]) == {()}


async def test_a_finished_answer_gives_its_connection_back() -> None:
    async with claude() as (generator, api):
        for _ in range(3):
            await read(await generator.draft(prompt("q")))
        assert {exchange.connection for exchange in api.log} == {api.log[0].connection}


async def test_the_stop_does_not_wait_for_a_body_that_lingers() -> None:
    async with claude() as (generator, api):
        with anyio.fail_after(5):
            pieces = await read(await generator.draft(prompt("q [[wire: linger_ms=60000]]")))
            await api.wait_until(lambda log: log[0].closed_s is not None)
    assert isinstance(pieces[-1], Stopped)


async def test_a_broken_draft_leaves_no_connection_behind() -> None:
    async with claude() as (generator, api):
        for fault in ("ends@3", "cut@3", "overloaded@3", "overloaded", "server_error"):
            with pytest.raises((AnswerIncomplete, GeneratorOverloaded, GeneratorUnavailable)):
                await read(await generator.draft(prompt(f"q [[fault={fault}]]")))
        await api.wait_until(lambda log: not log.open)
        assert len(api.connections) <= 1  # at most an idle one, kept for the next request


async def test_a_cut_draft_is_counted_from_its_start_and_its_text_and_said_to_be_estimated() -> None:
    entry = Entry()
    async with claude() as (generator, _):
        draft = await generator.draft(prompt("q [[tokens=400 fault=stall@200]]"))
        while entry.characters < len("".join(Script(tokens=200).words(1))):
            count(entry, list(await anext(aiter(draft))))
        await draft.aclose()
    assert entry.input_tokens > 0
    assert entry.tokens >= 200
    assert not entry.exact


async def test_nobody_listening_is_unavailable() -> None:
    async with claude() as (_, api):
        address = api.base_url
    client = open_client("a-key", address, connect_s=1, read_s=1)
    with pytest.raises(GeneratorUnavailable, match="cannot be reached"):
        await AnthropicGenerator(client, "claude-scripted").draft(prompt("q"))
    await client.close()


async def test_an_unknown_host_is_unavailable() -> None:
    client = open_client("a-key", "http://no-such-host.invalid", connect_s=2, read_s=1)
    with pytest.raises(GeneratorUnavailable):
        await AnthropicGenerator(client, "claude-scripted").draft(prompt("q"))
    await client.close()


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
START = b'data: {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}}\n\n'
BEGUN = HEAD + b"%x\r\n%b\r\n" % (len(START), START)
SAID: dict[str, tuple[bytes, type[GatewayFault]]] = {
    "nothing": (b"", GeneratorUnavailable),
    "no HTTP": (b"hello there\r\n\r\n", GeneratorUnavailable),
    "half a head": (HEAD[:30], GeneratorUnavailable),
    "a head that does not end": (HEAD[:20] + b"x" * 200_000, GeneratorUnavailable),
    "a body of no known length": (HEAD.replace(b"transfer-encoding", b"x-te") + START, AnswerIncomplete),
    "a body that is too short": (
        HEAD.replace(b"transfer-encoding: chunked", b"content-length: 500") + START,
        AnswerIncomplete,
    ),
    "half a chunk": (BEGUN + b"20\r\nda", AnswerIncomplete),
    "a compressed body that is none": (
        HEAD[:-2] + b"content-encoding: gzip\r\n\r\n5\r\nplain\r\n",
        GeneratorUnavailable,
    ),
    "a redirection to itself": (
        b"HTTP/1.1 307 x\r\nlocation: /v1/messages\r\ncontent-length: 0\r\n\r\n",
        GeneratorUnavailable,
    ),
}


@pytest.mark.parametrize("said", SAID)
async def test_a_peer_that_speaks_no_proper_http_is_a_fault_of_ours(said: str) -> None:
    answer, fault = SAID[said]
    assert type(await fault_from_peer(answer)) is fault


@pytest.mark.parametrize("pause_s", [0.0, 0.1])
async def test_a_chunk_that_is_not_framed_as_one_keeps_nobody_waiting(pause_s: float) -> None:
    fault = await fault_from_peer(BEGUN, b"no size\r\nno chunk\r\n", pause_s=pause_s, stays=True)
    assert isinstance(fault, AnswerIncomplete)  # and not for its silence


def framed(data: bytes) -> bytes:
    """An event as a chunk of an HTTP body."""
    event = b"event: content_block_delta\ndata: " + data + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)


async def fault_from_peer(
    *answer: bytes, pause_s: float = 0.0, stays: bool = False, batches: list[tuple[Piece, ...]] | None = None
) -> GatewayFault | None:
    """What a draft fails with whose peer answers any request with these bytes, then closes, or stays and says no more.

    It is read as an answer reads it, within a limit on the model's silence.
    """
    fault: GatewayFault | None = None

    async def serve(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            for part in answer:
                await stream.send(part)
                await anyio.sleep(pause_s)
            if stays:
                await anyio.sleep_forever()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        port = listener.extra(SocketAttribute.local_port)
        client = open_client("a-key", f"http://127.0.0.1:{port}", connect_s=1, read_s=0.3)
        try:
            with anyio.fail_after(5), Silence(0.6):
                draft = await AnthropicGenerator(client, "claude-scripted").draft(prompt("q"))
                try:
                    async for batch in draft:
                        if batches is not None:
                            batches.append(batch)
                finally:
                    await draft.aclose()
        except GatewayFault as raised:
            fault = raised
        finally:
            await client.close()
        tasks.cancel_scope.cancel()
    return fault


def cited(pieces: list[Piece]) -> list[tuple[int, int, int, str | None]]:
    return [(piece.n, piece.start, piece.end, piece.quote) for piece in pieces if isinstance(piece, Cited)]


def pieces_input(pieces: list[Piece]) -> int:
    return next(piece.input_tokens for piece in pieces if isinstance(piece, Usage))
