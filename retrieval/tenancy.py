"""Tenancy: for whom a transaction works. The one place where that is said to the database."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql

from retrieval.cleaning import storable

DEFAULT = "default"  # whose everything is where nobody is told apart

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

_BEGIN = sql.SQL("BEGIN; SET LOCAL gateway.tenant = {tenant}")
_ALONE = sql.SQL("SET LOCAL gateway.tenant = {tenant}; {statement}")


@asynccontextmanager
async def transaction_for(connection: Connection, tenant: str) -> AsyncIterator[None]:
    """One transaction of `connection` that sees and writes rows of `tenant` alone; committed at the end, rolled back on a failure.

    The policies of migrations/0011_tenants.sql hold it. To begin and to say for whom is one round trip, and no query: the isolation level
    can still be set. What is cancelled is not rolled back here: the pool closes a connection that is not idle.
    """
    await connection.execute(_BEGIN.format(tenant=sql.Literal(storable(tenant))), prepare=False)
    try:
        yield
    except Exception:
        with suppress(psycopg.Error):
            await connection.execute("ROLLBACK", prepare=False)
        raise
    await connection.execute("COMMIT", prepare=False)


async def row_for(
    connection: Connection, tenant: str, statement: str, values: Mapping[str, object]
) -> tuple[Any, ...] | None:
    """The first row of one statement that is a transaction of its own, for `tenant`, in one round trip; None where it has none.

    What is sent in one piece is one transaction. Such a piece takes no parameters: psycopg writes the values into it, quoted.
    """
    written = sql.SQL(psycopg.AsyncClientCursor(connection).mogrify(statement.encode(), values))
    cursor = await connection.execute(
        _ALONE.format(tenant=sql.Literal(storable(tenant)), statement=written), prepare=False
    )
    cursor.nextset()
    return await cursor.fetchone()
