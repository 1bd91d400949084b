"""The same text by every parser, whatever characters are in it. FIELD_REPORTS A6, I1."""

import json
from collections.abc import AsyncIterator, Callable

import pytest

from grading.grade import Grade, Verdict
from retrieval.passage import Passage
from retrieval.ports import Query
from streaming.ports import Piece, Prompt, Stopped, StopReason, Text
from tests.support.clients import client
from tests.support.gateway_app import running, scripted_house, with_parts

pytestmark = pytest.mark.anyio

ODD = [
    "plain ",
    "line\rreturn",
    "line\r\nboth",
    "\n\ndata: x\n\nevent: done\n\n",
    "\u2028\u2029\u0085\x0b\x0c\x1c\x1d\x1e",
    "half a pair \ud83d ",
    "id: 1\n: comment\nretry: 1\n",
    "\x00\x1b[0m\x7f",
    "👩‍👩‍👧 ქართული ünï 𝄞",
    "</script> \\u2028 \" ' \\",
]
TEXT = "".join(ODD)


class OddPassages:
    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        return (Passage("p\u2028", "d\r", title=TEXT, text=TEXT, url="http://x/\u2028", score=float("nan")),)


class OddDraft:
    name = "odd"

    async def draft(self, prompt: Prompt) -> "OddDraft":
        return self

    def __aiter__(self) -> AsyncIterator[tuple[Piece, ...]]:
        return self._batches()

    async def _batches(self) -> AsyncIterator[tuple[Piece, ...]]:
        for text in ODD:
            yield (Text(text),)
        yield (Stopped(StopReason.END),)

    async def aclose(self) -> None:
        """Holds nothing."""


class AllGood:
    name = "good"

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:
        return Grade(Verdict.SUFFICIENT, relevant=(1,))


Parsed = list[tuple[str, str]]


def by_the_standard(body: bytes) -> Parsed:
    """The parsing rules of https://html.spec.whatwg.org/multipage/server-sent-events.html, to the letter."""
    events: Parsed = []
    name, data = "", ""
    for line in body.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if line == "":
            if data:
                events.append((name or "message", data.removesuffix("\n")))
            name, data = "", ""
        elif field == "event":
            name = value
        elif field == "data":
            data += value + "\n"
    return events


def by_splitlines(body: bytes) -> Parsed:
    """What many clients do, and should not: `splitlines` also splits at U+2028, NEL, VT and FF."""
    events: Parsed = []
    name = ""
    for line in body.decode("utf-8").splitlines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            events.append((name, line.removeprefix("data: ")))
    return events


def by_blocks(body: bytes) -> Parsed:
    """What others do: split at blank lines, then take lines apart."""
    events: Parsed = []
    for block in body.decode("ascii").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and line[0] != ":")
        if "data" in fields:
            events.append((fields["event"], fields["data"]))
    return events


def by_httpx_sse(body: bytes) -> Parsed:
    """The decoder of httpx-sse, fed byte by byte."""
    from httpx_sse._decoders import SSEDecoder, SSELineDecoder

    import tests.support.clients  # noqa: F401  makes httpx-sse importable

    lines, decoder = SSELineDecoder(), SSEDecoder()
    found = [decoder.decode(line) for byte in body.decode("ascii") for line in lines.decode(byte)]
    return [(event.event, event.data) for event in found if event is not None]


PARSERS: list[Callable[[bytes], Parsed]] = [by_the_standard, by_splitlines, by_blocks, by_httpx_sse]


async def test_every_parser_reads_the_same_text_whatever_is_in_it() -> None:
    house = with_parts(scripted_house(), retriever=OddPassages(), generator=OddDraft(), grader=AllGood())
    async with running(house) as server, client(server.base_url) as http:
        response = await http.post("/v1/answers", json={"question": "Odd? \u2028"})
    body = response.content
    assert body.isascii()
    assert b"\r" not in body
    assert body.endswith(b"\n\n")
    parsed = [parse(body) for parse in PARSERS]
    assert all(events == parsed[0] for events in parsed)
    said = "".join(json.loads(data)["text"] for name, data in parsed[0] if name == "token")
    assert said == TEXT
    (sources,) = [json.loads(data) for name, data in parsed[0] if name == "sources"]
    assert sources["passages"][0]["title"] == TEXT
    assert sources["passages"][0]["score"] is None
    assert parsed[0][-1][0] == "done"
