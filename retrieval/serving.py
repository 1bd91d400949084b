"""The role that serves: what the gateway is in the database, so that row-level security holds for it.

Owners of tables and superusers are exempt from policies. So the gateway answers as `gateway_serving`, which owns nothing, may not
bypass them, and has the rights of grants.sql. Either it logs in so, or each of its connections becomes so before it does anything.
"""

import logging
from hashlib import sha256
from importlib.resources import files

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from retrieval.faults import RetrievalMisconfigured, RetrievalUnavailable
from retrieval.pool import Connection, connection_string

ROLE = "gateway_serving"

_EXISTS = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = %s)"
_MAY_SERVE = (
    "SELECT has_table_privilege(%s, 'own_passage', 'SELECT') AND has_any_column_privilege(%s, 'api_key', 'SELECT')"
)
_OWNS = "SELECT pg_has_role(current_user, relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('collection')"
_MARK = "SELECT obj_description(to_regclass('schema_migration'), 'pg_class')"
_STANDING = """
SELECT me.rolsuper OR me.rolbypassrls, owned.is_mine, owned.is_held
FROM pg_roles AS me, (
    SELECT pg_has_role(current_user, relowner, 'USAGE') AS is_mine, relforcerowsecurity AS is_held
    FROM pg_class WHERE oid = to_regclass('collection')
) AS owned WHERE me.rolname = current_user
"""

_log = logging.getLogger(__name__)


async def grant(connection: Connection, *, anew: bool) -> None:
    """Gives the role its rights, in the transaction of `connection`; makes it where it is absent and may be made.

    Not where they were given already as they are said now, unless `anew`. Of who may not do so nothing is changed and nothing raised.
    """
    rights = files("retrieval").joinpath("grants.sql").read_bytes()
    mark = f"rights {sha256(rights).hexdigest()}"
    if not anew and await _is_granted(connection, mark):
        return
    try:
        async with connection.transaction():
            await _make_role(connection)
            await connection.execute(rights)
            await connection.execute(sql.SQL("COMMENT ON TABLE schema_migration IS {}").format(mark))
    except psycopg.errors.InsufficientPrivilege:
        _log.debug("the role %s has not been given its rights: this database user may not", ROLE)


async def _is_granted(connection: Connection, mark: str) -> bool:
    """Whether nothing is to be done, or only the owner could do it."""
    if not await _one(connection, _OWNS):
        return True
    is_there = await _one(connection, _EXISTS, ROLE)
    return bool(is_there and await _one(connection, _MAY_SERVE, ROLE, ROLE) and await _one(connection, _MARK) == mark)


async def _make_role(connection: Connection) -> None:
    """The role belongs to the server, not to the database: another database's gateway may make it in the same moment."""
    if await _one(connection, _EXISTS, ROLE):
        return
    try:
        async with connection.transaction():
            await connection.execute(f"CREATE ROLE {ROLE} LOGIN".encode())  # without a password nobody can by password
    except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        return


async def serving(url: str) -> str:
    """The address from which to serve the migrated database at `url`.

    `url` itself where its login is neither owner nor superuser; else one whose connections become the role. Where the owner may not become
    the role it serves as itself, held to one tenant at a time by force; a warning says what that is worth. Raises RetrievalUnavailable,
    and RetrievalMisconfigured where nothing would hold: a login that bypasses row-level security and may not become the role.
    """
    try:
        async with await psycopg.AsyncConnection.connect(connection_string(url), autocommit=True) as connection:
            return becoming(url) if await _becomes_the_role(connection) else url
    except psycopg.OperationalError as error:
        raise RetrievalUnavailable("the database cannot be reached, or refused the connection") from error


def as_role(url: str) -> str:
    """The address `url` with the role as its login: for a server that asks for no password."""
    return make_conninfo(url, user=ROLE)


def becoming(url: str) -> str:
    """The address `url` whose connections become the role before they do anything."""
    given = conninfo_to_dict(url).get("options") or ""
    return make_conninfo(url, options=f"{given} -c role={ROLE}".strip())


async def _becomes_the_role(connection: Connection) -> bool:
    """Whether the login is one that has to become the role, and can."""
    standing = await (await connection.execute(_STANDING)).fetchone()
    if standing is None:
        return False  # no such tables here: whoever works with them says so
    is_exempt, is_owner, is_held = standing
    if not is_exempt and not is_owner:
        return False
    if await _may_become(connection):
        if is_held:
            await connection.execute("SELECT hold_owner(false)")
        return True
    if is_exempt:
        raise RetrievalMisconfigured(
            f"this database user bypasses row-level security and may not become {ROLE}: let the gateway log in as {ROLE}"
        )
    if not is_held:
        await connection.execute("SELECT hold_owner(true)")
    _log.warning(
        "the gateway serves as the owner of its tables, because it may not create or become the role %s: tenants are held apart against "
        "mistakes, not against injected SQL; see docs/security.md",
        ROLE,
    )
    return False


async def _may_become(connection: Connection) -> bool:
    """Whether this login can be the role; one that made it, or may hand it out, hands it to itself first."""
    if not await _one(connection, _EXISTS, ROLE) or not await _one(connection, _MAY_SERVE, ROLE, ROLE):
        return False
    if await _becomes(connection):
        return True
    try:
        await connection.execute(sql.SQL("GRANT {role} TO CURRENT_USER").format(role=sql.Identifier(ROLE)))
    except psycopg.errors.InsufficientPrivilege:
        return False
    return await _becomes(connection)


async def _becomes(connection: Connection) -> bool:
    try:
        async with connection.transaction():
            await connection.execute(f"SET LOCAL ROLE {ROLE}".encode())
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True


async def _one(connection: Connection, statement: str, *values: object) -> object:
    row = await (await connection.execute(statement.encode(), values)).fetchone()
    return None if row is None else row[0]
