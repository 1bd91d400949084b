"""`gateway report`: percentiles by path, rates and waste, from Prometheus, from a gateway's metrics or from the decision log."""

import json
import re
import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gateway.reporting.report import Seen
    from gateway.settings import Settings

SPAN = re.compile(r"(\d+)([smhd])")
ADDRESS = re.compile(r"https?://[^/\s]")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

Prometheus = Annotated[str | None, typer.Option(help="Address of a Prometheus server to ask.")]
Gateway = Annotated[str | None, typer.Option(help="Address of one gateway; its figures since its start.")]
Since = Annotated[str, typer.Option(help="How far back: 90s, 30m, 24h, 7d.")]
Price = Annotated[
    float | None, typer.Option(help="Price of a million output tokens, for the cost of discarded ones.", min=0)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Picture = Annotated[Path | None, typer.Option(help="Write the times as a PNG to this file.")]


def report(
    prometheus: Prometheus = None,
    gateway: Gateway = None,
    since: Since = "24h",
    price: Price = None,
    as_json: AsJson = False,
    picture: Picture = None,
) -> None:
    """Show where the time goes: p50, p95 and p99 by path and stage, rates, and what was thrown away."""
    from gateway.cli import USAGE, files_or_exit, run_or_exit, settings_or_exit, stop, write_or_exit
    from gateway.reporting import shown as report_shown
    from gateway.reporting.report import Report

    since_s = seconds_of(since)
    if since_s is None:
        stop(f"{since!r} is no length of time; write 90s, 30m, 24h or 7d", USAGE)
    if prometheus is not None and gateway is not None:
        stop("ask a Prometheus server or a gateway, not both", USAGE)
    for option, address in (("--prometheus", prometheus), ("--gateway", gateway)):
        if address is not None and ADDRESS.match(address) is None:
            stop(f"{option} {address} is no address; write it as http://127.0.0.1:8080", USAGE)
    files_or_exit(picture)
    seen = run_or_exit(partial(_seen, settings_or_exit(), prometheus, gateway, since_s))
    found: Report = Report(seen, price)
    print(json.dumps(found.as_json(), indent=2) if as_json else report_shown.table(found))
    write_or_exit(picture, lambda: report_shown.picture(found))
    if picture is not None:
        print(f"Picture: {picture}", file=sys.stderr)


def seconds_of(span: str) -> float | None:
    """The seconds of `24h`; None for what is no length of time."""
    found = SPAN.fullmatch(span)
    return None if found is None else int(found[1]) * UNITS[found[2]]


async def _seen(settings: "Settings", prometheus: str | None, gateway: str | None, since_s: float) -> "Seen":
    if prometheus is not None or gateway is not None:
        from gateway.reporting.from_prometheus import seen_at_gateway, seen_by_prometheus

        return await (seen_by_prometheus(prometheus, since_s) if prometheus else seen_at_gateway(str(gateway)))
    from gateway.reporting.from_log import seen_in_log
    from gateway.wiring import owner_url
    from retrieval.pool import open_pool
    from retrieval.schema import migrate

    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(owner_url(settings))
        await migrate(url)
        return await seen_in_log(await stack.enter_async_context(open_pool(url, size=1)), since_s)
