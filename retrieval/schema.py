"""The database schema: numbered SQL files, applied in order, each once.

Whoever migrates owns the tables. The gateway serves under another role (retrieval/serving.py), which has the rights of grants.sql.
"""

from importlib.resources import files

import anyio
import psycopg

from retrieval.faults import RetrievalMisconfigured, RetrievalUnavailable
from retrieval.pool import Connection, connection_string
from retrieval.serving import grant

MIGRATE_LIMIT_S = 60.0  # a second process waits this long for the first one's lock
LOCK_KEY = 7_236_115_009  # any constant of our own; one lock per database

_RECORD = """
CREATE TABLE IF NOT EXISTS schema_migration (
    name text PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""


def migrations() -> dict[str, str]:
    """Every migration's SQL by name, in the order in which they apply."""
    found = [file for file in files("retrieval").joinpath("migrations").iterdir() if file.name.endswith(".sql")]
    return {file.name.removesuffix(".sql"): file.read_text() for file in sorted(found, key=lambda file: file.name)}


async def migrate(url: str, limit_s: float = MIGRATE_LIMIT_S, *, grants_anew: bool = False) -> tuple[str, ...]:
    """Brings the database at `url` up to date; the names applied now, in order, nothing when it already was.

    All of them are one transaction under an advisory lock: of several processes one applies, the others wait, and a failure leaves the
    database as it was. Raises RetrievalUnavailable (not reachable, or not within `limit_s` seconds) or RetrievalMisconfigured
    (no pgvector, missing rights, or a database that a newer version has migrated). Where nothing is to be applied, a user may do this that
    has no right to. The role that serves is made where it may be, and given its rights: where they are not as grants.sql says them, or
    `grants_anew`.
    """
    try:
        with anyio.fail_after(limit_s):
            async with await psycopg.AsyncConnection.connect(connection_string(url)) as connection:
                return await _apply(connection, grants_anew=grants_anew)
    except TimeoutError as error:
        raise RetrievalUnavailable(f"the database was not migrated within {limit_s:g} s") from error
    except psycopg.OperationalError as error:
        raise RetrievalUnavailable("the database cannot be reached, or refused the connection") from error
    except _NO_PGVECTOR as error:
        raise RetrievalMisconfigured(
            "the database server has no pgvector extension: install it, then try again"
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise RetrievalMisconfigured("the database user may not create tables or the `vector` extension") from error


_NO_PGVECTOR = (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported)


async def _apply(connection: Connection, *, grants_anew: bool) -> tuple[str, ...]:
    await connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK_KEY,))
    applied = await _applied(connection)
    ours = migrations()
    if newer := sorted(applied - ours.keys()):
        raise RetrievalMisconfigured(f"the database was migrated by a newer version of this gateway ({newer[-1]})")
    pending = tuple(name for name in ours if name not in applied)
    if pending:
        await connection.execute(_RECORD)
    for name in pending:
        await connection.execute(ours[name].encode())
        await connection.execute("INSERT INTO schema_migration (name) VALUES (%s)", (name,))
    await grant(connection, anew=grants_anew or bool(pending))
    return pending


async def _applied(connection: Connection) -> set[str]:
    (is_there,) = await (await connection.execute("SELECT to_regclass('schema_migration') IS NOT NULL")).fetchall()
    if not is_there[0]:
        return set()
    return {name for (name,) in await (await connection.execute("SELECT name FROM schema_migration")).fetchall()}
