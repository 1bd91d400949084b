"""`make bench-leaks`: 500 answers one after another, half of them left by the client at a random moment: what remains of them.

The gateway is wired as `gateway serve` wires it (Postgres, local embeddings, Claude's client) and runs in this process, where tasks and
spans can be counted; the Messages API is a process of its own, so that its side of a connection can be counted too.
"""

import argparse
import random
import time
from collections import Counter as Counts
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import anyio
import anyio.lowlevel

from gateway.bench.figures import Json, Line, machine, report, spread
from gateway.bench.load import ask
from gateway.settings import read_settings
from gateway.telemetry import Telemetry
from gateway.wiring import wired
from tests.bench.stage import ASPECTS, SUBJECTS, messages_process, paragraph, topic, workshop
from tests.support.census import Census, Counter, OpenSpans, resident_mb
from tests.support.gateway_app import eventually, running
from tests.support.library import shelve
from tests.support.postgres import fresh_database, running_server

ANSWERS, WARM_UP = 500, 50
SCRIPT = "[[grade_ms=40 ttft_ms=60 tps=400 tokens=24]]"
LONGEST_S = {"clean": 0.16, "recovered": 0.25, "refused": 0.16}  # without waiting for anyone; a cut falls inside
VERDICTS = {"clean": "sufficient", "recovered": "partial,sufficient", "refused": "partial,partial"}
KINDS = ("clean", "recovered", "clean", "refused")
PASSAGES = 24
GONE_LIMIT_S = 5.0
REACH_GONE_MS = 200.0  # DESIGN, invariant 9
REACH_GROWTH_MB = 8.0  # a leak of 20 KB per answer would be 10
RUN_LIMIT_S = 225.0


@dataclass(frozen=True, slots=True)
class Visit:
    """One question, and when its client leaves; None for one that stays."""

    number: int
    kind: str
    leaves_after_s: float | None

    @property
    def question(self) -> str:
        return f'{topic(self.number)}? (q{self.number}) [[verdict={VERDICTS[self.kind]} missing="{topic(self.number + 3)}"]]'


@dataclass(slots=True)
class Tally:
    """What the clients saw."""

    stayed: Counts[str] = field(default_factory=Counts)
    left: int = 0
    too_late: int = 0
    gone_ms: list[float] = field(default_factory=list)


def visits(count: int, seed: int, first: int = 0) -> Iterator[Visit]:
    """`count` of them; every second client leaves, at a moment that `seed` draws over the whole length of its answer."""
    chance = random.Random(seed)
    for number in range(first, first + count):
        kind = KINDS[number // 2 % len(KINDS)]
        yield Visit(number, kind, chance.uniform(0.0, LONGEST_S[kind]) if number % 2 else None)


async def pay(counter: Counter, plan: Sequence[Visit], tally: Tally) -> None:
    """Makes the visits, one after another, each when nothing of the one before is left. Raises AssertionError when something stays."""
    server = counter.server
    for visit in plan:
        reply = await ask(server.port, visit.question, {}, leave_after_s=visit.leaves_after_s)
        if visit.leaves_after_s is None:
            tally.stayed[reply.done["path"]] += 1
        elif reply.ended_s is not None:
            tally.too_late += 1
        else:
            tally.left += 1
            tally.gone_ms.append(await gone_ms(counter))
        await eventually(lambda: server.house.open_answers.count == 0, GONE_LIMIT_S)


async def gone_ms(counter: Counter) -> float:
    """How long it takes until slot, connection and spans of the request that was just left are gone."""
    began, server = time.monotonic(), counter.server
    with anyio.fail_after(GONE_LIMIT_S):
        await anyio.lowlevel.checkpoint()
        while server.house.open_answers.count or server.server.server_state.connections or counter.spans.open:  # noqa: ASYNC110
            await anyio.sleep(0.001)
    return (time.monotonic() - began) * 1000


async def settled(counter: Counter, before: Census | None = None) -> Census:
    """A census after one whole answer, so that the connections kept for the next are the same ones; waits for `before` to be reached."""
    await pay(counter, [Visit(99_999, "clean", None)], Tally())
    census = await counter.take()
    with anyio.move_on_after(GONE_LIMIT_S):
        while before is not None and census.more_than(before):
            await anyio.sleep(0.1)
            census = await counter.take()
    return census


@asynccontextmanager
async def counted(folder: Path, database_url: str) -> AsyncIterator[Counter]:
    """A gateway in this process over `database_url` (migrated), with a few passages; its counter."""
    spans = OpenSpans()
    async with messages_process(SCRIPT, folder / "messages.jsonl") as (pid, base_url):
        settings = read_settings(
            database_url=database_url,
            home=folder,
            provider="anthropic",
            graders=("model",),  # the scripted upstream grades
            retriever="postgres",
            anthropic_api_key="bench",
            anthropic_base_url=base_url,
            export_traces=False,
        )
        async with wired(settings) as built:
            assert built.library is not None
            chance = random.Random(7)
            texts = {
                f"d{n}": paragraph(SUBJECTS[n % len(SUBJECTS)], ASPECTS[n % len(ASPECTS)], chance)
                for n in range(PASSAGES)
            }
            await shelve(built.library.pool, built.library.embedder, texts)
            telemetry = Telemetry.start(service_version="bench", export=False, processors=[spans])
            async with running(replace(built.house, telemetry=telemetry)) as server:
                yield Counter(server, spans, built.library.pool, pid)


async def measure(answers: int, seed: int, database_url: str, folder: Path, warm_up: int = WARM_UP) -> Json:
    """All figures of one run. Raises TimeoutError when the machine is too slow for it."""
    with anyio.fail_after(RUN_LIMIT_S):
        async with counted(folder, database_url) as counter:
            await pay(counter, [*visits(warm_up, seed + 1)], Tally())
            before, memory, tally = await settled(counter), [resident_mb()], Tally()
            plan = [*visits(answers, seed, warm_up)]
            for part in (plan[: answers // 2], plan[answers // 2 :]):
                await pay(counter, part, tally)
                memory.append(resident_mb())
            after = await settled(counter, before)
    return {
        "machine": machine(),
        "script": SCRIPT,
        "answers": answers,
        "whole": dict(tally.stayed),
        "left": tally.left,
        "left_too_late": tally.too_late,
        "gone_ms": spread(tally.gone_ms),
        "before": asdict(before),
        "after": asdict(after),
        "more": after.more_than(before),
        "memory_mb": {name: round(mb, 1) for name, mb in zip(("before", "half_way", "after"), memory, strict=True)},
        "spans_ended": counter.spans.count,
    }


def lines(figures: Json) -> list[Line]:
    """The table."""
    before, after, memory, gone = (figures[name] for name in ("before", "after", "memory_mb", "gone_ms"))
    whole = ", ".join(f"{count} {path}" for path, count in figures["whole"].items())
    growth = memory["after"] - memory["before"]
    return [
        Line("whole answers", whole, "none failed", "failed" not in figures["whole"]),
        Line("left by the client / over before that", "{left} / {left_too_late}".format(**figures)),
        *(
            Line(name.replace("_", " "), f"{before[name]} -> {after[name]}", "no more", after[name] <= before[name])
            for name in before
        ),
        Line(
            "memory, MB",
            f"{memory['before']} -> {memory['half_way']} -> {memory['after']}",
            "+ 8",
            growth <= REACH_GROWTH_MB,
        ),
        Line("gone after the client left, p50 / p95", f"{gone['p50']:.1f} / {gone['p95']:.1f} ms"),
        Line(
            "gone after the client left, greatest", f"{gone['max']:.1f} ms", "<= 200 ms", gone["max"] <= REACH_GONE_MS
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Counts what answers leave behind.")
    parser.add_argument("--json", type=Path, help="write every figure there")
    parser.add_argument("--answers", type=int, default=ANSWERS)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with workshop() as folder, running_server() as server, fresh_database(server) as url:
        figures = anyio.run(measure, asked.answers, asked.seed, url, folder, backend_options={"use_uvloop": True})
    return report(f"Leaks: {asked.answers} answers one after another", lines(figures), figures, asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
