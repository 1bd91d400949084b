"""`make bench-overhead`: what the gateway itself takes: processor time, delay, memory.

The gateway is alone on one core (where there are two); the scripted Messages API and this client, which reads raw sockets, share another.
Everything is measured in RUNS runs, one after the other, because a machine's speed changes within minutes: a figure is the median of the
runs', a p99 of fewer than MANY in each that of all of them together.
"""

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import anyio

from gateway.bench.figures import Json, Line, machine, million_additions_ms, report, spread
from gateway.bench.load import Reply, ask
from gateway.bench.upstream import Upstream
from tests.bench.core import Core, awake
from tests.bench.crowd import load, port_of
from tests.bench.race import Asked, Planned, burst_plan, discard_figures, mixed_plan, play
from tests.bench.stage import staged, workshop
from tests.bench.unlimited import compared, sides, turns

RUNS = 5
GRADE_MS, FIRST_TOKEN_MS, TOKENS_PER_S, TOKENS = 250, 400, 80, 40
SCRIPT = f"[[grade_ms={GRADE_MS} ttft_ms={FIRST_TOKEN_MS} tps={TOKENS_PER_S} tokens={TOKENS}]]"
STREAMS = (1, 16, 64, 128)
LENGTHS = {1: 8, 16: TOKENS, 64: 200, 128: 200}  # of an answer, where its stream is one of so many
ROUNDS = {1: 20, 16: 4, 64: 2, 128: 2}  # questions of each stream, in a run
ADDED_P50_MS = {1: 3.0, 16: 3.0, 64: 5.0, 128: 8.0}
ADDED_P99_MS = {16: 10.0, 128: 25.0}
FIRST_BYTE_P99_MS = {1: 2.0, 64: 10.0}
DELTA_US, THOUSAND_S, CLOSED_MS, GONE_MS, IDLE_KIB, TIMES = 30.0, 10.0, 3.0, 5.0, 60.0, 5.0
PACED, UNPACED = (320, 20), (6_000, 20)  # tokens of the streams whose difference gives the price of one
IDLE = (500, 1_000)
SETTLED_S = 0.5  # after the last client left
LEFT, LEAVING_AT_ONCE = 64, 16
MANY = 50  # so many of a run have a p99 of their own
MIXED = 96  # questions of a run of which some are discarded
LIMIT_S = 700.0
SETTINGS = {
    "GATEWAY_RETRIEVER": "scripted",
    "GATEWAY_SCRIPT": "[[retrieve_ms=40]]",
    "GATEWAY_SPECULATE": "always",
    "GATEWAY_MAX_STREAMS": "1200",
}


async def spent(core: Core, port: int, questions: Sequence[str], streams: int, spread_s: float = 0.0) -> float:
    """Processor time of the gateway for these questions, in seconds."""
    before = core.spent_s()
    replies = await load(port, questions, streams, spread_s)
    assert all(reply.done["path"] == "clean" for reply in replies)
    return core.spent_s() - before


async def per_delta_us(core: Core, port: int, pace: int, tokens: tuple[int, int], run: int, streams: int = 16) -> float:
    """What one more token costs: long streams against short ones."""
    long, short = (
        [f"How long is {number} of {run}? [[tokens={length} tps={pace}]]" for number in range(streams)]
        for length in tokens
    )
    more = await spent(core, port, long, streams) - await spent(core, port, short, streams)
    return more * 1e6 / streams / (tokens[0] - tokens[1])


def cycle_s(length: int) -> float:
    """How long an answer of so many tokens takes."""
    return (FIRST_TOKEN_MS + length * 1000 / TOKENS_PER_S) / 1000


def plan_at(streams: int, first: int, ttft_ms: int = FIRST_TOKEN_MS) -> list[Planned]:
    """Clean questions for so many streams."""
    length = LENGTHS[streams]
    return [replace(each, length=length, ttft_ms=ttft_ms) for each in burst_plan(ROUNDS[streams] * streams, first)]


async def play_at(port: int, plan: Sequence[Planned], streams: int) -> list[Asked]:
    return await play(Somewhere(port), plan, streams, cycle_s(plan[0].length))  # type: ignore[arg-type]  # nothing else of a stage is asked


def added_ms(asked: Sequence[Asked], upstream: Upstream) -> list[float]:
    """First answer byte over r + max(g, t), from the question's last byte on. t is as the model's side took it: what that is late by, and
    until a client is connected, is not the gateway's.
    """
    found = []
    for one in asked:
        assert one.reply.asked_s is not None
        (draft,) = upstream.drafts(one.planned.question)
        late_ms = (draft.at_s["first_token"] - draft.at_s["request"]) * 1000 - FIRST_TOKEN_MS
        found.append(one.over_ideal_ms - late_ms - (one.reply.asked_s - one.reply.began_s) * 1000)
    return found


class Somewhere:
    """A stage of which only the address is known."""

    def __init__(self, port: int) -> None:
        self.gateway = self
        self.base_url = f":{port}"


def released_ms(asked: Sequence[Asked], upstream: Upstream) -> list[float]:
    """From the last byte of a good verdict, as the model's side sent it, to the first answer byte at the client."""
    took = []
    for one in asked:
        assert one.reply.first_answer_s is not None
        verdict_s = upstream.grades(one.planned.question)[-1].at_s["finished"]
        took.append((one.reply.first_answer_s - verdict_s) * 1000)
    return took


def late_tokens(asked: Sequence[Asked], upstream: Upstream) -> int:
    """The most tokens that a discarded draft said after its verdict."""
    most = 0
    for one in asked:
        question = one.planned.question
        attempts = int(one.reply.done["attempts"]) - int(one.reply.done["path"] != "refused")
        for grade, draft in zip(
            upstream.grades(question)[:attempts], upstream.drafts(question)[:attempts], strict=True
        ):
            if "first_token" in draft.at_s and "closed" in draft.at_s:
                spoke_s = grade.at_s["finished"] - draft.at_s["first_token"]
                most = max(most, draft.tokens - (1 + int(max(0.0, spoke_s) * TOKENS_PER_S)))
    return most


async def leave(port: int, run: int) -> dict[str, Reply]:
    """Clients that leave at a random moment, by their question."""
    chance, waiting, left, whole_s = random.Random(run), iter(range(LEFT)), dict[str, Reply](), cycle_s(TOKENS)

    async def client(place: int) -> None:
        await anyio.sleep(place * whole_s / LEAVING_AT_ONCE)
        for number in waiting:
            question = f"Who leaves {number} of {run}?"
            left[question] = await ask(port, question, {}, leave_after_s=0.05 + chance.random() * (whole_s - 0.15))

    async with anyio.create_task_group() as tasks:
        for place in range(LEAVING_AT_ONCE):
            tasks.start_soon(client, place)
    await anyio.sleep(SETTLED_S)
    return left


def left_figures(runs: Sequence[dict[str, Reply]], upstream: Upstream) -> Json:
    """How long until the model's side saw each of their requests end, and what began later."""
    cuts, uncut, later = list[list[float]](), 0, 0
    for left in runs:
        took = list[float]()
        for question, reply in left.items():
            gone_s = reply.ended_s  # when its socket was closed, a turn of the event loop after it was told to
            assert gone_s is not None
            for exchange in upstream.of(question):
                later += exchange.at_s["request"] > gone_s + 0.005
                ended_s = exchange.at_s.get("closed", exchange.at_s.get("finished"))
                if ended_s is None:
                    uncut += 1
                elif ended_s > gone_s:
                    took.append((ended_s - gone_s) * 1000)
        cuts.append(took)
    return {"cut_ms": over_runs(cuts), "uncut": uncut, "begun_later": later}


async def idle(streams: int) -> float:
    """KiB of the gateway for each stream that is open and waits for its first token; the model is played inside the gateway."""
    script = "[[grade_ms=0 ttft_ms=60000 retrieve_ms=0 tokens=1]]"  # what the model would say later is no stream's
    alone = {"GATEWAY_PROVIDER": "scripted", "GATEWAY_SCRIPT": script, "GATEWAY_DEADLINE_S": "120"}
    with workshop() as folder:
        async with staged(folder, script, **{**SETTINGS, **alone}) as stage:
            core, port = Core(stage.gateway.process.pid), port_of(stage.gateway.base_url)

            async def hold(number: int, limit_s: float) -> None:
                await ask(port, f"Who waits {number}?", {}, leave_after_s=limit_s)

            async with anyio.create_task_group() as tasks:
                for number in range(20):  # what the first requests load is no stream's
                    tasks.start_soon(hold, number, 0.5)
            before = core.memory_kib()
            async with anyio.create_task_group() as tasks:
                for number in range(streams):
                    tasks.start_soon(hold, number, 20.0)
                await anyio.sleep(6.0)
                after = core.memory_kib()
                tasks.cancel_scope.cancel()
            return (after - before) / streams


def over_runs(runs: Sequence[Sequence[float]]) -> Json:
    """Percentiles: medians of the runs', but for a p99 for which a run has too few, which is that of all of them together."""
    each = [spread(run) for run in runs]
    names = ("p50", "p95", "p99") if min(len(run) for run in runs) >= MANY else ("p50", "p95")
    medians = {name: round(median(one[name] for one in each), 3) for name in names}
    return spread([value for run in runs for value in run]) | medians | {"runs": each}


@dataclass(frozen=True, slots=True)
class Run:
    """What one run asked, by the number of streams where there were several."""

    added: dict[int, list[Asked]]
    ready: dict[int, list[Asked]]
    mixed: list[Asked]
    gone: dict[str, Reply]


@dataclass(frozen=True, slots=True)
class Found:
    """What the runs came to so far."""

    processor: list[Json] = field(default_factory=list)
    delays: list[Run] = field(default_factory=list)
    unlimited: list[Json] = field(default_factory=list)


async def measure(wanted: Sequence[str]) -> Json:
    """The figures of the parts that are wanted."""
    figures: Json = {"machine": machine(), "script": SCRIPT, "runs": RUNS}
    with anyio.fail_after(LIMIT_S):
        if {"cpu", "delays", "rate"} & set(wanted):
            figures |= await measured(wanted)
        if "memory" in wanted:
            figures["idle_kib"] = {streams: round(await idle(streams), 1) for streams in IDLE}
    figures["million_additions_after_ms"] = million_additions_ms()
    return figures


async def measured(wanted: Sequence[str]) -> Json:
    """All but memory: all servers are up, and in each run each part has its turn."""
    found = Found()
    with workshop() as folder, workshop() as beside:
        async with staged(folder, SCRIPT, **SETTINGS) as stage, sides(beside, SETTINGS) as both:
            core, port = Core(stage.gateway.process.pid), port_of(stage.gateway.base_url)
            is_reserved = core.reserve((stage.messages_pid,))
            await play_at(port, burst_plan(64, 90_000), 16)
            for run in range(RUNS):
                if "cpu" in wanted:
                    found.processor.append(await processor(core, port, run))
                if "delays" in wanted:
                    found.delays.append(await delays(port, run))
                if "rate" in wanted:
                    found.unlimited.append(await turns(both, run))
            short = await play_at(port, burst_plan(256, 300_000), 128) if "delays" in wanted else []
            upstream = stage.upstream()
    figures: Json = {"core_of_its_own": is_reserved}
    if found.processor:
        figures |= {name: round(median(run[name] for run in found.processor), 2) for name in found.processor[0]}
    if found.delays:
        figures |= delay_figures(found.delays, upstream) | {"added_short_ms": spread(added_ms(short, upstream))}
    if found.unlimited:
        figures["unlimited"] = compared(found.unlimited)
    return figures


async def processor(core: Core, port: int, run: int) -> Json:
    questions = [f"What is it, {number} of {run}?" for number in range(64)]
    unpaced = [f"What is it now, {number} of {run}? [[grade_ms=0 ttft_ms=0 tps=1000000]]" for number in range(160)]
    return {
        "delta_paced_us": await per_delta_us(core, port, TOKENS_PER_S, PACED, run),
        "delta_unlimited_us": await per_delta_us(core, port, 1_000_000, UNPACED, run),
        "thousand_s": await spent(core, port, questions, 16, cycle_s(TOKENS)) * 1000 / len(questions),
        "thousand_unlimited_s": await spent(core, port, unpaced, 16) * 1000 / len(unpaced),
    }


async def delays(port: int, run: int) -> Run:
    """The added time, the way from a verdict to the client and to a discarded draft's connection, and that of a client's leaving."""
    first = (run + 1) * 1_000_000
    return Run(
        {streams: await play_at(port, plan_at(streams, first + 1_000 * streams), streams) for streams in STREAMS},
        {
            streams: await play_at(port, plan_at(streams, first + 1_000 * streams + 500, ttft_ms=100), streams)
            for streams in FIRST_BYTE_P99_MS
        },
        await play_at(port, mixed_plan(MIXED, first + 200_000), 64),
        await leave(port, run),
    )


def delay_figures(runs: Sequence[Run], upstream: Upstream) -> Json:
    mixed = [one for run in runs for one in run.mixed]
    closed = [discard_figures(run.mixed, upstream)["verdict_to_closed_ms"]["p95"] for run in runs]
    discards = discard_figures(mixed, upstream) | {"late_tokens": late_tokens(mixed, upstream)}
    discards["verdict_to_closed_ms"]["p95"] = round(median(closed), 3)
    return {
        "added_ms": {n: over_runs([added_ms(run.added[n], upstream) for run in runs]) for n in STREAMS},
        "verdict_to_first_byte_ms": {
            n: over_runs([released_ms(run.ready[n], upstream) for run in runs]) for n in FIRST_BYTE_P99_MS
        },
        "discards": discards,
        "client_gone": left_figures([run.gone for run in runs], upstream),
    }


def lines(figures: Json) -> list[Line]:
    """The table, of what was measured."""
    told: list[Line] = []

    def row(what: str, value: float, unit: str, reach: float, *, least: bool = False) -> None:
        bound = f"{'>=' if least else '<='} {reach:g} {unit}".rstrip()
        told.append(Line(what, f"{value:.1f} {unit}".rstrip(), bound, value >= reach if least else value <= reach))

    if "thousand_s" in figures:
        row("processor, a delta, 16 streams at 80/s", figures["delta_paced_us"], "us", DELTA_US)
        row("processor, a delta, 16 streams, model unlimited", figures["delta_unlimited_us"], "us", DELTA_US)
        row("processor, 1,000 requests of 40 tokens, 16 streams at 80/s", figures["thousand_s"], "s", THOUSAND_S)
        row("processor, 1,000 requests of 40 tokens, model unlimited", figures["thousand_unlimited_s"], "s", THOUSAND_S)
    for streams, found in figures.get("added_ms", {}).items():
        row(
            f"added to the ideal, {streams} streams of {LENGTHS[streams]} tokens, p50",
            found["p50"],
            "ms",
            ADDED_P50_MS[streams],
        )
        if streams in ADDED_P99_MS:
            row("  p99", found["p99"], "ms", ADDED_P99_MS[streams])
    if "added_short_ms" in figures:
        short = figures["added_short_ms"]
        told.append(
            Line(f"the same, 128 streams of {TOKENS} tokens, p50 / p99", f"{short['p50']:.1f} / {short['p99']:.1f} ms")
        )
    for streams, found in figures.get("verdict_to_first_byte_ms", {}).items():
        row(f"verdict to first byte, {streams} streams, p99", found["p99"], "ms", FIRST_BYTE_P99_MS[streams])
    if "discards" in figures:
        closed, gone = figures["discards"], figures["client_gone"]
        row("verdict to closed, 64 streams, p95", closed["verdict_to_closed_ms"]["p95"], "ms", CLOSED_MS)
        row("tokens after the verdict, the most of a draft", closed["late_tokens"], "", 1)
        told.append(
            Line(
                "discards cut", f"{closed['cut']} of {closed['discarded']}", "all", closed["cut"] == closed["discarded"]
            )
        )
        row("client gone to upstream cut, p95", gone["cut_ms"]["p95"], "ms", GONE_MS)
        told.append(Line("requests begun after it left", str(gone["begun_later"]), "0", gone["begun_later"] == 0))
    if "unlimited" in figures:
        sides = figures["unlimited"]
        told += [
            Line(
                f"model unlimited, 200 tokens: {name.replace('_', ' ')}",
                f"{sides[name]['cpu_ms']:.1f} ms, {sides[name]['answers_a_second']:.0f}/s",
            )
            for name in ("gateway", "by_hand")
        ]
        row("  gateway / by hand, by processor time", sides["times_by_processor"], "", TIMES, least=True)
        row("  gateway / by hand, by the clock", sides["times_by_clock"], "", TIMES, least=True)
    for streams, kib in figures.get("idle_kib", {}).items():
        row(f"memory of an open idle stream, {streams} open", kib, "KiB", IDLE_KIB)
    told.append(Line("cores are kept from sleeping", "yes" if figures["awake"] else "no"))
    before_ms, after_ms = figures["machine"]["million_additions_ms"], figures["million_additions_after_ms"]
    told.append(
        Line("this core: a million additions in Python, before / after", f"{before_ms:.0f} / {after_ms:.0f} ms")
    )
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures what the gateway itself takes.")
    parser.add_argument("--json", type=Path, help="write every figure there")
    parser.add_argument("--parts", default="cpu,delays,rate,memory", help="which of cpu, delays, rate, memory")
    parser.add_argument("--awake", action="store_true", help="let no core sleep meanwhile, where that is allowed")
    asked = parser.parse_args()
    with awake(is_wanted=asked.awake) as is_awake:
        figures = anyio.run(measure, asked.parts.split(","), backend_options={"use_uvloop": True})
    figures["awake"] = is_awake
    return report("What the gateway itself takes", lines(figures), figures, asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
