"""A run: the same questions put to every strategy in turns, and what came of each."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from gateway.bench.load import Reply, ask
from gateway.bench.profile import Prices, Profile
from gateway.bench.stage import Stage, staged, workshop
from gateway.bench.strategies import SPECULATE, Strategy
from gateway.bench.upstream import Exchange, Upstream
from gateway.bench.workload import Planned, defaults_of, planned

WARM_UP = (
    12  # questions for each strategy before the first run: connections, pages of memory and the pace of the models
)
ONLY_THE_MIX: tuple[Strategy, ...] = ("plain", "always")  # are not asked the failing questions beyond it
WARM_UP_FROM, RUN_STEP = 1_000_000, 10_000  # numbers of questions, so that no two are the same


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, how it was answered, and what came of it. Times in milliseconds, tokens and money in all."""

    run: int
    planned: Planned
    strategy: Strategy
    first_byte_ms: float
    path: str
    discarded_tokens: int
    cost: float
    told_discarded: int = 0
    """As the gateway's own ledger has it, which is what its bucket counts."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is asked: `questions` a run and strategy and `failing` ones more, so many at once."""

    strategies: tuple[Strategy, ...]
    questions: int = 70
    runs: int = 5
    concurrency: int = 16
    failing: int = 50

    @property
    def answers(self) -> int:
        """How many are asked for in all, but for those that warm up."""
        return self.runs * sum(self.questions + self.failing * (name not in ONLY_THE_MIX) for name in self.strategies)


@dataclass(slots=True)
class Turn:
    """One request of a run."""

    run: int
    planned: Planned
    strategy: Strategy
    reply: Reply | None = None

    @property
    def question(self) -> str:
        return self.planned.question(f"{self.strategy} {self.run}")


@dataclass(slots=True)
class Turns:
    """The requests of all runs, in the order in which they are asked."""

    turns: list[Turn] = field(default_factory=list)

    def add(self, run: int, questions: Sequence[Planned], strategies: Sequence[Strategy], seed: int) -> None:
        """A run more: each question by every strategy one after the other, which of them is first drawn anew, so that what disturbs the
        machine disturbs all."""
        chance = random.Random(seed)
        for question in questions:
            for strategy in chance.sample(strategies, len(strategies)):
                if not question.is_extra or strategy not in ONLY_THE_MIX:
                    self.turns.append(Turn(run, question, strategy))


async def measure(
    profile: Profile, plan: Plan, answered: Callable[[], None] = lambda: None, **settings: str
) -> list[Asked]:
    """Plays the plan against a gateway, with these settings more, and a model's service of its own; `answered` is called for each answer.

    Raises StageBroken; stops both whatever happens.
    """
    defaults = defaults_of(profile)
    prices = profile.prices
    settings = {
        "GATEWAY_SECOND_WORTH": str(prices.second),
        "GATEWAY_INPUT_PRICE": str(prices.generator_input),
        "GATEWAY_OUTPUT_PRICE": str(prices.generator_output),
        "GATEWAY_GRADER_PRICE": str(prices.grader_input),
        **settings,
    }
    with workshop() as folder:
        async with staged(folder, defaults, **settings) as stage:
            warm, runs = Turns(), Turns()
            warm.add(0, planned(profile, WARM_UP, first=WARM_UP_FROM), plan.strategies, seed=0)
            await play(stage, warm.turns, plan.concurrency)
            for run in range(1, plan.runs + 1):
                questions = planned(profile, plan.questions, seed=run, first=run * RUN_STEP, extra=plan.failing)
                runs.add(run, questions, plan.strategies, seed=run)
            await play(stage, runs.turns, plan.concurrency, answered)
            upstream = stage.upstream()
    return [asked(turn, upstream, profile) for turn in runs.turns]


async def play(
    stage: Stage, turns: Sequence[Turn], concurrency: int, answered: Callable[[], None] = lambda: None
) -> None:
    """Asks every question, so many at once, each client beginning a little after the last; calls `answered` after each."""
    waiting: Iterator[Turn] = iter(turns)

    async def client(number: int) -> None:
        await anyio.sleep(number / concurrency)
        for turn in waiting:
            fields = {"options": {"speculate": SPECULATE[turn.strategy]}}
            turn.reply = await ask(stage.ports[turn.strategy], turn.question, fields)
            answered()

    async with anyio.create_task_group() as tasks:
        for number in range(concurrency):
            tasks.start_soon(client, number)


def asked(turn: Turn, upstream: Upstream, profile: Profile) -> Asked:
    """What came of a request that has been answered. Tokens are counted at the model's side: a released draft is a whole one."""
    reply = turn.reply
    assert reply is not None
    done: Mapping[str, Any] = reply.done
    first_s = reply.first_answer_s or reply.refused_s or reply.ended_s
    assert first_s is not None
    path = str(done["path"])
    drafted = sum(exchange.tokens for exchange in upstream.drafts(turn.question))
    released = profile.answer.tokens if path in ("clean", "recovered") else 0
    return Asked(
        run=turn.run,
        planned=turn.planned,
        strategy=turn.strategy,
        first_byte_ms=(first_s - reply.began_s) * 1000,
        path=path,
        discarded_tokens=drafted - released,
        cost=sum(price_of(exchange, profile.prices) for exchange in upstream.of(turn.question)),
        told_discarded=int(done["usage"]["discarded_tokens"]),
    )


def price_of(exchange: Exchange, prices: Prices) -> float:
    """What one request to a model costs: what it read, and what it had said when it ended or was cut."""
    is_draft = exchange.kind == "generator"
    read, said = (
        (prices.generator_input, prices.generator_output) if is_draft else (prices.grader_input, prices.grader_output)
    )
    return (exchange.input_tokens * read + exchange.tokens * said) / 1e6
