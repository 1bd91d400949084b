"""A process ends, asked to or not: with a database of its own and a collector, in the middle of an answer."""

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import psutil
import pytest

from tests.support.clients import Told, ask, client
from tests.support.gateway_process import GatewayProcess, gateway_process
from tests.support.otlp_receiver import otlp_receiver

pytestmark = pytest.mark.anyio

LONG = "When does the gate open? [[grade_ms=1 ttft_ms=1 tps=60 tokens=45]]"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gw-home-") as folder:
        Path(folder).chmod(0o711)  # run by root, the server's unprivileged account must get in
        (Path(folder) / "docs").mkdir()
        (Path(folder) / "docs" / "gate.md").write_text("# The gate\n\nThe gate opens at nine.")
        yield Path(folder)


async def ended_in_an_answer(gateway: GatewayProcess, number: signal.Signals) -> Told | None:
    """What a client was told of an answer in the middle of which the process got signal `number`; None where it broke off."""
    told: list[Told] = []

    async def read() -> None:
        try:
            told.append(await ask(gateway.base_url, LONG))
        except Exception:  # the connection ended with the process
            assert number is signal.SIGKILL

    async with anyio.create_task_group() as tasks, client(gateway.base_url) as http:
        tasks.start_soon(read)
        with anyio.fail_after(20):
            while not (await http.get("/readyz")).json()["open_answers"]:  # noqa: ASYNC110  over HTTP
                await anyio.sleep(0.01)
        gateway.signal(number)
    return told[0] if told else None


def servers_of(home: Path) -> list[int]:
    """The processes that name a file below `home` as theirs."""
    found = psutil.process_iter(["cmdline"])
    return [each.pid for each in found if any(str(home / "gateway") in word for word in each.info["cmdline"] or ())]


async def test_after_a_kill_the_next_start_is_clean_and_a_sigterm_leaves_nothing(home: Path) -> None:
    with otlp_receiver() as collector:
        settings = {
            "GATEWAY_RETRIEVER": "postgres",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
            "OTEL_BSP_SCHEDULE_DELAY": "60000",  # what arrives was flushed at the end
        }
        async with gateway_process(home, "--docs", str(home / "docs"), **settings) as gateway:
            await ended_in_an_answer(gateway, signal.SIGKILL)
            assert await gateway.exit_code() == -signal.SIGKILL
        async with gateway_process(home, "--docs", str(home / "docs"), **settings) as gateway:
            assert (await ask(gateway.base_url, "When? [[grade_ms=1 tokens=5]]")).one("done")["path"] == "clean"
            assert servers_of(home)
            told = await ended_in_an_answer(gateway, signal.SIGTERM)
            assert told is not None
            assert told.one("done")["path"] == "clean"
            assert await gateway.exit_code() == 0
        assert any("default, 1 document" in line for line in gateway.output)
        assert not any("Traceback" in line for line in gateway.output)
        trace_id = told.one("started")["trace_id"]
        assert any(span.name == "invoke_agent gateway" and span.trace_id == trace_id for span in collector.spans)
    with anyio.fail_after(10):
        while servers_of(home):  # noqa: ASYNC110  another process's end tells nobody
            await anyio.sleep(0.05)
