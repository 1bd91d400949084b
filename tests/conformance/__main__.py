"""The suite against any gateway, from a command line."""

import argparse
import sys
from pathlib import Path

import anyio

from tests.conformance.mapping import MappingInvalid, read_mapping
from tests.conformance.run import Report, run, shown
from tests.conformance.upstream import upstream
from tests.conformance.visit import Patience

MAPPINGS = Path(__file__).with_name("mappings")
EXAMPLE = """\
The gateway must ask the scripted models that this program serves on --upstream-port (the Messages API), and its search must find
something for every question. This project's gateway, in a second terminal:

    GATEWAY_PORT=8090 GATEWAY_RETRIEVER=scripted GATEWAY_GRADERS=model ANTHROPIC_API_KEY=any \\
      ANTHROPIC_BASE_URL=http://127.0.0.1:9100 .venv/bin/gateway serve

and here:

    .venv/bin/python -m tests.conformance http://127.0.0.1:8090 --mapping tests/conformance/mappings/native.toml

A mapping says how the gateway is asked and what its events mean; those in tests/conformance/mappings are examples. The exit code is 0
for a gateway that is acquitted, 1 for one that is convicted, 2 for a mapping that cannot be read.
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance",
        description="Convicts a streaming gateway of leaked bytes, uncut discards, verdicts that wait for a silent model, work that "
        "outlives the client, missing terminal events and altered text; or acquits it.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("url", help="where the gateway is, such as http://127.0.0.1:8090")
    parser.add_argument(
        "--mapping", type=Path, default=MAPPINGS / "native.toml", help="a TOML file (default: native.toml)"
    )
    parser.add_argument("--upstream-port", type=int, default=9100, help="where the scripted models are served (9100)")
    parser.add_argument("--act-ms", type=int, default=1000, help="how soon a gateway has to act (1000)")
    parser.add_argument("--rounds", type=int, default=3, help="how often every case is asked (3)")
    parser.add_argument("--at-once", type=int, default=28, help="how many questions at once (28)")
    given = parser.parse_args()
    try:
        mapping = read_mapping(given.mapping)
    except MappingInvalid as error:
        print(error, file=sys.stderr)
        return 2

    async def ask() -> Report:
        async with upstream(mapping.grader, given.upstream_port) as api:
            patience = Patience(act_s=given.act_ms / 1000)
            return await run(given.url, mapping, api.log, patience=patience, rounds=given.rounds, at_once=given.at_once)

    report = anyio.run(ask)
    print(shown(report))
    return int(report.is_convicted)


if __name__ == "__main__":
    raise SystemExit(main())
