"""`make bench-resume`: 200 answers of two gateways on one database, each cut several times at random bytes and read on at either."""

import argparse
import random
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

from gateway.bench.figures import Json, Line, machine, report, spread
from gateway.keeping.keeper import open_keeper
from gateway.keeping.stored_recordings import StoredRecordings
from gateway.providers.script import Script
from retrieval.pool import open_pool
from tests.support.clients import ask
from tests.support.cut_client import read_with_cuts
from tests.support.gateway_app import running, scripted_house
from tests.support.postgres import fresh_database, running_server
from tests.support.scripted_text import undrafted

ANSWERS, CUTS, AT_ONCE = 200, 6, 20
BYTES_MOST = 4_000  # of a response before it is cut; a whole answer has about 20,000
SCRIPT = Script.parse("[[retrieve_ms=5 grade_ms=60 ttft_ms=40 tps=400 tokens=200]]")
QUESTIONS = ("Is it?", "Is it? [[verdict=partial,sufficient]]", "Is it? [[verdict=insufficient]]")


@dataclass(slots=True)
class Tally:
    """What came of the answers."""

    connections: list[float] = field(default_factory=list)
    elsewhere: int = 0
    wrong: list[str] = field(default_factory=list)


async def measure(answers: int, seed: int, database_url: str) -> Json:
    """All figures of one run."""
    tally, began = Tally(), time.monotonic()
    async with (
        open_pool(database_url, size=4) as one,
        open_pool(database_url, size=4) as other,
        open_keeper(shared=StoredRecordings(one)) as first,
        open_keeper(shared=StoredRecordings(other)) as second,
        running(replace(scripted_house(SCRIPT), keeper=first)) as here,
        running(replace(scripted_house(SCRIPT), keeper=second)) as there,
    ):
        wholes = {question: text_of((await ask(here.base_url, question)).text) for question in QUESTIONS}
        limiter = anyio.CapacityLimiter(AT_ONCE)

        async def visit(number: int) -> None:
            chance, question = random.Random(seed * 1_000_003 + number), QUESTIONS[number % len(QUESTIONS)]
            async with limiter:
                read = await read_with_cuts(
                    [here.port, there.port],
                    question,
                    chance,
                    cuts=CUTS,
                    bytes_most=BYTES_MOST,
                    key=f"{seed}.{number}",
                )
            ids = [int(each.partition(".")[2]) for each, _, _ in read.events]
            if text_of(read.text) != wholes[question] or ids != list(range(1, len(ids) + 1)):
                tally.wrong.append(f"{number}: {read.events[-1]}")
            tally.connections.append(float(read.connections))
            tally.elsewhere += there.port in read.ports

        async with anyio.create_task_group() as tasks:
            for number in range(answers):
                tasks.start_soon(visit, number)
    return {
        "machine": machine(),
        "answers": answers,
        "seed": seed,
        "connections": spread(tally.connections),
        "read_elsewhere_too": tally.elsewhere,
        "wrong": tally.wrong,
        "took_s": round(time.monotonic() - began, 1),
    }


def text_of(text: str) -> str:
    """The text, the same for every answer to its question; a refusal has none."""
    return undrafted(text) if text else ""


def lines(figures: Json) -> list[Line]:
    connections, wrong = figures["connections"], len(figures["wrong"])
    return [
        Line("joined byte by byte", f"{figures['answers'] - wrong} of {figures['answers']}", "all", wrong == 0),
        Line("connections an answer, p50 / greatest", f"{connections['p50']:.0f} / {connections['max']:.0f}"),
        Line("read at both gateways", str(figures["read_elsewhere_too"])),
        Line("took, s", str(figures["took_s"])),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Cuts resumable answers and joins them.")
    parser.add_argument("--json", type=Path, help="write every figure there")
    parser.add_argument("--answers", type=int, default=ANSWERS)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with running_server() as server, fresh_database(server) as url:
        figures = anyio.run(measure, asked.answers, asked.seed, url, backend_options={"use_uvloop": True})
    return report(f"{asked.answers} answers cut at random bytes", lines(figures), figures, asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
