"""`gateway bench`: the strategies side by side, against a model's service that plays a script."""

import json
import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from gateway.bench.profile import Profile
    from gateway.bench.run import Plan

SLOW_QUESTIONS = 60  # of the second, short run with a slow grader
DOUBTFUL_QUESTIONS = 150  # of the third one, with a small bucket; over within its minute
CHECK_QUESTIONS, CHECK_RATE = 60, 10.0  # what checks a simulation on a server, and how many a second that serves about

ProfileFile = Annotated[
    Path | None, typer.Option("--profile", help="Delays, mix and prices in a TOML file; default: the built-in profile.")
]
FromLog = Annotated[bool, typer.Option("--from-log", help="Delays and mix from this server's decision log.")]
Since = Annotated[str, typer.Option(help="With --from-log, how far back: 90s, 30m, 24h, 7d.")]
Questions = Annotated[int, typer.Option(help="Questions a run and strategy.", min=1, max=9_000)]
Failing = Annotated[
    int, typer.Option(help="Failing questions more, for the percentiles of theirs alone.", min=0, max=900)
]
Runs = Annotated[int, typer.Option(help="Runs; ratios are medians of theirs.", min=1, max=50)]
Concurrency = Annotated[int, typer.Option(help="Questions at once.", min=1, max=128)]
Strategies = Annotated[str, typer.Option(help="Which, by comma: plain, classic, never, always, adaptive.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write every figure to this file.")]
Picture = Annotated[Path | None, typer.Option(help="Draw the figures: a PNG, written here.")]
Compare = Annotated[Path | None, typer.Option(help="Compare with the JSON of an older bench.")]
Simulate = Annotated[bool, typer.Option(help="Simulate instead, for loads beyond one machine; a short run checks it.")]
Rate = Annotated[float, typer.Option(help="With --simulate, answers in a second.", min=0.01, max=100_000)]
Answers = Annotated[int, typer.Option(help="With --simulate, how many answers.", min=100, max=1_000_000)]
Alone = Annotated[bool, typer.Option(help="With --simulate, start no server to check it against.")]
Check = Annotated[bool, typer.Option(help="Exit with 1 where the built-in profile misses what it is to reach.")]


def bench(
    profile: ProfileFile = None,
    from_log: FromLog = False,
    since: Since = "7d",
    questions: Questions = 70,
    failing: Failing = 50,
    runs: Runs = 5,
    concurrency: Concurrency = 16,
    strategies: Strategies = "plain,classic,never,always,adaptive",
    json_: JsonFile = None,
    picture: Picture = None,
    compare: Compare = None,
    check: Check = False,
    simulate: Simulate = False,
    rate: Rate = 50.0,
    answers: Answers = 5_000,
    alone: Alone = False,
) -> None:
    """Compare ways to answer, side by side: first answer byte by path, discarded tokens, cost. No key and no database needed."""
    from gateway.bench import shown
    from gateway.bench.figures import table as lined
    from gateway.bench.run import Plan
    from gateway.cli import USAGE, files_or_exit, run_or_exit, stop, write_or_exit
    from gateway.reporting.command import seconds_of

    since_s = seconds_of(since)
    if since_s is None:
        stop(f"{since!r} is no length of time; write 90s, 30m, 24h or 7d", USAGE)
    if profile is not None and from_log:
        stop("name a profile or read the decision log, not both", USAGE)
    files_or_exit(json_, picture)
    old = _older(compare)
    plan = Plan(_named(strategies), questions, runs, concurrency, failing)
    chosen = run_or_exit(partial(_logged, since_s)) if from_log else _read(profile)
    if simulate:
        _simulate(chosen, plan, (rate, answers), json_, picture, alone=alone)
        return
    is_built_in = profile is None and not from_log
    print(f"About {_seconds(chosen, plan):.0f} s", file=sys.stderr)
    found = run_or_exit(partial(_measured, chosen, plan, is_built_in))
    print(shown.table(found))
    lines = shown.ratios(found)
    if lines:
        print("\n" + lined("How they compare" + (", and what is to be reached" if is_built_in else ""), lines))
    if old is not None:
        print("\n" + shown.comparison(old, found))
    write_or_exit(json_, lambda: json.dumps(found, indent=2) + "\n")
    write_or_exit(picture, lambda: shown.picture(found))
    if check and is_built_in and any(line.is_met is False for line in lines):
        raise typer.Exit(1)


async def _measured(profile: "Profile", plan: "Plan", is_built_in: bool) -> dict[str, Any]:
    """The outcome; with the built-in profile also that with a slow grader and that with a small bucket, where who is compared is there."""
    from dataclasses import replace

    from gateway.bench.outcome import bucket, outcome
    from gateway.bench.profile import DOUBTFUL, SLOW_GRADER, SMALL_BUCKET_TOKENS
    from gateway.bench.run import measure

    short = replace(plan, failing=0, runs=1)
    slow = replace(short, strategies=("always", "adaptive"), questions=min(plan.questions, SLOW_QUESTIONS))
    doubtful = replace(short, strategies=("adaptive",), questions=min(2 * plan.questions, DOUBTFUL_QUESTIONS))
    more = [slow, doubtful] if is_built_in and {"always", "adaptive"}.issubset(plan.strategies) else []
    with typer.progressbar(length=sum(each.answers for each in (plan, *more)), file=sys.stderr) as bar:
        found = outcome(profile, plan, await measure(profile, plan, partial(bar.update, 1)))
        if more:
            found["slow_grader"] = outcome(SLOW_GRADER, slow, await measure(SLOW_GRADER, slow, partial(bar.update, 1)))
            tokens = str(SMALL_BUCKET_TOKENS)
            asked = await measure(DOUBTFUL, doubtful, partial(bar.update, 1), GATEWAY_WASTE_TOKENS=tokens)
            found["bucket"] = bucket(asked, SMALL_BUCKET_TOKENS)
    return found


def _simulate(
    profile: "Profile", plan: "Plan", load: tuple[float, int], json_: Path | None, picture: Path | None, *, alone: bool
) -> None:
    from dataclasses import replace

    from gateway.bench import frontier_shown
    from gateway.bench.frontier import Load, checked, frontier
    from gateway.bench.run import measure
    from gateway.cli import run_or_exit, write_or_exit

    rate, answers = load
    found, check = frontier(profile, Load(answers, rate)), None
    if not alone:
        short = replace(plan, questions=min(plan.questions, CHECK_QUESTIONS), failing=0, runs=1)
        print(f"Checking it against a server: about {_seconds(profile, short):.0f} s", file=sys.stderr)
        check = checked(profile, run_or_exit(partial(measure, profile, short)), CHECK_RATE)
    print(frontier_shown.table(found, check))
    write_or_exit(json_, lambda: json.dumps({**found, "check": check}, indent=2) + "\n")
    write_or_exit(picture, lambda: frontier_shown.picture(found))


def _seconds(profile: "Profile", plan: "Plan") -> float:
    """About how long the plan takes: what the slowest strategy takes for an answer, for all."""
    delays, answer = profile.delays, profile.answer
    each_s = (delays.retrieve + delays.grade + delays.first_token) / 1000 + answer.tokens / answer.tokens_per_s
    return 45 + plan.answers * each_s / plan.concurrency


def _named(strategies: str) -> Any:
    from gateway.bench.strategies import STRATEGIES
    from gateway.cli import USAGE, stop

    named = tuple(part.strip() for part in strategies.split(",") if part.strip())
    unknown = [name for name in named if name not in STRATEGIES]
    if unknown or not named:
        stop(f"there is no strategy {', '.join(unknown) or 'named'}; there are {', '.join(STRATEGIES)}", USAGE)
    return tuple(name for name in STRATEGIES if name in named)


def _read(path: Path | None) -> "Profile":
    from gateway.bench.profile import Profile, ProfileUnreadable, read_profile
    from gateway.cli import USAGE, stop

    try:
        return Profile() if path is None else read_profile(path)
    except ProfileUnreadable as error:
        stop(str(error), USAGE)


def _older(path: Path | None) -> Any:
    from gateway.bench.outcome import FORM
    from gateway.cli import USAGE, stop

    if path is None:
        return None
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        stop(f"{path} cannot be read: {error.strerror}", USAGE)
    except ValueError as error:
        stop(f"{path}: {error}", USAGE)
    if not isinstance(old, dict) or old.get("form") != FORM:
        stop(f"{path}: not written by this version of `gateway bench --json`", USAGE)
    return old


async def _logged(since_s: float) -> "Profile":
    from gateway.bench.logged import logged_profile
    from gateway.cli import settings_or_exit
    from gateway.wiring import owner_url
    from retrieval.pool import open_pool
    from retrieval.schema import migrate

    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(owner_url(settings_or_exit()))
        await migrate(url)
        return await logged_profile(await stack.enter_async_context(open_pool(url, size=1)), since_s)
