"""The decision log: the table `decision`, written behind the answers, bounded, and read by what learns from it."""

import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields
from math import isfinite
from typing import Any

import anyio
from anyio import to_thread
from psycopg.types.json import Jsonb

from gateway.beside import beside
from gateway.decisions import Decision
from grading.calibrate import Example
from grading.score import FREE_SIGNALS
from grading.signals import UNDECIDED
from retrieval.cleaning import storable
from retrieval.pool import Connection, Pool

WAITING = 2_000  # decisions that may wait to be written; more come only while the database is away, and are dropped
TOGETHER = 500  # in one statement
PAUSE_S = 0.5  # what comes meanwhile is written together
WRITE_LIMIT_S = 2.0
READ_LIMIT_S = 30.0
LAST_LIMIT_S = 2.0  # of what still waits when the server stops
PRUNE_EVERY = 1_000  # rows

COLUMNS = tuple(each.name for each in fields(Decision) if each.name != "seen")
_NEUTRAL = {"agreement": UNDECIDED}  # rows of an older version do not have it
_LIST = ", ".join((*COLUMNS, "signals"))
_INSERT = f"INSERT INTO decision ({_LIST}) SELECT {_LIST} FROM jsonb_populate_recordset(NULL::decision, %s)"
_PRUNE = "DELETE FROM decision WHERE id <= (SELECT max(id) FROM decision) - %s"  # of the tenant that has written
_VERDICTS = """
SELECT question, collection, verdict = 'sufficient', signals FROM decision
WHERE tenant = %s AND collection = %s AND signals IS NOT NULL AND verdict IS NOT NULL AND grader <> ALL(%s)
ORDER BY id DESC LIMIT %s
"""

_log = logging.getLogger(__name__)


class DecisionLog:
    """Decisions that wait for one task to write them (gateway.decisions.Decisions). At most `rows` of each tenant stay in the table.

    An answer is never held up by it, nor hurt: what the database does not take in time is dropped, with a warning.
    """

    def __init__(self, pool: Pool, rows: int) -> None:
        self._pool, self._rows = pool, rows
        self._waiting: deque[Decision] = deque()
        self._came = anyio.Event()
        self._since_pruned: dict[str, int] = {}  # of each tenant; none yet, so its first write prunes
        self.dropped = 0
        """Decisions that were not written."""

    def add(self, decisions: tuple[Decision, ...]) -> None:
        """As the port says."""
        fitting = decisions[: max(0, WAITING - len(self._waiting))]
        self.dropped += len(decisions) - len(fitting)
        self._waiting.extend(fitting)
        self._came.set()

    async def run(self) -> None:
        """Writes what comes until it is cancelled."""
        while True:
            await self._came.wait()
            await anyio.sleep(PAUSE_S)
            self._came = anyio.Event()
            with anyio.CancelScope(shield=True):  # bounded by WRITE_LIMIT_S: what is half written at the end is written
                await self.flush()

    async def flush(self) -> None:
        """Writes what waits now. Raises nothing; on cancellation what was being written may or may not be."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(TOGETHER, len(self._waiting)))]
            for tenant, decisions in by_tenant(batch).items():
                try:
                    await self._write(tenant, decisions)
                except Exception as error:  # whatever it is, no answer is worse for it
                    self.dropped += len(decisions)
                    _log.warning("%d decisions were not logged: %s", len(decisions), error)

    async def _write(self, tenant: str, batch: Sequence[Decision]) -> None:
        rows = Jsonb(await to_thread.run_sync(rows_of, batch))
        unpruned = self._since_pruned.get(tenant, PRUNE_EVERY) + len(batch)
        prunes = unpruned >= PRUNE_EVERY

        async def insert(connection: Connection) -> None:
            await connection.execute(_INSERT, (rows,))
            if prunes:
                await connection.execute(_PRUNE, (self._rows,))

        await self._pool.run_for(tenant, insert, WRITE_LIMIT_S)
        self._since_pruned[tenant] = 0 if prunes else unpruned


@asynccontextmanager
async def open_decision_log(pool: Pool, rows: int) -> AsyncIterator[DecisionLog]:
    """A log that writes until the end of the block; what waits then is written within LAST_LIMIT_S seconds."""
    log = DecisionLog(pool, rows)
    try:
        async with beside(log.run, "decision log"):
            yield log
    finally:
        with anyio.move_on_after(LAST_LIMIT_S, shield=True):
            await log.flush()


def by_tenant(batch: Sequence[Decision]) -> dict[str, list[Decision]]:
    """The decisions of each tenant: no transaction writes for two."""
    found: dict[str, list[Decision]] = {}
    for decision in batch:
        found.setdefault(decision.tenant, []).append(decision)
    return found


def rows_of(batch: Sequence[Decision]) -> list[dict[str, Any]]:
    """The rows of the table, with the free signals of what was seen. A set that cannot be measured has none."""
    return [_row(decision) for decision in batch]


def _row(decision: Decision) -> dict[str, Any]:
    row = {name: _plain(getattr(decision, name)) for name in COLUMNS}
    signals: dict[str, float] | None = None
    try:
        signals = decision.seen.signals() if decision.seen is not None else None
    except Exception as error:
        _log.warning("the signals of answer %s were not measured: %s", decision.trace_id, error)
    return {**row, "signals": signals}


def _plain(value: object) -> object:
    match value:
        case str():
            return storable(value)
        case float():
            return value if isfinite(value) else None
        case None | bool() | int():
            return value
        case _:
            return str(value)


class DecisionReader:
    """Reads the table `decision`. Each method holds a connection only while it runs; raises RetrievalUnavailable."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def verdicts(
        self, collection: str, *, tenant: str = "default", limit: int = 20_000, but_by: Sequence[str] = ("score",)
    ) -> tuple[Example, ...]:
        """The newest verdicts with their signals (FREE_SIGNALS, in order), repeats of a question in one group.

        Not those of the graders `but_by`: what is fitted on its own verdicts learns nothing.
        """

        async def select(connection: Connection) -> list[tuple[str, str, bool, dict[str, float]]]:
            found = await connection.execute(_VERDICTS, (tenant, collection, list(but_by), limit))
            return await found.fetchall()

        rows = await self._pool.run_for(tenant, select, READ_LIMIT_S)
        known = [(question, origin, good, {**_NEUTRAL, **signals}) for question, origin, good, signals in rows]
        return tuple(
            Example(tuple(float(signals[name]) for name in FREE_SIGNALS), sufficient, question, origin)
            for question, origin, sufficient, signals in known
            if all(name in signals for name in FREE_SIGNALS)
        )
