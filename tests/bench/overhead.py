"""`make bench-overhead`: what the gateway itself takes: processor time, delay, memory.

The gateway is alone on one core (where there are two); the scripted Messages API and this client, which reads raw sockets, share another.
Processor time is the gateway's own, by the system's count. On a busy machine it is still about right; the delays are not.
"""

import argparse
import os
import random
import struct
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import psutil
from anyio.streams.buffered import BufferedByteReceiveStream

from gateway.bench.figures import Json, Line, machine, million_additions_ms, report, spread
from gateway.bench.load import Reply, ask
from gateway.bench.upstream import Upstream
from tests.bench.race import Asked, Planned, burst_plan, discard_figures, mixed_plan, play
from tests.bench.stage import Stage, messages_process, staged, workshop
from tests.support.gateway_process import ROOT, environment

GRADE_MS, FIRST_TOKEN_MS, TOKENS_PER_S, TOKENS = 250, 400, 80, 40
SCRIPT = f"[[grade_ms={GRADE_MS} ttft_ms={FIRST_TOKEN_MS} tps={TOKENS_PER_S} tokens={TOKENS}]]"
UNLIMITED = "[[grade_ms=0 ttft_ms=0 retrieve_ms=0 tps=1000000 tokens=200]]"
STREAMS = (1, 16, 64, 128)
LENGTHS = {1: 8, 16: TOKENS, 64: 200, 128: 200}  # of an answer, where its stream is one of so many
ROUNDS = {1: 60, 16: 6, 64: 2, 128: 2}  # questions of each stream
ADDED_P50_MS = {1: 3.0, 16: 3.0, 64: 5.0, 128: 8.0}
ADDED_P99_MS = {16: 10.0, 128: 25.0}
FIRST_BYTE_P99_MS = {1: 2.0, 64: 10.0}
DELTA_US, THOUSAND_S, CLOSED_MS, GONE_MS, IDLE_KIB, TIMES = 30.0, 10.0, 3.0, 5.0, 60.0, 5.0
PACED, UNPACED = (320, 20), (6_000, 20)  # tokens of the streams whose difference gives the price of one
IDLE = (500, 1_000)
SETTLED_S = 0.5  # after the last client left
LEFT, LEAVING_AT_ONCE = 192, 16
RUN_LIMIT_S = 295.0
SETTINGS = {
    "GATEWAY_RETRIEVER": "scripted",
    "GATEWAY_SCRIPT": "[[retrieve_ms=40]]",
    "GATEWAY_SPECULATE": "always",
    "GATEWAY_MAX_STREAMS": "1200",
}


CORES = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []  # before any of them is reserved


class Core:
    """The gateway's process, alone on the last core where there is another for everyone else."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._clock = ((~pid) << 3) | 2  # CLOCK_PROCESS_CPUTIME_ID of that process, clock_getcpuclockid(3)

    def reserve(self, others: Sequence[int]) -> bool:
        """Whether there was a core to reserve."""
        if len(CORES) < 2:
            return False
        for thread in self._process.threads():
            os.sched_setaffinity(thread.id, {CORES[-1]})
        for other in (*others, os.getpid()):
            for thread in psutil.Process(other).threads():
                os.sched_setaffinity(thread.id, set(CORES[:-1]))
        return True

    def spent_s(self) -> float:
        return time.clock_gettime(self._clock)

    def memory_kib(self) -> float:
        return float(self._process.memory_info().rss / 1024)


LATENCY = Path("/dev/cpu_dma_latency")  # https://docs.kernel.org/power/pm_qos_interface.html


@contextmanager
def awake(*, is_wanted: bool) -> Iterator[bool]:
    """No core sleeps in the block, where that is wanted and the system lets us ask for it; whether it does.

    A core that sleeps is slow for a while after each of the waits that an answer consists of, and a virtual one as slow as its host likes.
    """
    if not is_wanted or not os.access(LATENCY, os.W_OK):
        yield False
        return
    with LATENCY.open("wb", buffering=0) as wish:  # as long as it is open
        wish.write(struct.pack("i", 0))  # microseconds in which a core is to be there again
        yield True


async def load(port: int, questions: Sequence[str], streams: int, spread_s: float = 0.0) -> list[Reply]:
    """Asks them all, so many at once."""
    waiting, replies = iter(questions), list[Reply]()

    async def client(number: int) -> None:
        await anyio.sleep(number * spread_s / streams)
        for question in waiting:
            replies.append(await ask(port, question, {}))

    async with anyio.create_task_group() as tasks:
        for number in range(streams):
            tasks.start_soon(client, number)
    return replies


def port_of(base_url: str) -> int:
    return int(base_url.rpartition(":")[2])


async def spent(core: Core, port: int, questions: Sequence[str], streams: int, spread_s: float = 0.0) -> float:
    """Processor time of the gateway for these questions, in seconds."""
    before = core.spent_s()
    replies = await load(port, questions, streams, spread_s)
    assert all(reply.done["path"] == "clean" for reply in replies)
    return core.spent_s() - before


async def per_delta_us(core: Core, port: int, pace: int, tokens: tuple[int, int], streams: int = 16) -> float:
    """What one more token costs: long streams against short ones."""
    long, short = (
        [f"How long is {number}? [[tokens={length} tps={pace}]]" for number in range(streams)] for length in tokens
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


def added_ms(asked: Sequence[Asked], upstream: Upstream) -> Json:
    """First answer byte over r + max(g, t), from the question's last byte on. t is as the model's side took it: what that is late by, and
    until a client is connected, is not the gateway's.
    """
    found = []
    for one in asked:
        assert one.reply.asked_s is not None
        (draft,) = upstream.drafts(one.planned.question)
        late_ms = (draft.at_s["first_token"] - draft.at_s["request"]) * 1000 - FIRST_TOKEN_MS
        found.append(one.over_ideal_ms - late_ms - (one.reply.asked_s - one.reply.began_s) * 1000)
    return spread(found)


class Somewhere:
    """A stage of which only the address is known."""

    def __init__(self, port: int) -> None:
        self.gateway = self
        self.base_url = f":{port}"


def released_ms(asked: Sequence[Asked], upstream: Upstream) -> Json:
    """From the last byte of a good verdict, as the model's side sent it, to the first answer byte at the client."""
    took = []
    for one in asked:
        assert one.reply.first_answer_s is not None
        verdict_s = upstream.grades(one.planned.question)[-1].at_s["finished"]
        took.append((one.reply.first_answer_s - verdict_s) * 1000)
    return spread(took)


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


async def leave(stage: Stage, port: int, chance: random.Random) -> Json:
    """Clients that leave at a random moment: how long until the model's side saw each of their requests end, and what began later."""
    waiting, left, whole_s = iter(range(LEFT)), dict[str, Reply](), cycle_s(TOKENS)

    async def client(place: int) -> None:
        await anyio.sleep(place * whole_s / LEAVING_AT_ONCE)
        for number in waiting:
            question = f"Who leaves {number}?"
            left[question] = await ask(port, question, {}, leave_after_s=0.05 + chance.random() * (whole_s - 0.15))

    async with anyio.create_task_group() as tasks:
        for place in range(LEAVING_AT_ONCE):
            tasks.start_soon(client, place)
    await anyio.sleep(SETTLED_S)
    took, uncut, later, upstream = list[float](), 0, 0, stage.upstream()
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
    return {"cut_ms": spread(took), "uncut": uncut, "begun_later": later}


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


@asynccontextmanager
async def by_hand(folder: Path, base_url: str) -> AsyncIterator[tuple[int, int]]:
    """The hand-written loop as a process: its id and port."""
    env = environment(folder, {"ANTHROPIC_API_KEY": "bench", "ANTHROPIC_BASE_URL": base_url})
    command = [sys.executable, "-m", "tests.bench.handwritten"]
    async with await anyio.open_process(command, cwd=ROOT, env=env, stdin=None, stderr=None) as process:
        try:
            assert process.stdout is not None
            with anyio.fail_after(20):
                line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 200)
            yield process.pid, port_of(line.decode())
        finally:
            with anyio.CancelScope(shield=True):
                process.kill()
                await process.wait()


async def unlimited(answers: int = 160, streams: int = 16) -> Json:
    """Answers of 200 tokens from a model without delays: what an answer costs either server, and how many a second each gives."""
    questions = [f"How fast is {number}?" for number in range(answers)]
    sides: Json = {}
    with workshop() as folder:
        async with staged(folder, UNLIMITED, **SETTINGS) as stage:
            sides["gateway"] = await rate(
                Core(stage.gateway.process.pid), port_of(stage.gateway.base_url), stage.messages_pid, questions, streams
            )
        async with (
            messages_process(UNLIMITED, folder / "by_hand.jsonl") as (pid, base_url),
            by_hand(folder, base_url) as (hand_pid, port),
        ):
            sides["by_hand"] = await rate(Core(hand_pid), port, pid, questions, streams)
    sides["times_by_processor"] = round(sides["by_hand"]["cpu_ms"] / sides["gateway"]["cpu_ms"], 2)
    sides["times_by_clock"] = round(sides["gateway"]["answers_a_second"] / sides["by_hand"]["answers_a_second"], 2)
    return sides


async def rate(core: Core, port: int, messages_pid: int, questions: Sequence[str], streams: int) -> Json:
    core.reserve((messages_pid,))
    await load(port, questions[:32], streams)
    before, began = core.spent_s(), time.monotonic()
    replies = await load(port, [f"{each} again" for each in questions], streams)
    took_s = time.monotonic() - began
    assert all(reply.done["path"] == "clean" for reply in replies)
    return {
        "cpu_ms": round((core.spent_s() - before) * 1000 / len(questions), 2),
        "answers_a_second": round(len(questions) / took_s, 1),
    }


async def measure(wanted: Sequence[str]) -> Json:
    """The figures of the parts that are wanted."""
    figures: Json = {"machine": machine(), "script": SCRIPT}
    with anyio.fail_after(RUN_LIMIT_S):
        if {"cpu", "delays"} & set(wanted):
            with workshop() as folder:
                async with staged(folder, SCRIPT, **SETTINGS) as stage:
                    core, port = Core(stage.gateway.process.pid), port_of(stage.gateway.base_url)
                    figures["core_of_its_own"] = core.reserve((stage.messages_pid,))
                    await play_at(port, burst_plan(64, 90_000), 16)
                    if "cpu" in wanted:
                        figures |= await processor(core, port)
                    if "delays" in wanted:
                        figures |= await delays(stage, port)
        if "rate" in wanted:
            figures["unlimited"] = await unlimited()
        if "memory" in wanted:
            figures["idle_kib"] = {streams: round(await idle(streams), 1) for streams in IDLE}
    figures["million_additions_after_ms"] = million_additions_ms()
    return figures


async def processor(core: Core, port: int) -> Json:
    questions = [f"What is it, {number}?" for number in range(160)]
    unpaced = [f"What is it now, {number}? [[grade_ms=0 ttft_ms=0 tps=1000000]]" for number in range(320)]
    return {
        "delta_paced_us": round(await per_delta_us(core, port, TOKENS_PER_S, PACED), 1),
        "delta_unlimited_us": round(await per_delta_us(core, port, 1_000_000, UNPACED), 2),
        "thousand_s": round(await spent(core, port, questions, 16, cycle_s(TOKENS)) * 1000 / len(questions), 2),
        "thousand_unlimited_s": round(await spent(core, port, unpaced, 16) * 1000 / len(unpaced), 2),
    }


async def delays(stage: Stage, port: int) -> Json:
    """The added time, the way from a verdict to the client and to a discarded draft's connection, and that of a client's leaving."""
    asked = {streams: await play_at(port, plan_at(streams, 1_000 * streams), streams) for streams in STREAMS}
    short = await play_at(port, burst_plan(256, 300_000), 128)
    ready = {
        streams: await play_at(port, plan_at(streams, 1_000 * streams + 500, ttft_ms=100), streams)
        for streams in FIRST_BYTE_P99_MS
    }
    mixed = await play_at(port, mixed_plan(192, 200_000), 64)
    gone = await leave(stage, port, random.Random(3))
    upstream = stage.upstream()
    return {
        "added_ms": {streams: added_ms(each, upstream) for streams, each in asked.items()},
        "added_short_ms": added_ms(short, upstream),
        "verdict_to_first_byte_ms": {streams: released_ms(each, upstream) for streams, each in ready.items()},
        "discards": discard_figures(mixed, upstream) | {"late_tokens": late_tokens(mixed, upstream)},
        "client_gone": gone,
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
