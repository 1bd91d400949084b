"""`gateway gaps`: what was asked and not covered, for a person or as the start of a golden set."""

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gateway.gap_groups import LIMIT, LIMIT_MOST, GapGroup, StoredGap, golden
from gateway.screen import one_line

if TYPE_CHECKING:
    from gateway.gaps import PostgresGaps
    from gateway.settings import Settings

T = TypeVar("T")

EXPORT_MOST = 100_000

gaps = typer.Typer(
    name="gaps",
    help="What was asked and not covered. Repeats of a question are one gap.",
    no_args_is_help=True,
)

Limit = Annotated[int, typer.Option(help="At most this many.", min=1, max=LIMIT_MOST)]
ExportLimit = Annotated[int, typer.Option(help="At most this many.", min=1, max=EXPORT_MOST)]
Collection = Annotated[str | None, typer.Option(help="Of this collection only.")]
Tenant = Annotated[str, typer.Option(help="Of this tenant.")]
Out = Annotated[Path | None, typer.Option(help="A file to write instead of standard output.")]


@gaps.command("list", epilog="Example: `gateway gaps list --collection handbook --limit 10`")
def list_gaps(limit: Limit = LIMIT, collection: Collection = None, tenant: Tenant = "default") -> None:
    """Show the gaps, the one asked last first."""
    groups = run(partial(newest, limit=limit, collection=collection, tenant=tenant))
    for group in groups:
        print(line(group))
    if not groups:
        print("no gaps are recorded", file=sys.stderr)


@gaps.command(epilog="Example: `gateway gaps show gap_0123456789abcdef0123`")
def show(
    gap_id: Annotated[str, typer.Argument(metavar="ID", help="Of a gap, as a refusal or the list names it.")],
    tenant: Tenant = "default",
) -> None:
    """Show one gap with all its repeats. Exits with 1 when there is none of this id."""
    found = run(partial(shown, gap_id=gap_id, tenant=tenant))
    if found is None:
        print(f"gateway: there is no gap {one_line(gap_id)}", file=sys.stderr)
        raise typer.Exit(1)
    print("\n".join(page(*found)))


@gaps.command(epilog="Example: `gateway gaps export --out questions.jsonl`")
def export(
    limit: ExportLimit = EXPORT_MOST, collection: Collection = None, tenant: Tenant = "default", out: Out = None
) -> None:
    """Write each gap as a line of JSON in the schema of a golden set, to be labelled and given to `gateway eval`."""
    from gateway.cli import files_or_exit, write_or_exit

    files_or_exit(out)
    groups = run(partial(newest, limit=limit, collection=collection, tenant=tenant))
    lines = "".join(json.dumps(golden(group), ensure_ascii=False) + "\n" for group in groups)
    if out is None:
        sys.stdout.write(lines)
    else:
        write_or_exit(out, lambda: lines)
        print(f"{len(groups)} gaps written to {out}", file=sys.stderr)


def run(work: "Callable[[Settings], Awaitable[T]]") -> T:
    """The result of `work` with this process's settings; ends the program with a message where it cannot be had."""
    from gateway.cli import run_or_exit, settings_or_exit

    return run_or_exit(partial(work, settings_or_exit()))


async def newest(settings: "Settings", limit: int, collection: str | None, tenant: str) -> tuple[GapGroup, ...]:
    """The groups, newest first."""
    async with stored(settings) as kept:
        return await kept.newest(limit, None if collection is None else [collection], tenant)


async def shown(settings: "Settings", gap_id: str, tenant: str) -> tuple[GapGroup, tuple[StoredGap, ...]] | None:
    """A group and its gaps."""
    async with stored(settings) as kept:
        return await kept.show(gap_id, tenant=tenant)


@asynccontextmanager
async def stored(settings: "Settings") -> "AsyncIterator[PostgresGaps]":
    """The gaps of the database; no model is loaded for them."""
    from gateway.gaps import PostgresGaps
    from gateway.wiring import database_url
    from retrieval.pool import open_pool
    from retrieval.schema import migrate

    async with database_url(settings) as url:
        await migrate(url)
        async with open_pool(url, size=1) as pool:
            yield PostgresGaps(pool)


def line(group: GapGroup) -> str:
    """A gap on one line: id, how often, when last, the question."""
    return f"{group.id}  {group.count:>4}x  {group.last_at:%Y-%m-%d %H:%M}  {one_line(group.question)}"


def page(group: GapGroup, found: tuple[StoredGap, ...]) -> list[str]:
    """A gap with its repeats, newest first."""
    return [
        f"{group.id}: {one_line(group.question)}",
        f"  collection  {one_line(group.collection)}",
        f"  asked       {group.count} times, {group.first_at:%Y-%m-%d %H:%M} to {group.last_at:%Y-%m-%d %H:%M}",
        *(said for gap in found for said in _said(gap)),
    ]


def _said(gap: StoredGap) -> list[str]:
    lacking = f", missing: {one_line(gap.missing)}" if gap.missing else ""
    attempts = "1 attempt" if gap.attempts == 1 else f"{gap.attempts} attempts"
    return [
        f"  {gap.at:%Y-%m-%d %H:%M}  {gap.id}  {one_line(gap.question)}",
        f"      {gap.reason} after {attempts}{lacking}",
        f"      searched: {'; '.join(one_line(query) for query in gap.searched)}",
    ]
