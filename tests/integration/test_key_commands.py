"""`gateway keys` as a person types it."""

import os
from pathlib import Path

import anyio
import psycopg
import pytest
from typer.testing import CliRunner, Result

from gateway.access.key_ring import open_key_ring
from gateway.access.keys import Keys
from gateway.access.secret import is_secret
from gateway.cli import cli
from retrieval.serving import as_role
from tests.support.postgres import emptied

runner = CliRunner()


def run(*arguments: str) -> Result:
    return runner.invoke(cli, ["keys", *arguments], env={"TERM": "dumb", "COLUMNS": "200"})


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database_url: str) -> str:
    for name in list(os.environ):
        if name.startswith(("GATEWAY_", "ANTHROPIC_", "OTEL_")):
            monkeypatch.delenv(name)
    emptied(database_url)
    monkeypatch.setenv("GATEWAY_DATABASE_URL", database_url)
    monkeypatch.chdir(tmp_path)
    return database_url


def test_a_secret_is_shown_once_and_alone_on_standard_output(url: str) -> None:
    result = run(
        "create", "--tenant", "acme", "--role", "ask", "--role", "gaps", "--collection", "handbook", "--name", "page"
    )
    secret = result.stdout.removesuffix("\n")
    assert result.exit_code == 0, result.output
    assert is_secret(secret)
    assert "tenant acme, ask+gaps, collection handbook. This is its secret; it is shown this once" in result.stderr
    assert secret not in result.stderr
    listed = run("list").stdout
    assert "good" in listed
    assert listed.rstrip().endswith("tenant acme, ask+gaps, collection handbook  page")
    assert secret not in listed
    with psycopg.connect(url) as connection:
        assert secret not in str(connection.execute("SELECT k::text FROM api_key k").fetchall())

    async def caller() -> str:
        async with open_key_ring(url) as ring:
            return Keys((), ring).caller({"authorization": f"Bearer {secret}"}).tenant

    assert anyio.run(caller) == "acme"


def test_a_key_is_revoked_once_and_stays_in_the_list(url: str) -> None:
    run("create", "--name", "one")
    run("create", "--tenant", "acme", "--name", "two", "--days", "30")
    (first, second) = run("list").stdout.splitlines()
    assert (run("list", "--tenant", "acme").stdout.splitlines(), run("list", "--tenant", "none").stdout) == (
        [second],
        "",
    )
    key_id = first.split()[0]
    assert run("revoke", key_id).stdout == f"{key_id} is revoked\n"
    assert run("list").stdout.splitlines()[0].split()[1] == "revoked"
    again = run("revoke", key_id)
    assert (again.exit_code, again.stderr) == (1, f"gateway: there is no key {key_id} to revoke\n")


def test_what_no_key_and_no_tenant_can_be_named_is_not_there(url: str) -> None:
    nobody = os.fsdecode(b"key_\xff")  # as the shell hands over what is no UTF-8
    assert "there is no key key_" in run("revoke", nobody).stderr
    assert run("list", "--tenant", nobody).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--tenant", " "), "--tenant must have 1 to 100 visible characters"),
        (("--tenant", "a\nb"), "--tenant must have"),
        (("--collection", ""), "collection holds characters that no collection's name has"),
        (("--role", "root"), "'root' is not one of"),
        (("--days=-1",), "greater than or equal to 0"),
    ],
)
def test_a_key_that_cannot_be_is_a_line_and_exit_code_2(url: str, arguments: tuple[str, ...], said: str) -> None:
    result = run("create", *arguments)
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert run("list").stdout == ""


def test_who_serves_may_not_make_keys_and_is_told_who_may(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_DATABASE_URL", as_role(url))
    result = run("create")
    assert result.exit_code == 1
    assert "set GATEWAY_OWNER_URL to the address of the tables' owner" in result.stderr
    monkeypatch.setenv("GATEWAY_OWNER_URL", url)
    assert run("create").exit_code == 0


@pytest.mark.parametrize("command", ["create", "list", "revoke"])
def test_help_shows_examples_and_no_setting(url: str, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("GATEWAY_API_KEYS", "super-secret")
    shown = run(command, "--help").stdout
    assert f"gateway keys {command}" in shown.partition("Example")[2]
    assert "super-secret" not in shown
