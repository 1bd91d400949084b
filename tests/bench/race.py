"""`make bench-race`: what the race costs over its ideal, and how fast a bad verdict closes its draft.

Three processes: the scripted Messages API, the gateway over a real Postgres, and this one, the load client. Every figure is taken
outside the gateway: by the client's clock and by the Messages server's own log; the gateway says only how long retrieval took.
"""

import argparse
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import anyio

from gateway.bench.figures import Json, Line, machine, report, spread
from gateway.bench.load import Reply, ask, in_turns
from gateway.bench.upstream import Exchange, Upstream
from gateway.providers.script import Script
from tests.bench.effort import Effort
from tests.bench.stage import Stage, staged, topic, workshop

GRADE_MS, FIRST_TOKEN_MS, TOKENS_PER_S, TOKENS = 250, 400, 80, 40
SCRIPT = f"[[grade_ms={GRADE_MS} ttft_ms={FIRST_TOKEN_MS} tps={TOKENS_PER_S} tokens={TOKENS}]]"
TALKS_AT_MS = (
    100  # half of the discarded drafts have said something when their verdict comes: there is something to leak
)
TALKS_ON = 80  # more tokens for those, so that a draft that is not cut is not over by itself before anyone could tell
REQUESTS, CONCURRENCY = 200, 16
MIXED = 300
INSUFFICIENT_EVERY = (
    10  # of the bad ones: each reranks 20 passages, about 1 s of a core, and the race is what is measured here
)
MARK = re.compile(rb"a\d+d\d+w\d")  # what every scripted token begins with
RUN_LIMIT_S = 225.0
REACH_P50_MS, REACH_P99_MS, REACH_CLOSE_MS = 6.0, 15.0, 5.0

Kind = Literal["clean", "partial", "insufficient", "refused"]
VERDICTS: dict[Kind, str] = {
    "clean": "sufficient",
    "partial": "partial,sufficient",
    "insufficient": "insufficient,sufficient",
    "refused": "partial,partial",
}
PATHS: dict[Kind, str] = {"clean": "clean", "partial": "recovered", "insufficient": "recovered", "refused": "refused"}


@dataclass(frozen=True, slots=True)
class Planned:
    """One question of the load."""

    number: int
    kind: Kind = "clean"
    speculate: Literal["always", "never"] = "always"
    ttft_ms: int = FIRST_TOKEN_MS
    length: int = TOKENS

    @property
    def tokens(self) -> int:
        """Differs between neighbours, so that one answer cannot pass for another."""
        return self.length - 4 + self.number % 9 + (TALKS_ON if self.ttft_ms == TALKS_AT_MS else 0)

    @property
    def question(self) -> str:
        """The number makes it unique, the marker says what will happen to it."""
        script = f'verdict={VERDICTS[self.kind]} missing="{topic(self.number + 3)}" ttft_ms={self.ttft_ms} tokens={self.tokens}'
        return f"{topic(self.number)}? (q{self.number}) [[{script}]]"

    @property
    def script(self) -> Script:
        return Script.parse(self.question, Script.parse(SCRIPT))


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and what came of it."""

    planned: Planned
    reply: Reply

    @property
    def retrieval_ms(self) -> float:
        """As the gateway measured it for this request."""
        return float(self.reply.done["timings_ms"]["retrieval"])

    @property
    def first_answer_ms(self) -> float:
        """From before the client connected until it read the first byte of the answer."""
        assert self.reply.first_answer_s is not None, self.planned
        return (self.reply.first_answer_s - self.reply.began_s) * 1000

    @property
    def over_ideal_ms(self) -> float:
        """What the first answer byte came later than the ideal of its mode."""
        grade_and_draft = (GRADE_MS, FIRST_TOKEN_MS)
        ideal = max(grade_and_draft) if self.planned.speculate == "always" else sum(grade_and_draft)
        return self.first_answer_ms - self.retrieval_ms - ideal


async def play(stage: Stage, plan: Sequence[Planned], concurrency: int, spread_s: float) -> list[Asked]:
    """Asks every question, so many at once; the first of each client `spread_s / concurrency` after the last one's.

    The script takes the same time for everyone, so that clients that start together would stay together for ever:
    a load of bursts and pauses that no crowd makes.
    """
    port = int(stage.gateway.base_url.rpartition(":")[2])
    waiting, asked = iter(plan), list[Asked]()

    async def client(number: int) -> None:
        await anyio.sleep(number * spread_s / concurrency)
        for planned in waiting:
            fields = {"options": {"speculate": planned.speculate}}
            asked.append(Asked(planned, await ask(port, planned.question, fields)))

    async with anyio.create_task_group() as tasks:
        for number in range(concurrency):
            tasks.start_soon(client, number)
    return asked


def clean_plan(requests: int) -> list[Planned]:
    """The same questions in both modes, in turns."""
    always = [Planned(number) for number in range(requests)]
    never = [replace(each, number=each.number + requests, speculate="never") for each in always]
    return in_turns(always, never)


def warm_plan(first: int) -> list[Planned]:
    """One of each kind."""
    return [Planned(first + n, kind) for n, kind in enumerate(VERDICTS)]


def burst_plan(requests: int, first: int) -> list[Planned]:
    """Clean ones, for clients that start together."""
    return [Planned(number) for number in range(first, first + requests)]


def mixed_plan(requests: int, first: int) -> list[Planned]:
    """Seven in ten clean, the others partial or refused, now and then insufficient; half of those talk before their verdict."""
    bad = 0
    plan = []
    for number in range(first, first + requests):
        if number % 10 < 7:
            plan.append(Planned(number))
            continue
        kind: Kind = "insufficient" if bad % INSUFFICIENT_EVERY == 0 else ("partial", "refused")[bad % 2]
        plan.append(Planned(number, kind, ttft_ms=(FIRST_TOKEN_MS, TALKS_AT_MS)[bad // 2 % 2]))
        bad += 1
    random.Random(2).shuffle(plan)
    return plan


def clean_figures(asked: Sequence[Asked], upstream: Upstream) -> Json:
    """First answer byte of one mode: the whole, over the ideal, and where the difference went."""
    before, late, after = [], [], []
    for one in asked:
        (draft,) = upstream.drafts(one.planned.question)
        request_s, token_s = draft.at_s["request"], draft.at_s["first_token"]
        assert one.reply.first_answer_s is not None
        grade_ms = 0.0 if one.planned.speculate == "always" else GRADE_MS
        before.append((request_s - one.reply.began_s) * 1000 - one.retrieval_ms - grade_ms)
        late.append((token_s - request_s) * 1000 - FIRST_TOKEN_MS)
        after.append((one.reply.first_answer_s - token_s) * 1000)
    return {
        "first_answer_ms": spread([one.first_answer_ms for one in asked]),
        "retrieval_ms": spread([one.retrieval_ms for one in asked]),
        "over_ideal_ms": spread([one.over_ideal_ms for one in asked]),
        "of_which": {
            "until_upstream_has_the_request_ms": spread(before),
            "upstream_late_ms": spread(late),
            "token_to_client_ms": spread(after),
        },
    }


def discard_figures(asked: Sequence[Asked], upstream: Upstream) -> Json:
    """From the last byte of a bad verdict to the moment the model's side saw its draft's connection closed."""
    silent, talking, uncut = list[float](), list[float](), list[str]()
    for one in asked:
        question, count = one.planned.question, discards(one)
        grades, drafts = upstream.grades(question)[:count], upstream.drafts(question)[:count]
        for grade, draft in zip(grades, drafts, strict=True):
            if "closed" not in draft.at_s:
                uncut.append(f"{question}: draft {draft.draft} of attempt {draft.attempt}")
                continue
            took_ms = (draft.at_s["closed"] - grade.at_s["finished"]) * 1000
            (talking if "first_token" in draft.at_s else silent).append(took_ms)
    return {
        "discarded": len(silent) + len(talking) + len(uncut),
        "cut": len(silent) + len(talking),
        "not_cut": uncut,
        "verdict_to_closed_ms": spread(silent + talking),
        "while_silent_ms": spread(silent),
        "while_talking_ms": spread(talking),
    }


def discards(one: Asked) -> int:
    """How many drafts of an answer were to be thrown away."""
    return int(one.reply.done["attempts"]) - int(one.reply.done["path"] in ("clean", "recovered"))


def truth_figures(asked: Sequence[Asked], upstream: Upstream) -> Json:
    """Whether every client got exactly what it was to get: the text of the one released draft, of no other, and not before its verdict."""
    leaked_bytes, wrong, early, off_script = 0, list[str](), list[str](), list[str]()
    for one in asked:
        question, path = one.planned.question, one.reply.done["path"]
        if path != PATHS[one.planned.kind]:
            off_script.append(f"{question}: {path}")
        released = upstream.drafts(question)[-1] if path in ("clean", "recovered") else None
        leaked_bytes += leaked(bytes(one.reply.received), released)
        truth = "" if released is None else one.planned.script.text(released.attempt, released.draft)
        if one.reply.text != truth:
            wrong.append(question)
        if released is not None:
            verdict_s, first_s = upstream.grades(question)[-1].at_s["responded"], one.reply.first_answer_s
            if first_s is None or first_s < verdict_s:
                early.append(question)
    return {
        "answers": len(asked),
        "leaked_bytes": leaked_bytes,
        "not_byte_for_byte": wrong,
        "before_their_verdict": early,
        "other_path_than_scripted": off_script,
        "paths": dict(Counter(one.reply.done["path"] for one in asked)),
    }


def leaked(received: bytes, released: Exchange | None) -> int:
    """Bytes of markers of any draft but the released one, in everything that a client received."""
    own = None if released is None else b"a%dd%dw" % (released.attempt, released.draft)
    return sum(len(mark) for mark in MARK.findall(received) if own is None or not mark.startswith(own))


@contextmanager
def seconds(into: Json) -> Iterator[None]:
    began = time.monotonic()
    yield
    into["took_s"] = round(time.monotonic() - began, 1)


async def block(stage: Stage, plan: Sequence[Planned], concurrency: int, spread_s: float) -> tuple[list[Asked], Json]:
    """Plays a plan; what came of it, and what it took."""
    effort, took = Effort(stage), Json()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(effort.watch)
        with seconds(took):
            asked = await play(stage, plan, concurrency, spread_s)
        tasks.cancel_scope.cancel()
    return asked, effort.figures(len(plan)) | took


async def provider_block(requests: int, concurrency: int, spread_s: float, settings: dict[str, str]) -> list[Asked]:
    """The clean questions once more, with the scripted provider in the gateway's own process instead of Claude behind a socket."""
    scripted = {"GATEWAY_PROVIDER": "scripted", "GATEWAY_SCRIPT": SCRIPT}
    with workshop() as folder:
        async with staged(folder, SCRIPT, **settings, **scripted) as stage:
            await play(stage, burst_plan(concurrency, 40_000), concurrency, spread_s)
            return await play(stage, burst_plan(requests, 41_000), concurrency, spread_s)


async def measure(requests: int, mixed: int, concurrency: int, settings: dict[str, str]) -> Json:
    """All figures of one run. Raises TimeoutError when the machine is too slow for it."""
    with anyio.fail_after(RUN_LIMIT_S):
        return await _measure(requests, mixed, concurrency, settings)


async def _measure(requests: int, mixed: int, concurrency: int, settings: dict[str, str]) -> Json:
    cycle_s = (max(GRADE_MS, FIRST_TOKEN_MS) + GRADE_MS / 2) / 1000 + TOKENS / TOKENS_PER_S
    with workshop() as folder:
        async with staged(folder, SCRIPT, **settings) as stage:
            await play(stage, [*warm_plan(10_000), *burst_plan(concurrency, 11_000)], concurrency, cycle_s)
            clean, clean_effort = await block(stage, clean_plan(requests), concurrency, cycle_s)
            bursts, burst_effort = await block(stage, burst_plan(requests // 2, 20_000), concurrency, 0.0)
            mix, mixed_effort = await block(stage, mixed_plan(mixed, 30_000), concurrency, cycle_s)
            upstream = stage.upstream()
    provider = await provider_block(requests, concurrency, cycle_s, settings)
    always = clean_figures([one for one in clean if one.planned.speculate == "always"], upstream)
    never = clean_figures([one for one in clean if one.planned.speculate == "never"], upstream)
    medians = [each["first_answer_ms"]["p50"] for each in (always, never)]
    return {
        "machine": machine(),
        "script": SCRIPT,
        "concurrency": concurrency,
        "settings": settings,
        "always": always,
        "never": never,
        "ratio_of_medians": round(medians[0] / medians[1], 3),
        "scripted_provider": {"over_ideal_ms": spread([one.over_ideal_ms for one in provider])},
        "bursts": clean_figures(bursts, upstream),
        "discards": discard_figures(mix, upstream),
        "truth": truth_figures([*clean, *bursts, *mix], upstream),
        "effort": {"clean": clean_effort, "bursts": burst_effort, "mixed": mixed_effort},
    }


def lines(figures: Json) -> list[Line]:
    """The table."""
    always, never = figures["always"], figures["never"]
    over, closed, truth = always["over_ideal_ms"], figures["discards"], figures["truth"]
    provider = figures["scripted_provider"]["over_ideal_ms"]
    close_p95 = closed["verdict_to_closed_ms"]["p95"]
    whole = not truth["not_byte_for_byte"] and not truth["before_their_verdict"]

    def both(of: Json, key: str = "over_ideal_ms") -> str:
        return f"{of[key]['p50']:.1f} / {of[key]['p99']:.1f} ms"

    return [
        Line("first answer byte, always: p50 / p99", both(always, "first_answer_ms")),
        Line("  of which retrieval (r)", both(always, "retrieval_ms")),
        Line("  over r + max(g, t), p50", f"{over['p50']:.2f} ms", "<= 6 ms", over["p50"] <= REACH_P50_MS),
        Line("  over r + max(g, t), p99", f"{over['p99']:.2f} ms", "<= 15 ms", over["p99"] <= REACH_P99_MS),
        *(
            Line(f"    {name.removesuffix('_ms').replace('_', ' ')}", both(always["of_which"], name))
            for name in always["of_which"]
        ),
        Line(
            "the same with the scripted provider, p50",
            f"{provider['p50']:.2f} ms",
            "<= 6 ms",
            provider["p50"] <= REACH_P50_MS,
        ),
        Line(
            "the same with the scripted provider, p99",
            f"{provider['p99']:.2f} ms",
            "<= 15 ms",
            provider["p99"] <= REACH_P99_MS,
        ),
        Line("first answer byte, never: p50 / p99", both(never, "first_answer_ms")),
        Line("  over r + g + t: p50 / p99", both(never)),
        Line("always / never, ratio of medians", f"{figures['ratio_of_medians']:.3f}"),
        Line("always, all clients in step: over ideal", both(figures["bursts"])),
        Line(
            "discards cut", f"{closed['cut']} of {closed['discarded']}", "all", closed["cut"] == closed["discarded"] > 0
        ),
        Line("verdict to closed, p50", f"{closed['verdict_to_closed_ms']['p50']:.2f} ms"),
        Line("verdict to closed, p95", f"{close_p95:.2f} ms", "<= 5 ms", close_p95 <= REACH_CLOSE_MS),
        Line("verdict to closed, greatest", f"{closed['verdict_to_closed_ms']['max']:.2f} ms"),
        Line("leaked bytes", str(truth["leaked_bytes"]), "0", truth["leaked_bytes"] == 0),
        Line("answers byte for byte, after their verdict", f"{truth['answers']}" if whole else "NO", "all", whole),
        Line("answers on another path than scripted", str(len(truth["other_path_than_scripted"]))),
        Line(
            "processor: gateway per request, other things",
            f"{figures['effort']['clean']['cpu_ms_per_request']['gateway']:.1f} ms, "
            f"{figures['effort']['clean']['busy_with_other_things']:.0%}",
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures the race against its ideal.")
    parser.add_argument("--json", type=Path, help="write every figure there")
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--mixed", type=int, default=MIXED)
    parser.add_argument("--concurrency", type=int, default=CONCURRENCY)
    parser.add_argument("--retriever", choices=("postgres", "scripted"), default="postgres")
    asked = parser.parse_args()
    settings = {"GATEWAY_RETRIEVER": asked.retriever}
    figures = anyio.run(
        measure, asked.requests, asked.mixed, asked.concurrency, settings, backend_options={"use_uvloop": True}
    )
    title = (
        f"The race: {asked.requests} requests per mode at concurrency {asked.concurrency}, search by {asked.retriever}"
    )
    return report(title, lines(figures), figures, asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
