"""Scripted providers: a search, judges, a rewriter and a model that do what a script says, when it says so, inside this process.

For tests, the bench and a demonstration that waits on nobody. Which attempt a call belongs to is read off the passages, so that the
adapters hold nothing of a request but bounded tallies of what each question has been given.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import anyio
import anyio.lowlevel

from gateway.providers.script import BEFORE_RESPONSE, Fault, FaultKind, GraderFault, Script, search_number, stamp
from gateway.providers.script import stamped_search as searched
from gateway.request import invalid
from grading.faults import GraderUnavailable, RewriterUnavailable, VerifierUnavailable
from grading.grade import Grade
from grading.ports import Claim
from retrieval.faults import GatewayFault, RetrievalMisconfigured
from retrieval.passage import Passage, Scalar
from retrieval.ports import Query, SearchMode
from streaming.faults import (
    AnswerIncomplete,
    GeneratorFault,
    GeneratorMisconfigured,
    GeneratorOverloaded,
    GeneratorUnavailable,
)
from streaming.ports import Cited, Piece, Prompt, Stopped, StopReason, Text, Usage

T = TypeVar("T")

NAME = "scripted"
DIGITS = str.maketrans("0123456789", "bdfghklmrs")
REMEMBERED = 4_096  # questions of which a tally is kept; a forgotten one starts anew
READ_TOKENS = 512  # at most this many late tokens in one batch: about what one 64 KiB read would bring

STOPS = {
    FaultKind.REFUSAL: StopReason.REFUSAL,
    FaultKind.MAX_TOKENS: StopReason.LENGTH,
    FaultKind.OTHER: StopReason.OTHER,
    FaultKind.UNSTOPPED: StopReason.END,
}


class Tally:
    """Numbers, per question, the different things it was given, and counts its calls. Remembers the latest questions only."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Hashable, dict[Hashable, int]] = OrderedDict()
        self._calls: OrderedDict[Hashable, int] = OrderedDict()

    def number(self, question: Hashable, given: Hashable) -> int:
        """Which of the different things given to `question` this one is: the first is 1, the same one has the same number again."""
        seen = self._seen.pop(question, {})
        keep(self._seen, question, seen)
        return seen.setdefault(given, len(seen) + 1)

    def count(self, question: Hashable) -> int:
        """How often this has been called for `question`, this time included."""
        calls = self._calls.pop(question, 0) + 1
        keep(self._calls, question, calls)
        return calls


def keep(store: OrderedDict[Hashable, T], key: Hashable, value: T) -> None:
    """Puts `value` last, and forgets the first when there are more than REMEMBERED."""
    store[key] = value
    if len(store) > REMEMBERED:
        store.popitem(last=False)


class ScriptedRetriever:
    """Finds as many passages as the script says, each saying which search found it. Raises RetrievalMisconfigured for a bad marker."""

    def __init__(self, defaults: Script) -> None:
        self._defaults = defaults

    async def retrieve(self, query: Query) -> tuple[Passage, ...]:
        """As the port promises; the same query always finds the same."""
        began_s = anyio.current_time()
        try:
            script = Script.parse(query.text, self._defaults)
        except ValueError as error:
            raise RetrievalMisconfigured(str(error)) from error
        search = search_number(query.text, widened=query.mode is SearchMode.HYBRID, wider=script.wider)
        found = tuple(passage(n, search, script.padding) for n in range(1, min(query.k, script.found(search)) + 1))
        # From the call on: what it takes to make passages up is no part of what a script plays, as in the scripted Messages API.
        await anyio.sleep(max(0.0, began_s + script.retrieve_s(search) - anyio.current_time()))
        return found


class ScriptedGrader:
    """Gives the script's verdict for the attempt that the passages belong to, after the script's delay."""

    name = NAME

    def __init__(self, defaults: Script) -> None:
        self._defaults = defaults
        self._sets = Tally()

    async def grade(self, question: str, passages: tuple[Passage, ...]) -> Grade:
        """As the port promises. Raises GraderUnavailable where the script says so, and for a bad marker."""
        try:
            script = Script.parse(question, self._defaults)
        except ValueError as error:
            raise GraderUnavailable(str(error)) from error
        attempt = attempt_of(question, passages, self._sets)
        await anyio.sleep(script.grade_s(attempt))
        await _fail(script.grader_fault(attempt), GraderUnavailable, "grader")
        return script.grade(attempt, len(passages))


class ScriptedRewriter:
    """Says what the script says, with the question's markers, so that what follows plays the same script."""

    def __init__(self, defaults: Script) -> None:
        self._defaults = defaults

    async def rewrite(self, question: str, missing: str | None) -> str:  # noqa: ARG002
        """As the port promises. Raises RewriterUnavailable where the script says so, and for a bad marker."""
        script = await self._played(question)
        return script.searched_next(script.rewrite)

    async def decompose(self, question: str) -> tuple[str, ...]:
        """As `rewrite`."""
        script = await self._played(question)
        return tuple(map(script.searched_next, script.parts))

    async def standalone(self, question: str, history: Sequence[tuple[str, str]]) -> str:
        """As `rewrite`."""
        script = await self._played(question)
        return script.marked_too(script.alone) if history and script.alone else question

    async def filters(self, question: str, fields: Mapping[str, tuple[Scalar, ...]]) -> Mapping[str, Scalar]:
        """As `rewrite`: the first value of each field that stands in the question."""
        await self._played(question)
        found = {name: [value for value in values if str(value) in question] for name, values in fields.items()}
        return {name: values[0] for name, values in found.items() if values}

    async def _played(self, question: str) -> Script:
        try:
            script = Script.parse(question, self._defaults)
        except ValueError as error:
            raise RewriterUnavailable(str(error)) from error
        await anyio.sleep(script.rewrite_ms / 1000)
        await _fail(script.rewriter_fault, RewriterUnavailable, "rewriter")
        return script


class ScriptedVerifier:
    """Supports every sentence but those that hold a word which the script names."""

    name = NAME

    def __init__(self, defaults: Script) -> None:
        self._defaults = defaults

    async def supported(self, question: str, claims: tuple[Claim, ...]) -> tuple[bool, ...]:
        """As the port promises. Raises VerifierUnavailable where the script says so, and for a bad marker."""
        try:
            script = Script.parse(question, self._defaults)
        except ValueError as error:
            raise VerifierUnavailable(str(error)) from error
        await anyio.sleep(script.verify_ms / 1000)
        await _fail(script.verifier_fault, VerifierUnavailable, "verifier")
        return tuple(bool(claim.passages) and script.supports(claim.text) for claim in claims)


def playable(defaults: Script) -> Callable[[str], None]:
    """Finds a misspelt marker before the answer begins, in which it would be a fault of the grader. Raises InvalidRequest."""

    def check(question: str) -> None:
        try:
            Script.parse(question, defaults)
        except ValueError as error:
            raise invalid("question", f"cannot be played: {error}") from error

    return check


class ScriptedGenerator:
    """Says the script's words at the script's pace. `open_drafts` counts drafts opened and not yet closed."""

    name = NAME

    def __init__(self, defaults: Script) -> None:
        self._defaults = defaults
        self._sets = Tally()
        self._drafts = Tally()
        self.open_drafts = 0

    async def draft(self, prompt: Prompt) -> "ScriptedDraft":
        """As the port promises. A fault before the response comes at once, as a busy service's does."""
        try:
            script = Script.parse(prompt.question, self._defaults)
        except ValueError as error:
            raise GeneratorMisconfigured(str(error)) from error
        attempt = attempt_of(prompt.question, tuple(p for _, p in prompt.passages), self._sets)
        number = self._drafts.count((prompt.question, attempt))
        fault = script.fault(number)
        if fault.after is None and fault.kind in BEFORE_RESPONSE:
            await _fail_to_open(fault)
        return ScriptedDraft(self, script, prompt, attempt, number)


class ScriptedDraft:
    """One scripted answer. Late is never lost: what became due while nobody read comes with the next batch."""

    def __init__(self, generator: ScriptedGenerator, script: Script, prompt: Prompt, attempt: int, number: int) -> None:
        self._generator = generator
        self._numbers = tuple(n for n, _ in prompt.passages)
        self._words = script.words(attempt, number)[: prompt.max_tokens]
        self._cut_short = len(self._words) < script.tokens
        self._due_s = script.due_s(attempt, number)
        self._fault = script.fault(number)
        self._script = script
        self._input_tokens = sum(len(p.text) for _, p in prompt.passages) // 4
        self._opened_s = anyio.current_time()
        self._said = 0
        self._offset = self._block_start = 0
        self._announced = self._ended = self._closed = False
        generator.open_drafts += 1

    def __aiter__(self) -> AsyncIterator[tuple[Piece, ...]]:
        return self

    async def __anext__(self) -> tuple[Piece, ...]:
        if self._ended or self._closed:
            raise StopAsyncIteration
        if not self._announced:
            self._announced = True
            return (Usage(self._input_tokens, 0),)
        last = self._last
        if self._said >= last:
            return await self._end()
        await anyio.sleep(max(0.0, self._opened_s + self._due_s[self._said] - anyio.current_time()))
        now_s = anyio.current_time() - self._opened_s
        pieces: list[Piece] = []
        first = self._said
        while self._said < last and self._said - first < READ_TOKENS:
            if self._said > first and self._due_s[self._said] > now_s:
                break
            self._say(pieces)
        return tuple(pieces)

    async def aclose(self) -> None:
        """Ends the draft at once."""
        self.cut()

    def cut(self) -> None:
        """As `aclose`."""
        if not self._closed:
            self._closed = True
            self._generator.open_drafts -= 1

    @property
    def _last(self) -> int:
        """How many tokens are said before the draft ends or breaks."""
        after = self._fault.after
        return len(self._words) if after is None else min(len(self._words), after)

    def _say(self, pieces: list[Piece]) -> None:
        word = self._words[self._said]
        pieces.append(Text(word))
        self._said += 1
        self._offset += len(word)
        if self._numbers and self._script.ends_block(self._said, len(self._words)):
            n = self._numbers[self._script.block(self._said - 1) % len(self._numbers)]
            pieces.append(Cited(n, self._block_start, self._offset))
            self._block_start = self._offset

    async def _end(self) -> tuple[Piece, ...]:
        fault = self._fault if self._fault.after is not None and self._said == self._fault.after else Fault()
        if fault.kind is FaultKind.STALL:
            await anyio.sleep_forever()
        self._ended = True
        if fault.kind is FaultKind.NONE or fault.kind in STOPS:
            reason = STOPS.get(fault.kind, StopReason.LENGTH if self._cut_short else StopReason.END)
            return (Stopped(reason, Usage(self._input_tokens, self._said)),)
        raise fault_of(fault.kind, self._said)


def letters(number: int) -> str:
    """A number as a word: figures in passages could disagree."""
    return str(number).translate(DIGITS)


def passage(number: int, search: int, padding: int = 0) -> Passage:
    """The `number`-th passage that a scripted search finds, with so many more words that say nothing."""
    more = "".join(
        f" {letters(number)}{letters(search)}{letters(word)}" for word in range(padding)
    )  # no two passages are alike
    text = f"{stamp(number, search)} It says nothing else.{more}"
    return Passage(
        id=f"scripted-{search}-{number}",
        document_id=f"scripted-{search}",
        title=f"Search {search}",
        text=text,
        end=len(text),
        score=1 / number,
        scores={"cosine": 1 / number},
    )


def attempt_of(question: str, passages: tuple[Passage, ...], sets: Tally) -> int:
    """Which attempt a set belongs to: the latest search that it names, or the how-many-th different set of this question."""
    search = searched("\n".join(p.text for p in passages))
    return search if search is not None else sets.number(question, tuple(p.id for p in passages))


def fault_of(kind: FaultKind, said: int) -> GeneratorFault:
    """The fault that a draft raises for `kind` after `said` tokens."""
    match kind:
        case FaultKind.OVERLOADED | FaultKind.RATE_LIMITED:
            return GeneratorOverloaded(f"the model's service is overloaded (after {said} tokens)")
        case FaultKind.UNAUTHORIZED | FaultKind.BAD_REQUEST:
            return GeneratorMisconfigured("the model's service refuses the request")
        case FaultKind.ENDS | FaultKind.CUT:
            return AnswerIncomplete(f"the model's stream ended without a stop reason (after {said} tokens)")
        case _:
            return GeneratorUnavailable(f"the model's service failed (after {said} tokens)")


async def _fail(fault: GraderFault, raised: type[GatewayFault], who: str) -> None:
    match fault:
        case GraderFault.STALL:
            await anyio.sleep_forever()
        case GraderFault.FAIL | GraderFault.RATE_LIMITED:
            raise raised(f"the {who}'s service is overloaded")
        case GraderFault.NONSENSE | GraderFault.REFUSAL | GraderFault.MAX_TOKENS:
            raise raised(f"the {who}'s answer is not in its form")
        case _:
            pass


async def _fail_to_open(fault: Fault) -> None:
    if fault.kind is FaultKind.STALL:
        await anyio.sleep_forever()
    await anyio.lowlevel.checkpoint()
    raise fault_of(fault.kind, 0)
