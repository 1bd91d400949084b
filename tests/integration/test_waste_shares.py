"""What a tenant may discard in a minute is one bucket for all gateways of a database, spent from memory."""

import random
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from gateway.settings import read_settings
from gateway.waste_shares import FIRST_TENANT, LEASE_S, WasteShares, open_waste_shares
from gateway.wiring import wired
from retrieval.pool import Pool, open_pool
from streaming.allowance import WINDOW_S, Share
from tests.support.embeddings_api import embeddings_api
from tests.support.gateway_app import eventually

pytestmark = pytest.mark.anyio

BUCKET = 1_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass(slots=True)
class World:
    """Gateways on one database in virtual time, the drafts that are under way, and what was discarded when."""

    pool: Pool
    now: float = 0.0
    gateways: list[WasteShares] = field(default_factory=list)
    under_way: deque[tuple[Share, int]] = field(default_factory=deque)
    discarded: list[tuple[float, int]] = field(default_factory=list)

    def opened(self) -> WasteShares:
        gateway = WasteShares(self.pool, BUCKET, 5.0, now=lambda: self.now)
        self.gateways.append(gateway)
        return gateway

    def draft(self, gateway: WasteShares, tokens: int) -> int:
        """Starts a draft that may come to hold so many tokens; how many it may."""
        share = gateway.of("one")
        taken = share.reserve(tokens, at_least=min(tokens, 32))
        if taken:
            self.under_way.append((share, taken))
        return taken

    def discard(self, part: float) -> None:
        """Ends the oldest draft, of which so much had been written."""
        share, taken = self.under_way.popleft()
        self.discarded.append((self.now, round(taken * part)))
        share.settle(taken, round(taken * part))

    def most_in_any_minute(self) -> int:
        moments = [at_s for at_s, _ in self.discarded]
        return max((sum(n for at_s, n in self.discarded if end - WINDOW_S < at_s <= end) for end in moments), default=0)


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("TRUNCATE waste_share")
    async with open_pool(database_url, size=2) as pool:
        yield World(pool)


async def lent(world: World) -> int:
    async def total(connection: psycopg.AsyncConnection[tuple[int]]) -> int:
        row = await (await connection.execute("SELECT coalesce(sum(tokens), 0)::int FROM waste_share")).fetchone()
        return 0 if row is None else row[0]

    return await world.pool.run(total)


@pytest.mark.parametrize("seed", range(3))
async def test_gateways_together_never_discard_more_than_the_bucket_in_any_minute(world: World, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(3):
        world.opened()
    for _ in range(150):
        world.now += chance.choice((0.2, 0.5, 1.0, 7.0))
        for gateway in world.gateways:
            for _ in range(chance.randrange(4)):
                world.draft(gateway, chance.choice((10, 60, 200)))
        while len(world.under_way) > 6:
            world.discard(chance.random())
        for gateway in chance.sample(world.gateways, chance.randrange(4)):
            await gateway.step()
        if chance.random() < 0.05:  # one is lost without a word, and another comes
            gone = world.gateways.pop(0)
            world.under_way = deque(each for each in world.under_way if each[0] is not gone.of("one"))
            world.opened()
        assert await lent(world) <= BUCKET
    most = world.most_in_any_minute()
    assert BUCKET / 3 < most <= BUCKET  # a bound that nothing comes near would prove nothing


async def test_one_gateway_can_use_what_the_other_does_not_need(world: World) -> None:
    busy, idle = world.opened(), world.opened()
    idle.of("one")
    taken = 0
    for _ in range(12):
        taken += world.draft(busy, 200)
        await busy.step()
        await idle.step()
        world.now += 1.0
    assert taken >= BUCKET - BUCKET // 10  # all but the slice that the other holds ready
    while world.under_way:
        world.discard(1.0)
    world.now += WINDOW_S + 2
    for gateway in (idle, busy, idle, busy):
        await gateway.step()
    assert await lent(world) == 0


async def test_what_was_spent_stays_lent_until_it_is_a_minute_old(world: World) -> None:
    first, second = world.opened(), world.opened()
    while world.draft(first, 200) or len(world.under_way) < 2:
        await first.step()
        world.now += 0.1
    for _ in range(4):
        await first.step()
        world.draft(first, BUCKET)
    while world.under_way:
        world.discard(1.0)
    spent = sum(tokens for _, tokens in world.discarded)
    await first.give_back()
    world.draft(second, BUCKET)
    await second.step()
    assert second.of("one").units <= BUCKET - spent


async def test_a_gateway_without_its_database_stops_drafting_when_its_lease_is_over(world: World) -> None:
    gateway = world.opened()
    world.draft(gateway, 10)
    await gateway.step()
    assert world.draft(gateway, 10) == 10
    world.now += LEASE_S - 0.1
    assert world.draft(gateway, 10) == 10
    world.now += 0.2
    assert world.draft(gateway, 10) == 0
    async with open_pool("postgresql://127.0.0.1:1/none", size=1) as away:
        gateway.pool = away
        assert not await gateway.step()
    gateway.pool = world.pool
    await gateway.step()
    assert world.draft(gateway, 10) == 10


async def test_a_database_that_takes_no_writes_ends_no_gateway(world: World, database_url: str) -> None:
    """As after a failover, when connections lead to a standby."""
    standby = make_conninfo(database_url, options="-c default_transaction_read_only=on")
    async with open_pool(standby, size=1) as pool, open_waste_shares(pool, BUCKET, 5.0) as shares:
        assert not await shares.step()
        assert shares.of(FIRST_TENANT).reserve(32, at_least=32) == 0


async def test_idle_gateway_asks_the_database_for_nothing(world: World) -> None:
    gateway = world.opened()
    gateway.of(FIRST_TENANT)
    await gateway.step()
    async with open_pool("postgresql://127.0.0.1:1/none", size=1) as away:
        gateway.pool = away
        assert await gateway.step()
    gateway.pool = world.pool


async def test_shares_are_filled_in_the_background_and_given_back_at_the_end(world: World) -> None:
    async with open_waste_shares(world.pool, BUCKET, 5.0) as shares:
        assert shares.of(FIRST_TENANT).reserve(50, at_least=50) == 50  # before anything was asked
        shares.of(FIRST_TENANT).settle(50, 50)
        assert shares.of("another").reserve(50, at_least=50) == 0
        await eventually(lambda: shares.of("another").units >= 50, 15.0)
        assert await lent(world) > 50
    assert await lent(world) == 50


@asynccontextmanager
async def gateway_on(url: str, folder: Path, embeddings_url: str) -> AsyncIterator[Share]:
    settings = read_settings(
        database_url=url,
        home=folder,
        provider="scripted",
        graders=("model",),
        embeddings_url=embeddings_url,
        embeddings_model="hashing",
        embeddings_dimensions=32,
        waste_tokens=BUCKET,
        export_traces=False,
        export_metrics=False,
    )
    async with wired(settings) as built:
        share = built.house.speculation.waste(FIRST_TENANT)
        assert isinstance(share, Share)
        yield share


async def test_two_gateways_as_they_are_wired_have_one_bucket(world: World, database_url: str, tmp_path: Path) -> None:
    taken = [0, 0]
    with embeddings_api() as embeddings:
        async with (
            gateway_on(database_url, tmp_path, embeddings.base_url) as here,
            gateway_on(database_url, tmp_path, embeddings.base_url) as there,
        ):
            with anyio.fail_after(30):
                while sum(taken) < BUCKET * 0.9:
                    for place, share in enumerate((here, there)):
                        taken[place] += share.reserve(40, at_least=10)
                    await anyio.sleep(0.02)
            for _ in range(20):
                for place, share in enumerate((here, there)):
                    taken[place] += share.reserve(40, at_least=1)
                await anyio.sleep(0.02)
    assert min(taken) > 0
    assert sum(taken) <= BUCKET
