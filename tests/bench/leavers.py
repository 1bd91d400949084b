"""`python -m tests.bench.leavers`: a thousand clients that leave at random moments on every route that answers; what is left of them."""

import argparse
import time

import anyio

from tests.support.gateway_app import Spans, running, scripted_house
from tests.support.leavers import ROUTES, come_and_go
from tests.support.leftovers import leftovers

SETTLE_S = 5.0


async def measure(count: int, seed: int) -> bool:
    """Prints the figures; whether nothing is left."""
    spans = Spans()
    async with running(scripted_house(processors=[spans])) as server:
        began = time.monotonic()
        readers = await come_and_go(server.port, count, seed)
        gone = time.monotonic()
        with anyio.move_on_after(SETTLE_S):
            while leftovers(server, spans):  # noqa: ASYNC110
                await anyio.sleep(0.005)
        left = leftovers(server, spans)
        settled_ms = (time.monotonic() - gone) * 1000
    print(f"{count} clients on {len(ROUTES)} forms of {len({r.path for r in ROUTES})} routes in {gone - began:.1f} s")
    print(
        f"{readers} had read something; {settled_ms:.0f} ms after the last had left there was left: {left or 'nothing'}"
    )
    return not left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if not anyio.run(measure, arguments.count, arguments.seed, backend_options={"use_uvloop": True}):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
