"""The simulation: the questions of a bench in virtual time, at a rate and in a number that no one machine serves.

What decides is the gateway's own code (streaming.speculate, its pace and its allowance of waste); what takes time are the delays that the
scripted service would play. The gateway itself takes none: what a server adds is what a run against one measures.
"""

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from heapq import heappop, heappush
from itertools import count
from statistics import median

from gateway.bench.profile import Prices, Profile, Sample
from gateway.bench.run import Asked
from gateway.bench.strategies import SPECULATE, Strategy
from gateway.bench.workload import Planned, defaults_of
from gateway.providers.script import Script, at
from gateway.providers.scripted import passage
from gateway.shedding import Shedding, shedding
from gateway.speculation import Terms
from grading.grade import Verdict
from retrieval.passage import Passage
from streaming.allowance import Allowance
from streaming.events import Path
from streaming.facts import AttemptEnded, DraftClosed, DraftStarted, Judged, SpeculationDecided
from streaming.foresight import UNCALLED
from streaming.ledger import CHARACTERS_PER_TOKEN
from streaming.pace import Pace
from streaming.ports import Decision, Speculator
from streaming.speculate import Adaptive, Always, Lookouts, Never, Worth

ATTEMPTS = 2
SEARCH_OF = {passage(1, search).document_id: search for search in (1, 2, 3)}
GRADE_TOKENS = 25  # of a verdict in its form
Steps = Generator[float, None, Asked]
"""An answer: yields the moment at which it goes on, in seconds, and returns what came of it."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A strategy, for `adaptive` with what a second is worth to it."""

    strategy: Strategy
    second: float
    waste_tokens: int = Terms().waste_tokens
    busy_streams: int | None = None
    looks_ahead: bool = True
    max_streams: int = 256

    @property
    def shedding(self) -> Shedding:
        """What goes first under load, as on a server that lets in `max_streams`; nobody is turned away here."""
        return shedding(self.max_streams, self.busy_streams)


@dataclass(slots=True)
class Clock:
    """Virtual time in seconds, and what is to happen in it."""

    now: float = 0.0
    open: int = 0
    _waiting: list[tuple[float, int, Steps]] = field(default_factory=list)
    _numbers: "count[int]" = field(default_factory=count)

    def start(self, at: float, steps: Steps) -> None:
        heappush(self._waiting, (at, next(self._numbers), steps))

    def run(self) -> list[Asked]:
        """Plays everything to its end; what came of it, in the order in which it ended."""
        ended = []
        while self._waiting:
            self.now, _, steps = heappop(self._waiting)
            try:
                self.start(next(steps), steps)
            except StopIteration as end:
                ended.append(end.value)
        return ended


def simulated(
    profile: Profile, policy: Policy, questions: Sequence[Planned], rate: float, seed: int = 1
) -> list[Asked]:
    """`questions` asked at random, `rate` in a second on average (Poisson), and answered by `policy`."""
    chance, clock = random.Random(seed), Clock()
    world = World(profile, policy, clock)
    asked_at = 0.0
    for question in questions:
        asked_at += chance.expovariate(rate)
        clock.start(asked_at, world.answer(question))
    return clock.run()


class World:
    """One server and its models under one policy."""

    def __init__(self, profile: Profile, policy: Policy, clock: Clock) -> None:
        self._policy, self._clock, self._prices = policy, clock, profile.prices
        self._defaults = Script.parse(defaults_of(profile))
        order = policy.shedding
        self._pace, self._is_pressed = known(profile), lambda: order.sheds_drafts(clock.open)
        self._lookouts = Lookouts(
            order.looking_ahead_above if policy.looks_ahead else 0,
            are_shed=lambda: order.sheds_looking_ahead(clock.open),
        )
        self._waste = Allowance(policy.waste_tokens, lambda: clock.now)

    def answer(self, planned: Planned) -> Steps:
        """One answer from its first search to its end."""
        clock, policy, script = self._clock, self._policy, planned.script(self._defaults)
        clock.open += 1
        began = clock.now
        speculator = self._speculator(planned)
        bill = Bill(self._prices)
        attempt = 1
        while True:
            yield clock.now + script.retrieve_s(attempt)
            first_byte, attempt = yield from self._attempt(attempt, script, speculator, bill)
            if first_byte is not None or attempt == ATTEMPTS:
                break
            if policy.strategy == "classic":
                bill.judge(_tokens(planned.question("")))
                yield clock.now + script.rewrite_s
            attempt += 1
        path = Path.REFUSED if first_byte is None else Path.CLEAN if attempt == 1 else Path.RECOVERED
        took_s = (clock.now if first_byte is None else first_byte) - began
        clock.open -= 1
        return Asked(0, planned, policy.strategy, took_s * 1000, path, bill.discarded, bill.cost)

    def _attempt(
        self, attempt: int, script: Script, speculator: Speculator, bill: "Bill"
    ) -> Generator[float, None, tuple[float | None, int]]:
        """One attempt after its search: the moment of the first answer byte, None where the set is not sufficient, and the number of the
        attempt that this came to be, the next one where that was under way."""
        clock, passages = self._clock, found(script.found(attempt), attempt, script.padding)
        is_plain = self._policy.strategy == "plain"
        grade, grade_s = script.grade(attempt, len(passages)), 0.0 if is_plain else script.grade_s(attempt)
        decision = speculator.decide(script.question, passages)
        speculator.learn(
            SpeculationDecided(attempt, decision.delay_s, decision.why, decision.p_sufficient, weighed=decision.weighed)
        )
        is_ahead = attempt == 1 and decision.looks_ahead
        ahead = self._prepared(script, script.wider, UNCALLED, speculator) if is_ahead else None
        verdict_at = clock.now + grade_s
        starts_at = verdict_at if decision.delay_s is None else min(verdict_at, clock.now + decision.delay_s)
        if not is_plain:
            bill.judge(_tokens_of(passages))
        if is_early := starts_at < verdict_at:
            yield starts_at
            speculator.learn(DraftStarted(attempt, 1))
        yield verdict_at
        if not is_plain:
            speculator.learn(Judged(attempt, grade, grade_s))
        draft = Draft(script, attempt, starts_at, passages, decision)
        if is_plain or grade.is_sufficient:
            self._drop(ahead, speculator, bill)
            return (yield from self._released(draft, speculator, bill, is_early=is_early)), attempt
        if is_early:
            said = draft.said_by(verdict_at)
            bill.draft(draft.input_tokens, said, is_released=False)
            speculator.learn(draft.closed("discarded", said))
        speculator.learn(AttemptEnded(attempt, "discarded"))
        if ahead is None:
            return None, attempt
        if grade.verdict is not Verdict.INSUFFICIENT and not ahead.is_known_to_do(verdict_at):
            if ahead.verdict_at <= verdict_at:
                self._drop(ahead, speculator, bill)
                return None, attempt
            ahead = yield from self._first_to_do(
                ahead, self._prepared(script, attempt + 1, UNCALLED - 1, speculator), speculator, bill
            )
        return (yield from self._taken(ahead, speculator, bill)), attempt + 1

    def _first_to_do(
        self, one: "Ahead", other: "Ahead", speculator: Speculator, bill: "Bill"
    ) -> Generator[float, None, "Ahead"]:
        """As streaming.foresight.first_to_do; the one that is not taken is dropped."""
        known_at = one.verdict_at
        taken, dropped = (one, other) if one.is_sufficient else (other, one)
        if other.is_sufficient and other.verdict_at < known_at:
            known_at, taken, dropped = other.verdict_at, other, one
        yield max(self._clock.now, known_at)
        self._drop(dropped, speculator, bill)
        return taken

    def _prepared(self, script: Script, search: int, called: int, speculator: Speculator) -> "Ahead":
        """The set of a search that is begun now, before it is known to be needed."""
        passages = found(script.found(search), search, script.padding)
        decision = speculator.decide(script.question, passages)
        speculator.learn(SpeculationDecided(called, decision.delay_s, decision.why, decision.p_sufficient))
        found_at = self._clock.now + script.retrieve_s(search)
        verdict_at = found_at + script.grade_s(search)
        starts_at = verdict_at if decision.delay_s is None else min(verdict_at, found_at + decision.delay_s)
        is_early = starts_at < verdict_at
        if is_early:
            speculator.learn(DraftStarted(called, 1))
        draft = Draft(script, search, starts_at, passages, decision, called)
        return Ahead(draft, found_at, verdict_at, script.grade(search, len(passages)).is_sufficient, is_early)

    def _taken(self, ahead: "Ahead", speculator: Speculator, bill: "Bill") -> Generator[float, None, float | None]:
        yield max(self._clock.now, ahead.verdict_at)
        if not ahead.is_sufficient:
            self._drop(ahead, speculator, bill)
            return None
        bill.judge(_tokens_of(ahead.draft.passages))
        # none begins before its turn
        draft = ahead.draft if ahead.is_early else replace(ahead.draft, starts_at=self._clock.now)
        return (yield from self._released(draft, speculator, bill, is_early=ahead.is_early))

    def _drop(self, ahead: "Ahead | None", speculator: Speculator, bill: "Bill") -> None:
        """It is of no use any more: what it has cost by now."""
        now = self._clock.now
        if ahead is None:
            return
        if ahead.found_at <= now:
            bill.judge(_tokens_of(ahead.draft.passages))
        if ahead.is_early:
            said = ahead.draft.said_by(now if ahead.is_sufficient else min(now, ahead.verdict_at))
            bill.draft(ahead.draft.input_tokens if ahead.draft.starts_at <= now else 0, said, is_released=False)
            speculator.learn(ahead.draft.closed("discarded", said))
        speculator.learn(AttemptEnded(ahead.draft.called, "discarded"))

    def _released(
        self, draft: "Draft", speculator: Speculator, bill: "Bill", *, is_early: bool
    ) -> Generator[float, None, float]:
        verdict_at = self._clock.now
        if not is_early:
            speculator.learn(DraftStarted(draft.called, 1))
        first_byte, last = (max(verdict_at, draft.starts_at + draft.due_s[place]) for place in (0, -1))
        yield last
        bill.draft(draft.input_tokens, len(draft.due_s), is_released=True)
        speculator.learn(draft.closed("released", len(draft.due_s)))
        speculator.learn(AttemptEnded(draft.called, "released"))
        return first_byte

    def _speculator(self, planned: Planned) -> Speculator:
        match SPECULATE[self._policy.strategy]:
            case "always":
                return Always()
            case "never":
                return Never()
            case "adaptive":
                prices, policy = self._prices, self._policy
                worth = Worth(
                    policy.second,
                    prices.generator_input / 1e6,
                    prices.generator_output / 1e6,
                    grade_token=prices.grader_input / 1e6,
                )
                odds = planned.script(self._defaults).odds
                return Adaptive(
                    lambda _question, passages: at(odds, SEARCH_OF[passages[0].document_id]),
                    self._pace,
                    worth,
                    self._waste,
                    self._is_pressed,
                    self._lookouts,
                )


@dataclass(frozen=True, slots=True)
class Draft:
    """One draft: when each of its tokens is due, in seconds from its start. `attempt` is its search's number, `call` that of its attempt to
    the speculator where that is another one."""

    script: Script
    attempt: int
    starts_at: float
    passages: tuple[Passage, ...]
    decision: Decision
    call: int | None = None

    @property
    def called(self) -> int:
        """The number of its attempt to the speculator."""
        return self.attempt if self.call is None else self.call

    @property
    def due_s(self) -> tuple[float, ...]:
        return self.script.due_s(self.attempt)

    @property
    def input_tokens(self) -> int:
        return _tokens_of(self.passages)

    def said_by(self, moment: float) -> int:
        """Tokens until then; no more than may be held."""
        said = sum(self.starts_at + due <= moment for due in self.due_s)
        hold = self.decision.hold_tokens
        return said if hold is None else min(said, hold)

    def closed(self, outcome: str, said: int) -> DraftClosed:
        due = self.due_s
        first_s, text_s = (due[0], due[said - 1] - due[0]) if said else (None, None)
        return DraftClosed(
            self.called, 1, outcome, self.input_tokens, said, True, 0.0, first_text_s=first_s, text_s=text_s
        )


@dataclass(frozen=True, slots=True)
class Ahead:
    """A set that is prepared before it is known to be needed (streaming.foresight)."""

    draft: Draft
    found_at: float
    verdict_at: float
    is_sufficient: bool
    is_early: bool

    def is_known_to_do(self, moment: float) -> bool:
        return self.is_sufficient and self.verdict_at <= moment


@dataclass(slots=True)
class Bill:
    """What one answer costs."""

    prices: Prices
    cost: float = 0.0
    discarded: int = 0

    def judge(self, read: int, said: int = GRADE_TOKENS) -> None:
        self.cost += (read * self.prices.grader_input + said * self.prices.grader_output) / 1e6

    def draft(self, read: int, said: int, *, is_released: bool) -> None:
        self.cost += (read * self.prices.generator_input + said * self.prices.generator_output) / 1e6
        self.discarded += 0 if is_released else said


def known(profile: Profile) -> Pace:
    """The pace of a server that has served for a while: the medians, which is where its estimates are."""
    pace, delays, answer = Pace(), profile.delays, profile.answer
    drawn = profile.samples or (Sample(retrieve=delays.retrieve, grade=delays.grade, first_token=delays.first_token),)
    pace.graded(median(each.grade for each in drawn) / 1000)
    pace.drafted(
        median(each.first_token for each in drawn) / 1000, answer.tokens / answer.tokens_per_s, answer.tokens + 1
    )
    return pace


@cache
def found(passages: int, search: int, padding: int) -> tuple[Passage, ...]:
    """The set that a scripted search finds."""
    return tuple(passage(number, search, padding) for number in range(1, passages + 1))


def _tokens_of(passages: tuple[Passage, ...]) -> int:
    return sum(len(each.title) + len(each.text) for each in passages) // CHARACTERS_PER_TOKEN


def _tokens(text: str) -> int:
    return len(text) // CHARACTERS_PER_TOKEN
