"""Stopping a server cuts nobody off. FIELD_REPORTS A3, A11."""

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import anyio
import anyio.to_thread
import httpx2
import pytest
from sse_starlette.sse import AppStatus

from gateway.server import Server
from tests.support.clients import Told, ask, client
from tests.support.gateway_app import Running, eventually, running, scripted_house
from tests.support.gateway_process import GatewayProcess, gateway_process

pytestmark = pytest.mark.anyio

STREAMED = 50
GRADING = 10


async def reading(told: list[Told], base_url: str, question: str) -> None:
    told.append(await ask(base_url, question))


async def begun(base_url: str, count: int) -> None:
    """Returns when the server has `count` open answers."""
    async with client(base_url) as http:
        with anyio.fail_after(20):
            while (await http.get("/readyz")).json()["open_answers"] < count:  # noqa: ASYNC110  over HTTP
                await anyio.sleep(0.01)


async def test_sigterm_lets_released_answers_finish_and_ends_ungraded_ones_with_a_word(tmp_path: Path) -> None:
    released: list[Told] = []
    ungraded: list[Told] = []
    async with gateway_process(tmp_path, GATEWAY_DRAIN_GRACE_S="6") as gateway:
        async with anyio.create_task_group() as tasks:
            for n in range(STREAMED):
                tasks.start_soon(reading, released, gateway.base_url, f"s{n} [[grade_ms=1 ttft_ms=1 tps=30 tokens=90]]")
            for n in range(GRADING):
                tasks.start_soon(reading, ungraded, gateway.base_url, f"g{n} [[grade_ms=60000 ttft_ms=1]]")
            await begun(gateway.base_url, STREAMED + GRADING)
            gateway.signal(signal.SIGTERM)
            await turned_away(gateway)
        assert await gateway.exit_code() == 0
    assert [told.one("done")["path"] for told in released] == ["clean"] * STREAMED
    assert {told.text.count("w") for told in released} == {90}
    for told in ungraded:
        assert told.names[-2:] == ["failed", "done"]
        assert told.one("failed")["type"] == "shutting_down"
        assert told.one("failed")["retryable"] is True
        assert told.data("token") == []
    assert not any("Traceback" in line or "ERROR" in line for line in gateway.output)


async def turned_away(gateway: GatewayProcess) -> None:
    """While it drains, a server still accepts connections, says that it is not ready and takes no new question."""
    async with client(gateway.base_url) as http:
        with anyio.fail_after(5):
            while (ready := await http.get("/readyz")).status_code != 503:  # noqa: ASYNC110  over HTTP
                await anyio.sleep(0.01)
        assert ready.json()["status"] == "draining"
        refused = await http.post("/v1/answers", json={"question": "Is it?"})
        assert (await http.get("/healthz")).status_code == 200
    assert refused.status_code == 503
    assert refused.json()["error"]["type"] == "shutting_down"
    assert int(refused.headers["retry-after"]) > 0


async def test_idle_server_exits_with_0_on_sigint(tmp_path: Path) -> None:
    async with gateway_process(tmp_path) as gateway:
        gateway.signal(signal.SIGINT)
        assert await gateway.exit_code() == 0


async def test_second_signal_exits_at_once(tmp_path: Path) -> None:
    async with gateway_process(tmp_path, GATEWAY_DRAIN_GRACE_S="600") as gateway, anyio.create_task_group() as tasks:
        tasks.start_soon(cut_off, gateway.base_url)
        await begun(gateway.base_url, 1)
        gateway.signal(signal.SIGTERM)
        await turned_away(gateway)
        gateway.signal(signal.SIGTERM)
        assert await gateway.exit_code() == 0
        tasks.cancel_scope.cancel()


async def cut_off(base_url: str) -> None:
    with suppress(httpx2.TransportError):
        await ask(base_url, "Is it? [[grade_ms=60000]]")


async def test_an_idle_server_sleeps_and_knows_the_time_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    look = Server.on_tick

    async def counted(self: Server, counter: int) -> bool:
        looks.append(counter)
        return await look(self, counter)

    monkeypatch.setattr(Server, "on_tick", counted)
    async with running(scripted_house()) as server, client(server.base_url) as http:
        dates = set[str]()
        with anyio.fail_after(20):
            while len(dates) < 3:
                dates.add((await http.get("/healthz")).headers["date"])
                await anyio.sleep(0.05)
        assert len(looks) <= 5  # uvicorn's own server looks ten times a second


async def test_a_server_that_would_look_in_an_hour_stops_when_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.server.DATE_S", 3600.0)
    with anyio.fail_after(20):
        async with running(scripted_house()) as server:
            await ask(server.base_url, "Is it?")


async def test_draining_ends_a_whole_answer_with_503() -> None:
    async with running(scripted_house()) as server, client(server.base_url) as http:
        answers: list[httpx2.Response] = []

        async def post() -> None:
            answers.append(
                await http.post("/v1/answers", json={"question": "Is it? [[grade_ms=60000]]", "stream": False})
            )

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(post)
            await eventually(lambda: server.house.open_answers.count == 1)
            server.server.stop()
    assert answers[0].status_code == 503
    assert answers[0].json()["error"]["type"] == "shutting_down"


@pytest.fixture
def _left_over_exit_flag() -> Iterator[None]:
    """What a simulated shutdown of another application in this process leaves behind in sse-starlette."""
    AppStatus.should_exit = True
    yield
    AppStatus.should_exit = False


@pytest.mark.usefixtures("_left_over_exit_flag")
async def test_exit_flag_left_in_the_process_cuts_no_stream() -> None:
    async with running(scripted_house()) as server:
        told = await ask(server.base_url, "Is it? [[grade_ms=700]]")
    assert told.one("done")["path"] == "clean"


async def test_two_servers_in_one_process_do_not_share_their_end() -> None:
    async with running(scripted_house()) as second:
        async with running(scripted_house()) as first:
            assert (await ask(first.base_url, "Is it?")).one("done")["path"] == "clean"
        assert first.house.open_answers.is_draining
        told = await ask(second.base_url, "Is it? [[grade_ms=700]]")
    assert told.one("done")["path"] == "clean"
    assert AppStatus.should_exit is False


class Threaded:
    """A server with a loop and a thread of its own."""

    def __init__(self) -> None:
        self._running: Running | None = None
        self._is_up = Event()
        self._may_end = Event()
        self._thread = Thread(target=self._main)

    def __enter__(self) -> Running:
        self._thread.start()
        assert self._is_up.wait(10)
        assert self._running is not None
        return self._running

    def __exit__(self, *_: object) -> None:
        self._may_end.set()
        self._thread.join(20)
        assert not self._thread.is_alive()

    def _main(self) -> None:
        anyio.run(self._serve)

    async def _serve(self) -> None:
        async with running(scripted_house()) as self._running:
            self._is_up.set()
            await anyio.to_thread.run_sync(self._may_end.wait)


async def test_two_servers_in_two_threads_do_not_share_their_end() -> None:
    with Threaded() as second:
        async with running(scripted_house()) as first:
            assert (await ask(first.base_url, "Is it?")).one("done")["path"] == "clean"
        told = await ask(second.base_url, "Is it? [[grade_ms=700]]")
    assert told.one("done")["path"] == "clean"
