"""What the database itself holds: the role that serves, asked in SQL, sees and writes rows of one tenant, whatever the SQL says."""

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from retrieval.faults import RetrievalMisconfigured
from retrieval.pool import Connection, open_pool
from retrieval.ports import Query
from retrieval.postgres import PostgresRetriever
from retrieval.schema import migrate, migrations
from retrieval.serving import ROLE, as_role, becoming, serving
from retrieval.store import PassageStore
from tests.support.embedders import HashingEmbedder
from tests.support.library import shelve
from tests.support.postgres import emptied, fresh_database
from tests.support.tenants import MINE, SECRETS, WORDS, YOURS, two_tenants

pytestmark = pytest.mark.anyio

OF_EVERYBODY = {"api_key"}  # it says whose a key is; its rows are no tenant's


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def tenant_tables(url: str) -> list[str]:
    """Every table that has a column `tenant`, of whatever migration."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT c.relname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
            "WHERE a.attname = 'tenant' AND c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY 1"
        ).fetchall()
    return [name for (name,) in found if name not in OF_EVERYBODY]


def test_every_table_of_tenants_is_under_a_policy_and_the_role_is_exempt_from_none(database_url: str) -> None:
    with psycopg.connect(becoming(database_url)) as connection:
        role = connection.execute(
            "SELECT current_user, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
        assert role == (ROLE, False, False, False, False)
        held = connection.execute(
            "SELECT c.relname, c.relrowsecurity, pg_has_role(current_user, c.relowner, 'MEMBER'), "
            "array_agg(pg_get_expr(p.polqual, p.polrelid)) FROM pg_class c JOIN pg_policy p ON p.polrelid = c.oid GROUP BY 1, 2, 3"
        ).fetchall()
    own = ["(tenant = current_setting('gateway.tenant'::text, true))"]
    assert {name: rest for name, *rest in held} == {name: [True, False, own] for name in tenant_tables(database_url)}
    assert len(held) >= 12


def test_no_table_of_ours_is_without_a_tenant(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        found = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        )
        assert {name for (name,) in found} - set(tenant_tables(database_url)) == {"schema_migration", "api_key"}


async def test_sql_that_names_no_tenant_sees_its_own_rows_alone(database_url: str) -> None:
    """As if every condition on the tenant had been forgotten, everywhere."""
    async with two_tenants(database_url) as both:
        tables = [name for name in tenant_tables(database_url) if name != "passage"] + ["own_passage"]

        async def look(connection: Connection) -> dict[str, set[str]]:
            seen: dict[str, set[str]] = {}
            for table in tables:
                statement = sql.SQL("SELECT DISTINCT tenant FROM {}").format(sql.Identifier(table))
                seen[table] = {tenant for (tenant,) in await (await connection.execute(statement)).fetchall()}
            return seen

        filled = {"collection", "document", "term", "collection_size", "own_passage"}
        for tenant in (MINE, YOURS):
            seen = await both.pool.run_for(tenant, look)
            assert {table for table, tenants in seen.items() if tenants} == filled
            assert set().union(*seen.values()) == {tenant}
        for nobody in ("", "nobody", "mine ", "MINE", "mine' OR 'a' = 'a"):
            assert not any((await both.pool.run_for(nobody, look)).values()), nobody
        assert not any((await both.pool.run(look)).values()), "a transaction that names no tenant sees nothing"


async def test_a_search_sees_nothing_of_another_tenant_by_its_collections_number(database_url: str) -> None:
    async with two_tenants(database_url) as both:

        async def numbers(connection: Connection) -> list[int]:
            return [one for (one,) in await (await connection.execute("SELECT id FROM collection")).fetchall()]

        async def texts(connection: Connection) -> list[str]:
            statement = "SELECT text FROM own_passage WHERE collection_id = ANY(%s)"
            return [text for (text,) in await (await connection.execute(statement, (theirs,))).fetchall()]

        theirs = await both.pool.run_for(MINE, numbers)
        assert await both.pool.run_for(MINE, texts) == [SECRETS[MINE]] * 2
        assert await both.pool.run_for(YOURS, texts) == []


WRITES = {
    "collection": "INSERT INTO collection (tenant, name, model, dimensions, chunking) VALUES ('mine', 'x', 'm', 3, '{}')",
    "document": "INSERT INTO document (id, collection_id, root, source, title, content_hash, tenant) "
    "SELECT 'x', %(theirs)s, '/', 'x', 'x', 'x', 'mine'",
    "document of a collection": "INSERT INTO document (id, collection_id, root, source, title, content_hash) "
    "SELECT 'x', %(theirs)s, '/', 'x', 'x', 'x'",
    "document moved": "UPDATE document SET tenant = 'mine'",
    "document taken": "INSERT INTO document (id, collection_id, root, source, title, content_hash) "
    "VALUES ('mine-default', %(ours)s, '/', 'x', 'x', 'x') ON CONFLICT (id) DO UPDATE SET title = 'taken'",
    "passage": "INSERT INTO passage (id, document_id, collection_id, ordinal, start_char, end_char, title, text, dimensions, embedding) "
    "VALUES ('x', 'mine-default', %(theirs)s, 9, 0, 1, 'x', 'x', 3, '[1,2,3]')",
    "passage named": "INSERT INTO passage (id, tenant) VALUES ('x', 'mine')",
    "passage read": "SELECT text FROM passage",
    "passage removed": "DELETE FROM passage",
    "gap": "INSERT INTO coverage_gap (id, tenant, collection, question, reason, searched, attempts, answer_id, group_id) "
    "VALUES ('x', 'mine', 'default', 'q', 'r', '{}', 1, 'a', 'x')",
    "cached answer": "INSERT INTO kept_answer (tenant, collection, made_by, model, question, embedding, answer) "
    "VALUES ('mine', 'default', 'm', 'm', 'q', '[1]', '{}')",
    "recording": "INSERT INTO recording (answer_id, owner, digest, expires_at, tenant) VALUES ('x', '', '', now(), 'mine')",
    "calibration": "INSERT INTO calibration (tenant, collection, grader, version, model) VALUES ('mine', 'x', 'g', 'v', '{}')",
    "key": "INSERT INTO api_key (id, digest, tenant, name, roles) VALUES ('x', sha256('x'), 'mine', '', '{admin}')",
    "key raised": "UPDATE api_key SET roles = '{admin}'",
    "key names": "SELECT name FROM api_key",
    "policy": "ALTER TABLE document DISABLE ROW LEVEL SECURITY",
    "policy dropped": "DROP POLICY own ON document",
    "policy held": "SELECT hold_owner(false)",
    "unprotected": "SET row_security = off; SELECT count(*) FROM document",
    "migrations": "DELETE FROM schema_migration",
    "table": "CREATE TABLE mine (x int)",
}


@pytest.mark.parametrize("what", WRITES)
async def test_nothing_is_written_for_another_tenant_nor_changed_of_the_rules(database_url: str, what: str) -> None:
    async with two_tenants(database_url) as both:
        with psycopg.connect(database_url) as owner:
            numbers: dict[str, int] = dict(
                owner.execute("SELECT tenant, id FROM collection WHERE name = 'default'").fetchall()
            )

        async def write(connection: Connection) -> None:
            named = {"theirs": numbers[MINE], "ours": numbers[YOURS]}
            await connection.execute(WRITES[what].encode(), named if "%(" in WRITES[what] else None)

        with pytest.raises((psycopg.Error, RetrievalMisconfigured)) as raised:
            await both.pool.run_for(YOURS, write)
        cause = raised.value.__cause__ or raised.value
        assert isinstance(
            cause,
            psycopg.errors.InsufficientPrivilege
            | psycopg.errors.ForeignKeyViolation
            | psycopg.errors.InvalidParameterValue,
        )


TAKEN = """
CREATE TEMP TABLE recording (expires_at timestamptz, alive_at timestamptz);
CREATE FUNCTION pg_temp.take() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO pg_temp.taken SELECT current_user; RETURN OLD; END $$;
CREATE TRIGGER take BEFORE DELETE ON pg_temp.recording FOR EACH ROW EXECUTE FUNCTION pg_temp.take();
CREATE TEMP TABLE taken (by_whom name);
INSERT INTO pg_temp.recording VALUES ('2000-01-01', '2000-01-01');
SELECT sweep_recordings(0), refresh_statistics();
"""


def test_what_the_owner_does_for_the_role_meets_no_temporary_table_of_the_roles(database_url: str) -> None:
    """Its triggers would run as the owner, who may be a superuser."""
    with psycopg.connect(as_role(database_url), autocommit=True) as connection:
        connection.execute(TAKEN.encode())
        assert connection.execute("SELECT by_whom FROM pg_temp.taken").fetchall() == []
        open_paths = connection.execute(
            "SELECT proname FROM pg_proc WHERE prosecdef AND pronamespace = 'public'::regnamespace "
            "AND NOT coalesce(array_to_string(proconfig, ';'), '') ~ 'search_path=[^;]*, pg_temp$'"
        ).fetchall()
        assert open_paths == [], "temporary tables come first where a path does not put them last"


async def test_rows_from_before_tenants_belong_to_who_had_them_and_are_found(server_url: str) -> None:
    with fresh_database(server_url, migrated=False) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE schema_migration (name text PRIMARY KEY, applied_at timestamptz DEFAULT now())"
            )
            for name, statements in [one for one in migrations().items() if one[0] < "0011"]:
                connection.execute(statements.encode())
                connection.execute("INSERT INTO schema_migration (name) VALUES (%s)", (name,))
            embedder = HashingEmbedder()
            for tenant in ("default", "acme"):
                (number,) = connection.execute(
                    "INSERT INTO collection (tenant, name, model, dimensions, chunking) VALUES (%s, 'default', %s, %s, '{}') RETURNING id",
                    (tenant, embedder.model, embedder.dimensions),
                ).fetchone() or (0,)
                connection.execute(
                    "INSERT INTO document (id, collection_id, root, source, title, content_hash) VALUES (%s, %s, '/', 'd', 'Tea', 'x')",
                    (tenant, number),
                )
                (vector,) = await embedder.embed_passages([f"Tea of {tenant}."])
                connection.execute(
                    "INSERT INTO passage (id, document_id, collection_id, ordinal, start_char, end_char, title, text, dimensions, "
                    "embedding) VALUES (%s, %s, %s, 0, 0, 1, 'Tea', %s, %s, %s::vector)",
                    (f"{tenant}:0", tenant, number, f"Tea of {tenant}.", embedder.dimensions, str(list(vector))),
                )
        assert (await migrate(url))[0].startswith("0011")
        async with open_pool(await serving(url), size=1) as pool:
            retriever = PostgresRetriever(pool, embedder)
            for tenant in ("default", "acme"):
                for mode in ("dense", "lexical", "hybrid"):
                    found = await retriever.retrieve(Query("tea", tenant=tenant, mode=mode))  # type: ignore[arg-type]
                    assert [one.text for one in found] == [f"Tea of {tenant}."]
        with psycopg.connect(url, autocommit=True) as old:  # a gateway of the version before, until it is replaced
            old.execute(
                "INSERT INTO document (id, collection_id, root, source, title, content_hash) "
                "SELECT 'late', id, '/', 'late', 'Late', 'x' FROM collection WHERE tenant = 'default'"
            )
            assert old.execute("SELECT tenant FROM document WHERE id = 'late'").fetchone() == ("default",)


@contextmanager
def login(server_url: str, rights: str = "") -> Iterator[str]:
    """A login of its own on the server, gone at the end with what it owns."""
    name = f"login_{secrets.token_hex(4)}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN {rights}".encode())
        try:
            yield name
        finally:
            connection.execute(f"DROP ROLE {name}".encode())


@contextmanager
def owned_database(server_url: str, owner: str) -> Iterator[tuple[str, str]]:
    """A migrated database of `owner`'s: its address as `owner`, and as the server's administrator."""
    with fresh_database(server_url, migrated=False) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")
            connection.execute(f"ALTER SCHEMA public OWNER TO {owner}".encode())
        yield make_conninfo(url, user=owner), url


async def test_a_login_of_the_role_serves_as_itself_and_a_superuser_becomes_it(database_url: str) -> None:
    own = as_role(database_url)
    assert await serving(own) == own
    assert await serving(database_url) == becoming(database_url)
    assert await migrate(own) == (), "who serves may ask whether there is anything to apply"


async def test_rights_that_were_lost_are_given_back_where_there_is_nothing_to_migrate(
    server_url: str, database_url: str
) -> None:
    """As after a restore without privileges, or by an update that says other rights and brings no migration."""
    with login(server_url) as owner, owned_database(server_url, owner) as (url, _):
        await migrate(url)
        everything = f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {ROLE}"
        other_version = (
            f"REVOKE INSERT ON decision FROM {ROLE}; COMMENT ON TABLE schema_migration IS 'rights of another'"
        )
        by_hand = f"REVOKE INSERT ON decision FROM {ROLE}"
        for taken, grants_anew in ((everything, False), (other_version, False), (by_hand, True)):
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(taken.encode())
                assert not may_write_decisions(connection)
                assert await migrate(url, grants_anew=grants_anew) == ()
                assert may_write_decisions(connection)


def may_write_decisions(connection: psycopg.Connection[tuple[bool]]) -> bool:
    ((may,),) = connection.execute("SELECT has_table_privilege(%s, 'decision', 'INSERT')", (ROLE,)).fetchall()
    return may


async def test_an_owner_that_may_hand_out_the_role_becomes_it(server_url: str, database_url: str) -> None:
    with login(server_url) as owner, owned_database(server_url, owner) as (url, admin_url):
        await migrate(url)
        with psycopg.connect(admin_url, autocommit=True) as admin:
            admin.execute(f"GRANT {ROLE} TO {owner}".encode())
        try:
            assert await serving(url) == becoming(url)
        finally:
            with psycopg.connect(admin_url, autocommit=True) as admin:
                admin.execute(f"REVOKE {ROLE} FROM {owner}".encode())


async def test_an_owner_that_may_not_is_held_by_force_and_warned(
    server_url: str, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with login(server_url) as owner, owned_database(server_url, owner) as (url, _):
        await migrate(url)
        with caplog.at_level(logging.WARNING):
            assert await serving(url) == url
        assert "tenants are held apart against mistakes, not against injected SQL" in caplog.text
        async with open_pool(url, size=2) as pool:
            for tenant, text in SECRETS.items():
                await shelve(pool, HashingEmbedder(), {tenant: text}, tenant=tenant)

            async def everything(connection: Connection) -> list[str]:
                rows = "SELECT id FROM document UNION ALL SELECT document_id FROM own_passage"
                return [one for (one,) in await (await connection.execute(rows)).fetchall()]

            assert await pool.run_for(MINE, everything) == [MINE] * 2
            assert await pool.run(everything) == []
            assert await PassageStore(pool).remove(YOURS, tenant=MINE) is False
            found = await PostgresRetriever(pool, HashingEmbedder()).retrieve(Query("vault", tenant=YOURS))
            assert [WORDS[YOURS] in one.text for one in found] == [True]


async def test_a_login_that_bypasses_policies_and_cannot_become_the_role_does_not_serve(
    server_url: str, database_url: str
) -> None:
    with (
        login(server_url, "BYPASSRLS") as name,
        pytest.raises(RetrievalMisconfigured, match="bypasses row-level security"),
    ):
        await serving(make_conninfo(database_url, user=name))


async def test_an_answer_made_under_a_pooler_leaves_no_tenant_behind(database_url: str) -> None:
    async with open_pool(emptied(database_url), size=1, pgbouncer=True) as pool:

        async def tenant(connection: Connection) -> str | None:
            row = await (await connection.execute("SELECT current_setting('gateway.tenant', true)")).fetchone()
            return row[0] if row else None

        assert await pool.run_for(MINE, tenant) == MINE
        assert not await pool.run(tenant)

        async def broken(connection: Connection) -> None:
            await connection.execute("SELECT 1 / 0")

        with pytest.raises(psycopg.errors.DivisionByZero):
            await pool.run_for(MINE, broken)
        assert not await pool.run(tenant)
