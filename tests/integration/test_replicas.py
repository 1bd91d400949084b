"""Three gateways as processes behind nginx over one PostgreSQL: one is restarted, one is killed, and no stream is lost.

A short form of `make rolling`.
"""

import signal
from pathlib import Path

import anyio
import pytest

from tests.bench.replicas import Replicas, replicas
from tests.bench.rolling import Tally, disturbed, streams, whole_of
from tests.support import installed
from tests.support.nginx import free_port

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def restart_one_and_kill_another(gateways: Replicas) -> None:
    first, second, _ = gateways.every
    await first.end(signal.SIGTERM)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first.start)
        await anyio.sleep(0.5)
        await second.end(signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_no_stream_is_lost_while_one_replica_is_restarted_and_another_killed(
    database_url: str, tmp_path: Path
) -> None:
    async with replicas(3, installed.nginx(), tmp_path, database_url) as gateways:
        seen = (
            await disturbed(gateways, 48, 12.0, await whole_of(gateways), 1, restart_one_and_kill_another)
        ).figures()
        codes = [replica.codes for replica in gateways.every]
    assert seen["lost"] == []
    assert seen["read_elsewhere"] > 0  # a client that was cut off read on at another replica
    assert len(seen["by_server"]) == 3
    assert codes == [[0], [-signal.SIGKILL], []]


@pytest.mark.timeout(120)
async def test_rolling_counts_a_stream_that_nobody_answers_as_lost(tmp_path: Path) -> None:
    tally = Tally()
    with anyio.fail_after(20):
        await streams(2, 20.0, free_port(), "whole", 1, tally, limit_s=0.5)
    assert len(tally.figures()["lost"]) == 2
