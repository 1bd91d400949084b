"""Waste shares: how several gateways on one database keep to one bucket of discarded tokens for each tenant, without asking on the way.

Each gateway borrows a share of a tenant's bucket, spends it from memory and, once a second in the background, borrows more where drafts
were refused, or gives back what it does not need. The shares of all gateways are rows of the table `waste_share`, of which the sum is never
above the bucket; what a gateway has used in the last minute stays in its share. So the sum of what is discarded in any 60 seconds is
never above the bucket either. A gateway that cannot reach the database uses its shares for LEASE_S, and then drafts after its verdicts;
the share of one that is lost is kept until all that it could have discarded is older than a minute.
"""

import logging
import math
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import psycopg

from gateway.beside import beside
from retrieval.faults import GatewayFault
from retrieval.pool import Connection, Pool
from streaming.allowance import WINDOW_S, Share

EVERY_S = 1.0
SOON_S = 0.05  # after a draft was refused; what others are refused meanwhile is asked for together
LEASE_S = 20.0
SLICES = (
    10  # of the bucket: so much beyond what is used is held ready, and twice as much each time that it was not enough
)
STEP_LIMIT_S = 2.0
LAST_LIMIT_S = 1.0
FIRST_TENANT = "default"  # has a share before the first question

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('waste ' || %(tenant)s, 0))"
_BORROW = """
INSERT INTO waste_share (tenant, gateway, tokens, expires_at)
SELECT %(tenant)s, %(gateway)s, greatest(%(keep)s, least(%(want)s, %(bucket)s - coalesce(sum(tokens), 0))),
       clock_timestamp() + %(expires_s)s * interval '1 second'
FROM waste_share WHERE tenant = %(tenant)s AND gateway <> %(gateway)s AND expires_at > clock_timestamp()
ON CONFLICT (tenant, gateway) DO UPDATE SET tokens = excluded.tokens, expires_at = excluded.expires_at
RETURNING tokens
"""
_SWEEP = "DELETE FROM waste_share WHERE tenant = %(tenant)s AND (expires_at <= clock_timestamp() OR tokens = 0)"

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Lent:
    """A tenant's share, how much beyond what is used is held ready, and what the database was last told."""

    share: Share
    ready: int
    told: int = 0


@dataclass(slots=True)
class WasteShares:
    """The shares of one gateway. `bucket` are the tokens that a tenant may discard in a minute, at all gateways together.

    `longest_s`: no draft is under way for longer. `now` is a clock in seconds that never goes back.
    """

    pool: Pool
    bucket: int
    longest_s: float
    now: Callable[[], float] = time.monotonic
    gateway: str = field(default_factory=lambda: secrets.token_hex(8))
    _lent: dict[str, Lent] = field(default_factory=dict)
    _short: anyio.Event = field(default_factory=anyio.Event)

    def of(self, tenant: str) -> Share:
        """The share of `tenant`; an empty one at first, which is filled soon."""
        if tenant not in self._lent:
            self._lent[tenant] = Lent(Notifying(self.now, self._is_short), self.slice)
            self._is_short()
        return self._lent[tenant].share

    @property
    def slice(self) -> int:
        return math.ceil(self.bucket / SLICES)

    def _is_short(self) -> None:
        self._short.set()

    async def run(self) -> None:
        """Keeps the shares until it is cancelled."""
        while True:
            with anyio.move_on_after(EVERY_S):
                await self._short.wait()
                await anyio.sleep(SOON_S)
            self._short = anyio.Event()
            if (
                not await self.step()
            ):  # no more is to be had for now: it is not asked for with every draft that is refused
                await anyio.sleep(EVERY_S)

    async def step(self) -> bool:
        """Borrows and gives back once; whether all that was wanted was had. Raises nothing: what failed is tried with the next step."""
        is_enough = True
        try:
            for tenant, lent in tuple(self._lent.items()):
                is_enough = await self._renew(tenant, lent) and is_enough
        except (GatewayFault, psycopg.Error) as error:
            _log.warning("shares of discarded tokens were not renewed: %s", error)
            return False
        return is_enough

    async def _renew(self, tenant: str, lent: Lent) -> bool:
        share, was_short = lent.share, lent.share.is_short
        share.is_short = False
        lent.ready = min(self.bucket, 2 * lent.ready) if was_short else max(self.slice, lent.ready // 2)
        is_wanted = was_short or share.used > 0 or tenant == FIRST_TENANT
        want = min(self.bucket, share.used + lent.ready) if is_wanted else 0
        if not was_short and (is_as_wanted(share, want, self.slice) or not (is_wanted or lent.told)):
            return True
        if share.units:
            keep = max(share.units, share.used) if want >= share.units else share.give_back(want)
        else:  # its time was over, or has not begun: only what is used is still its own
            share.lend(share.used, -math.inf)
            keep = share.used
        asked_s = self.now()
        tokens = await self._borrow(tenant, keep, max(keep, want), LEASE_S + self.longest_s + WINDOW_S)
        share.lend(max(tokens, share.used), asked_s + LEASE_S)
        lent.told = tokens
        return tokens >= want

    async def _borrow(self, tenant: str, keep: int, want: int, expires_s: float) -> int:
        values = {
            "tenant": tenant,
            "gateway": self.gateway,
            "keep": keep,
            "want": want,
            "bucket": self.bucket,
            "expires_s": expires_s,
        }

        async def borrow(connection: Connection) -> int:
            await connection.execute(_LOCK, values)
            row = await (await connection.execute(_BORROW, values)).fetchone()
            await connection.execute(_SWEEP, values)
            return 0 if row is None else int(row[0])

        return await self.pool.run_for(tenant, borrow, STEP_LIMIT_S)

    async def give_back(self) -> None:
        """At the end: what was used counts for one more minute, the rest is free at once. Raises GatewayFault or psycopg.Error."""
        for tenant, lent in self._lent.items():
            if lent.told or lent.share.used:
                used = lent.share.used
                lent.share.lend(used, -math.inf)
                await self._borrow(tenant, used, used, WINDOW_S)


def is_as_wanted(share: Share, want: int, slice_tokens: int) -> bool:
    """Whether a share may stay as it is: lent for a good while yet, and neither too small nor much too large."""
    return share.left_s > LEASE_S / 2 and 0 <= share.units - want < slice_tokens


class Notifying(Share):
    """A share that tells at once when it was not enough."""

    def __init__(self, now: Callable[[], float], tell: Callable[[], None]) -> None:
        super().__init__(now)
        self._tell = tell

    def reserve(self, units: int, at_least: int) -> int:
        """See Allowance."""
        taken = super().reserve(units, at_least)
        if taken < units:
            self._tell()
        return taken


@asynccontextmanager
async def open_waste_shares(pool: Pool, bucket: int, longest_s: float) -> AsyncIterator[WasteShares]:
    """Shares that are kept until the end of the block, and given back within LAST_LIMIT_S seconds then."""
    shares = WasteShares(pool, bucket, longest_s)
    shares.of(FIRST_TENANT)
    await shares.step()
    try:
        async with beside(shares.run, "waste shares"):
            yield shares
    finally:
        with anyio.move_on_after(LAST_LIMIT_S, shield=True):
            try:
                await shares.give_back()
            except (GatewayFault, psycopg.Error) as error:
                _log.warning("shares of discarded tokens were not given back: %s", error)
