"""What an answer leaves behind is gone when it ends; nothing waits for the garbage collector, whose passes hold up every stream."""

import gc
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from gateway.settings import read_settings
from gateway.wiring import wired
from tests.bench.stage import messages_process
from tests.support.gateway_app import Running, eventually, running
from tests.support.raw_client import request_bytes

pytestmark = pytest.mark.anyio

MOST = 20  # objects that a collection finds after an answer: none were seen; a cycle that holds an answer has hundreds
QUICK = "retrieve_ms=1 grade_ms=20 ttft_ms=1 tps=500 tokens=6"
PROVIDERS = ("scripted", "anthropic")
WHOLE = {
    "clean": ("", b'"path":"clean"'),
    "recovered": ("verdict=partial,sufficient", b'"path":"recovered"'),
    "refused": ("verdict=partial", b'"path":"refused"'),
    "whose grader fails": ("grader_fault=fail", b'"reason":"grader_unavailable"'),
    "whose draft fails": ("fault=unauthorized", b'"path":"failed"'),
    "whose draft fails once": ("fault=overloaded,none", b'"path":"clean"'),
}
LEFT = {
    "left while retrieving": ("retrieve_ms=60000", b'"retrieving"'),
    "left while grading": ("grade_ms=60000 tps=50 tokens=5000", b'"grading"'),
    "left while the model is silent": ("grade_ms=1 ttft_ms=60000", b"event: sources"),
    "left while it streams": ("tps=50 tokens=5000", b"event: token"),
    "left after a retry": ("verdict=partial grade_ms=150 tps=50 tokens=5000", b"event: retry"),
}


@pytest.fixture(autouse=True)
def _no_passes() -> Iterator[None]:
    """None but those that are asked for, and these over what comes from now on: it is a fraction of all that the tests have loaded."""
    gc.disable()
    gc.freeze()
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_no_answer_leaves_work_for_the_garbage_collector(provider: str, tmp_path: Path) -> None:
    left: dict[str, int] = {}
    async with served(provider, tmp_path) as server:
        for kind, (script, mark) in {**WHOLE, **LEFT}.items():
            for number in range(2):  # what is made once, for all that follow, is made with the first
                if number:
                    gc.collect()
                    gc.freeze()
                question = f"Is it {number}? [[{QUICK} {script}]]"
                await anyio.to_thread.run_sync(visit, server.port, question, mark, kind in WHOLE)
                await eventually(lambda: not is_busy(server))
            left[kind] = gc.collect()
    assert {kind: count for kind, count in left.items() if count > MOST} == {}


@asynccontextmanager
async def served(provider: str, folder: Path) -> AsyncIterator[Running]:
    """A gateway as `gateway serve` wires it, without a database, in this process; the service of its model is another one."""
    async with messages_process("[[]]", folder / "messages.jsonl") as (_, base_url):
        settings = read_settings(
            home=folder,
            provider=provider,
            graders=("model",),
            retriever="scripted",
            speculate="always",
            anthropic_api_key="none",
            anthropic_base_url=base_url,
            export_traces=False,
        )
        async with wired(settings) as built, running(built.house) as server:
            yield server


def visit(port: int, question: str, mark: bytes, stays: bool) -> None:
    """Asks, reads until `mark` and leaves, or stays to the end.

    From a thread and without an event loop, so that it is no garbage of the client's that is counted.
    """
    seen = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request_bytes(question).replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
        while (stays or mark not in seen) and (chunk := connection.recv(65_536)):
            seen += chunk
    assert mark in seen, seen


def is_busy(server: Running) -> bool:
    """Whether anything of a request is left in the server."""
    state = server.server.server_state
    return bool(server.house.open_answers.count or state.connections or state.tasks)
