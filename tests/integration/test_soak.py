"""A short form of `make soak`: a few hundred requests while the database is restarted and a gateway is killed; and its oracle convicts."""

import tempfile
from pathlib import Path

import anyio
import pytest

from gateway.providers.script import Script
from tests.bench.soak import lines, measure
from tests.bench.soak_traffic import Asked, asked, outcome

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_nothing_is_lost_or_left_while_the_database_and_a_gateway_are_broken() -> None:
    with tempfile.TemporaryDirectory(prefix="gw-soak-") as folder:
        await anyio.Path(folder).chmod(0o711)
        figures = await measure(250, 1, Path(folder), limit_s=6.0, every_s=1.0, warm_up=20, at_once=8)
    assert [line for line in lines(figures) if line.is_met is False] == [], figures["wrong"]
    assert figures["streams"] > 20
    assert figures["disturbances"]
    assert figures["came_back"]


SUFFICIENT = "How? [[tokens=3 verdict=partial,sufficient]]"
HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def told(*frames: str) -> bytes:
    data = b"".join(f"{frame}\n\n".encode() for frame in frames)
    return HEAD + b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data)


def token(text: str) -> str:
    return f'event: token\ndata: {{"text": "{text}"}}'


DONE = "event: done\ndata: {}"
RIGHT = "a2d1w0 a2d1w1 a2d1w2 "
JUDGED = {
    "the whole answer": (told(token(RIGHT), DONE), "answered"),
    "no terminal event": (told(token(RIGHT)), "wrong"),
    "two terminal events": (told(token(RIGHT), DONE, DONE), "wrong"),
    "something after the end": (told(DONE, token(RIGHT)), "wrong"),
    "text of a discarded draft": (told(token("a1d1w0 "), DONE), "wrong"),
    "text of two drafts": (told(token("a1d1w0 "), token(RIGHT), DONE), "wrong"),
    "a word twice": (told(token("a2d1w0 "), token("a2d1w0 "), DONE), "wrong"),
    "a part": (told(token("a2d1w0 "), DONE), "excusable"),
    "nothing": (told(DONE), "excusable"),
    "a body that breaks off": (told(token(RIGHT), DONE)[:-5], "excusable"),
    "no response": (b"", "excusable"),
    "turned away": (b"HTTP/1.1 503 No\r\n\r\n", "excusable"),
    "a status that nothing explains": (b"HTTP/1.1 422 No\r\n\r\n", "wrong"),
}


@pytest.mark.parametrize("name", JUDGED)
async def test_the_oracle_tells_what_is_wrong_from_what_a_disturbance_excuses(name: str) -> None:
    raw, expected = JUDGED[name]
    question = Asked(1, "/v1/answers", b"", Script.parse(SUFFICIENT), True, False, None)
    seen = outcome(question, raw, has_left=False)
    assert ("wrong" if seen.wrong else "excusable" if seen.excusable else seen.ended) == expected


async def test_a_client_that_has_left_may_have_seen_anything_but_a_discarded_draft() -> None:
    question = Asked(1, "/v1/answers", b"", Script.parse(SUFFICIENT), True, False, None)
    assert not outcome(question, told(token("a2d1w0 "))[:-9], has_left=True).wrong
    assert outcome(question, told(token("a1d1w0 "))[:-9], has_left=True).wrong


async def test_traffic_of_a_seed_is_always_the_same_and_reaches_every_kind() -> None:
    every = [asked(number, 1) for number in range(600)]
    assert every[:50] == [asked(number, 1) for number in range(50)]
    assert {each.path for each in every} >= {
        "/v1/answers",
        "/v1/chat/completions",
        "/api/chat",
        "/v1/documents",
        "/metrics",
    }
    assert any(each.is_faulty for each in every)
    assert any(each.leaves_after_s is not None for each in every)
