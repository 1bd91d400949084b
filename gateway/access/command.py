"""`gateway keys`: who may ask. A secret is shown once, when its key is made."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gateway.access.caller import Role
from gateway.screen import one_line

if TYPE_CHECKING:
    from gateway.access.stored_keys import NewKey, StoredKey, StoredKeys
    from gateway.settings import Settings

T = TypeVar("T")

NAME_LIMIT = 100  # characters, of a tenant's name and of a key's
DAYS_MOST = 36_500.0

keys = typer.Typer(
    name="keys",
    help="API keys: make, list, revoke. Each is bound to a tenant; running gateways follow within a second.",
    no_args_is_help=True,
)

Tenant = Annotated[str, typer.Option(help="Whose documents, answers and gaps the key reaches.")]
Name = Annotated[str, typer.Option(help="What the key is for, to know it again in the list.")]
Roles = Annotated[
    list[Role] | None, typer.Option("--role", help="What it may do; may be given several times. Without it: ask.")
]
Collections = Annotated[
    list[str] | None,
    typer.Option("--collection", help="Only this collection; may be given several times. Without it: all."),
]
Days = Annotated[float | None, typer.Option(help="Days after which it ends by itself.", min=0.0, max=DAYS_MOST)]


@keys.command(
    epilog="Examples: `gateway keys create --name page`, `gateway keys create --tenant acme --role ask --role ingest --name acme`, "
    "`gateway keys create --collection handbook --days 30 --name trial`, `KEY=$(gateway keys create --role admin --name ci)`"
)
def create(
    name: Name = "",
    tenant: Tenant = "default",
    role: Roles = None,
    collection: Collections = None,
    days: Days = None,
) -> None:
    """Make a key. Its secret alone goes to standard output, this once: it is stored nowhere."""
    from gateway.access.stored_keys import NewKey
    from gateway.request import clean_collection

    def new() -> NewKey:
        collections = None if not collection else frozenset(clean_collection(one) for one in collection)
        return NewKey(
            clean_name("tenant", tenant),
            name and clean_name("name", name),
            frozenset(role or [Role.ASK]),
            collections,
            days,
        )

    key_id, secret, made = run(partial(created, new=new))
    print(
        f"{key_id}: {bound(made.tenant, made.roles, made.collections)}. This is its secret; it is shown this once:",
        file=sys.stderr,
    )
    print(secret)


@keys.command("list", epilog="Examples: `gateway keys list`, `gateway keys list --tenant acme`")
def list_keys(tenant: Annotated[str | None, typer.Option(help="Of this tenant only.")] = None) -> None:
    """Show every key, the oldest first, also those that were revoked. No secret is shown: none is stored."""
    for key in run(partial(listed, tenant=tenant)):
        print(line(key, datetime.now(UTC)))


@keys.command(epilog="Example: `gateway keys revoke key_0123456789ab`")
def revoke(key_id: Annotated[str, typer.Argument(metavar="ID", help="Of a key, as the list shows it.")]) -> None:
    """End a key at every running gateway. Exits with 1 when there is no such key, or it was revoked before."""
    if not run(partial(revoked, key_id=key_id)):
        print(f"gateway: there is no key {one_line(key_id)} to revoke", file=sys.stderr)
        raise typer.Exit(1)
    print(f"{one_line(key_id)} is revoked")


def run(work: "Callable[[Settings], Awaitable[T]]") -> T:
    """The result of `work` with this process's settings; ends the program with a message where it cannot be had."""
    from gateway.cli import run_or_exit, settings_or_exit

    return run_or_exit(partial(work, settings_or_exit()))


async def created(settings: "Settings", new: "Callable[[], NewKey]") -> "tuple[str, str, NewKey]":
    """The id, the secret and what was made."""
    wanted = new()
    async with stored(settings) as kept:
        return *await kept.create(wanted), wanted


async def listed(settings: "Settings", tenant: str | None) -> "tuple[StoredKey, ...]":
    """The keys."""
    async with stored(settings) as kept:
        return await kept.all(tenant)


async def revoked(settings: "Settings", key_id: str) -> bool:
    """Whether there was one to revoke."""
    async with stored(settings) as kept:
        return await kept.revoke(key_id)


@asynccontextmanager
async def stored(settings: "Settings") -> "AsyncIterator[StoredKeys]":
    """The keys of the database, for its owner; no model is loaded for them."""
    from gateway.access.stored_keys import StoredKeys
    from gateway.wiring import owner_url
    from retrieval.faults import RetrievalMisconfigured
    from retrieval.pool import open_pool
    from retrieval.schema import migrate

    async with owner_url(settings) as url:
        await migrate(url)
        try:
            async with open_pool(url, size=1) as pool:
                yield StoredKeys(pool)
        except RetrievalMisconfigured as error:
            raise RetrievalMisconfigured(
                "this database user may not change keys: set GATEWAY_OWNER_URL to the address of the tables' owner"
            ) from error


def clean_name(option: str, name: str) -> str:
    """The name. Raises InvalidRequest for one that is blank, too long, or that cleaning would change."""
    from gateway.cleaning import clean, is_blank
    from gateway.request import invalid

    if is_blank(name) or len(name) > NAME_LIMIT or clean(name).strip() != name or "\n" in name or "\t" in name:
        raise invalid(f"--{option}", f"must have 1 to {NAME_LIMIT} visible characters")
    return name


def line(key: "StoredKey", now: datetime) -> str:
    """A key on one line: id, state, whose, what it may, its name."""
    said = bound(key.tenant, key.roles, key.collections)
    return f"{key.id}  {state(key, now):<10}  {key.created_at:%Y-%m-%d}  {said}  {one_line(key.name)}".rstrip()


def state(key: "StoredKey", now: datetime) -> str:
    """Whether it is good: `good`, `revoked`, `over`, or until when."""
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is None:
        return "good"
    return "over" if key.expires_at <= now else f"{key.expires_at:%Y-%m-%d}"


def bound(tenant: str, roles: Iterable[str], collections: Iterable[str] | None) -> str:
    """What a key is bound to, in words."""
    where = "every collection" if collections is None else f"collection {', '.join(map(one_line, sorted(collections)))}"
    return f"tenant {one_line(tenant)}, {'+'.join(sorted(roles))}, {where}"
