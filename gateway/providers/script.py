"""A script: what a scripted search, grader and model do, and when. Pure: the same question always plays the same way.

A script is a set of defaults plus the markers in a question, so that one question says what will happen to it:

    Where is it? [[verdict=partial,sufficient grade_ms=250 ttft_ms=400 tps=80 tokens=60 fault=overloaded@10,none]]
"""

import random
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import TypeVar

from grading.grade import Grade, Verdict

T = TypeVar("T")
K = TypeVar("K", bound=StrEnum)

MARKER = re.compile(r"\[\[(?!\s*\w+:)(.*?)\]\]", re.DOTALL)  # `[[name: ...]]` belongs to someone else
WORD = re.compile(r'(?:[^ \t\r\n"]|"[^"]*")+')
STAMP = re.compile(r"Scripted passage \d+ of search (\d+)\.")
LACKS = re.compile(r"\(search (\d+)\)")
WORD_ENDINGS = {4: "é", 10: "𝄞"}  # by token number modulo 11: bytes, UTF-16 units and characters must not be mixed up


class FaultKind(StrEnum):
    """How a scripted draft goes wrong, or ends otherwise than by itself."""

    NONE = "none"
    OVERLOADED = "overloaded"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    UNAUTHORIZED = "unauthorized"
    BAD_REQUEST = "bad_request"
    STALL = "stall"  # silence
    ENDS = "ends"  # the stream ends cleanly, with no stop reason
    UNSTOPPED = "unstopped"  # a stop reason, then the stream ends
    CUT = "cut"  # the connection breaks
    REFUSAL = "refusal"
    MAX_TOKENS = "max_tokens"
    OTHER = "other"  # a stop reason that nobody knows yet


class GraderFault(StrEnum):
    """How a scripted grader, rewriter or verifier goes wrong; those after REFUSAL say a good verdict badly, on the wire only."""

    NONE = "none"
    FAIL = "fail"
    RATE_LIMITED = "rate_limited"
    STALL = "stall"
    NONSENSE = "nonsense"
    MAX_TOKENS = "max_tokens"
    REFUSAL = "refusal"
    FENCED = "fenced"
    PROSE = "prose"
    BOM = "bom"
    BACKTICKS = "backticks"
    TWICE = "twice"


BEFORE_RESPONSE = frozenset(
    {
        FaultKind.OVERLOADED,
        FaultKind.RATE_LIMITED,
        FaultKind.SERVER_ERROR,
        FaultKind.UNAUTHORIZED,
        FaultKind.BAD_REQUEST,
        FaultKind.STALL,
    }
)


@dataclass(frozen=True, slots=True)
class Fault:
    """`after` tokens were said when it happens; None is before the response begins."""

    kind: FaultKind = FaultKind.NONE
    after: int | None = None


NO_FAULT = Fault()


@dataclass(frozen=True, slots=True)
class Script:
    """What happens to one question. Times are in milliseconds, `tps` is tokens per second.

    `verdicts`, `conflicts`, `passages` (how many a search finds) and `grader_faults` are per attempt, `faults` per draft of one
    attempt; the last of each repeats. `missing` and `conflicts` may be `none`. A line ends after each `sentence` tokens (0: never). A
    sentence that holds one of the words of `unsupported` is so. `rewrite`, `parts` and `alone` are what the rewriter says, without the
    markers of the question, which go with it. Each passage goes on for `padding` more words. A widened search is number `wider`. `odds` is
    p(sufficient) as the free signals of a search tell it, per search (the bench).
    `relevant` None means: all of a sufficient set, the first of a partial one, none of an insufficient one. `jitter`
    is the sigma of a lognormal factor (median 1) on every delay, drawn from `seed` and the question, or from `draw` in its place, so that
    different questions can meet the same delays.
    """

    retrieve_ms: float = 20.0
    grade_ms: float = 250.0
    ttft_ms: float = 400.0
    tps: float = 80.0
    tokens: int = 60
    jitter: float = 0.0
    seed: int = 0
    draw: str = ""
    verdicts: tuple[Verdict, ...] = (Verdict.SUFFICIENT,)
    missing: str | None = None
    conflicts: tuple[str, ...] = ("none",)
    relevant: tuple[int, ...] | None = None
    passages: tuple[int, ...] = (5,)
    padding: int = 0
    wider: int = 2
    odds: tuple[float, ...] = (0.5,)
    cite: int = 10
    faults: tuple[Fault, ...] = (NO_FAULT,)
    grader_faults: tuple[GraderFault, ...] = (GraderFault.NONE,)
    sentence: int = 0
    verify_ms: float = 50.0
    unsupported: tuple[str, ...] = ()
    verifier_fault: GraderFault = GraderFault.NONE
    rewrite_ms: float = 50.0
    rewrite: str = ""
    parts: tuple[str, ...] = ()
    alone: str = ""
    rewriter_fault: GraderFault = GraderFault.NONE
    question: str = ""

    @staticmethod
    @lru_cache(maxsize=256)  # a question is read by each of its players
    def parse(question: str, defaults: "Script | None" = None) -> "Script":
        """The script of `question`: `defaults` overridden by every marker in it, in order.

        Raises ValueError, naming the key, for an unknown key or a value that is not of its kind.
        """
        said: dict[str, object] = {}
        for key, value in marked(question):
            if key not in KEYS:
                raise ValueError(f"unknown key {key!r} in a script marker; known: {', '.join(sorted(KEYS))}")
            try:
                said[KEYS[key].field] = KEYS[key].convert(value)
            except ValueError as error:
                raise ValueError(f"bad value {value!r} for {key!r} in a script marker: {error}") from error
        return replace(defaults or Script(), question=question, **said)  # type: ignore[arg-type]  # each of its field's type

    def words(self, attempt: int, draft: int = 1) -> tuple[str, ...]:
        """The tokens that draft number `draft` of `attempt` says when nothing stops it; no two drafts share one."""
        return tuple(f"a{attempt}d{draft}w{i}{WORD_ENDINGS.get(i % 11, '')}{self._gap(i)}" for i in range(self.tokens))

    def text(self, attempt: int, draft: int = 1) -> str:
        """The whole answer of that draft."""
        return "".join(self.words(attempt, draft))

    def _gap(self, token: int) -> str:
        return ".\n" if self.sentence and (token + 1) % self.sentence == 0 else " "

    def supports(self, text: str) -> bool:
        """Whether the verifier finds a sentence supported."""
        return not set(re.findall(r"\w+", text)) & set(self.unsupported)

    def marked_too(self, text: str) -> str:
        """`text` with the markers of the question, so that it plays the same script; "" for no text."""
        return f"{text} {' '.join(found.group() for found in MARKER.finditer(self.question))}".strip() if text else ""

    def searched_next(self, text: str) -> str:
        """As `marked_too`, for a query of the second search."""
        return f"{self.marked_too(text)} (search 1)" if text else ""

    def fault(self, draft: int) -> Fault:
        return at(self.faults, draft)

    def grader_fault(self, attempt: int) -> GraderFault:
        return at(self.grader_faults, attempt)

    def found(self, attempt: int) -> int:
        """How many passages the search of `attempt` finds."""
        return at(self.passages, attempt)

    def grade(self, attempt: int, passages: int, grader: str = "scripted") -> Grade:
        """The verdict on the set of `attempt`. What it says is missing names the search, so that the next one can be told from it."""
        verdict = at(self.verdicts, attempt)
        everything = tuple(range(1, passages + 1))
        by_verdict = {Verdict.SUFFICIENT: everything, Verdict.PARTIAL: everything[:1], Verdict.INSUFFICIENT: ()}
        relevant = by_verdict[verdict]
        if self.relevant is not None and verdict is not Verdict.INSUFFICIENT:
            relevant = self.relevant
        is_told = verdict is not Verdict.SUFFICIENT and self.missing != "none"
        missing = f"{self.missing or 'the rest'} (search {attempt})" if is_told else None
        conflict = at(self.conflicts, attempt)
        conflicts = None if conflict == "none" else conflict
        return Grade(verdict, missing=missing, relevant=relevant, conflicts=conflicts, grader=grader)

    def block(self, token: int) -> int:
        """The number, from 0, of the block that `token` (from 0) belongs to; each block cites one passage, in turn."""
        return token // self.cite if self.cite else 0

    def ends_block(self, said: int, tokens: int) -> bool:
        """Whether a cited block ends when `said` of `tokens` tokens are said."""
        return self.cite > 0 and (said % self.cite == 0 or said == tokens)

    def retrieve_s(self, attempt: int) -> float:
        return self._drawn("retrieve", attempt)(self.retrieve_ms / 1000)

    def grade_s(self, attempt: int) -> float:
        return self._drawn("grade", attempt)(self.grade_ms / 1000)

    @property
    def rewrite_s(self) -> float:
        return self._drawn("rewrite")(self.rewrite_ms / 1000)

    def due_s(self, attempt: int, draft: int = 1) -> tuple[float, ...]:
        """When each token is due, in seconds from the request: an absolute schedule, so that lateness never adds up."""
        drawn = self._drawn("draft", attempt, draft)
        due: list[float] = []
        now = drawn(self.ttft_ms / 1000)
        for _ in range(self.tokens):
            due.append(now)
            now += drawn(1 / self.tps)
        return tuple(due)

    def _drawn(self, *what: str | int) -> Callable[[float], float]:
        if self.jitter == 0:
            return lambda delay: delay
        chance = random.Random(repr((self.seed, self.draw or self.question, *what)))
        return lambda delay: delay * chance.lognormvariate(0.0, self.jitter)


def at(values: Sequence[T], number: int) -> T:
    """The `number`-th value, counted from 1; the last one repeats."""
    return values[min(number, len(values)) - 1]


def marked(text: str, marker: re.Pattern[str] = MARKER) -> Iterator[tuple[str, str]]:
    """The `key=value` pairs of every marker in `text`, in order. Raises ValueError for a word that is no pair."""
    for found in marker.finditer(text):
        for word in words_of(found.group(1)):
            key, equals, value = word.partition("=")
            if not equals:
                raise ValueError(f"{word!r} in a script marker is not of the form key=value")
            yield key, value


def words_of(text: str) -> list[str]:
    """The words of `text` as a shell has them: what stands in quotes is of one word. Raises ValueError for a quote without an end."""
    if "'" in text or "\\" in text or text.count('"') % 2:
        return shlex.split(text)
    return [word.replace('"', "") for word in WORD.findall(text)]  # thirty times as fast, and a bench asks a lot


def stamp(number: int, search: int) -> str:
    """What a scripted passage says first, so that whoever is given it knows which search found it."""
    return f"Scripted passage {number} of search {search}."


def stamped_search(text: str) -> int | None:
    """The number of the latest search that found a passage in `text`; None where no scripted search did."""
    return max((int(n) for n in STAMP.findall(text)), default=None)


def search_number(query: str, *, widened: bool, wider: int = 2) -> int:
    """Which search a query belongs to: 1, or one more than the search whose gap it names, or `wider` when it is widened.

    A widened query says nothing of its past, so that two widened searches in a row are the same one and find the same.
    """
    asked = query.rpartition("]]")[2] if "]]" in query else query
    lacking = LACKS.findall(asked)
    if lacking and not widened:
        return int(lacking[-1]) + 1
    return wider if widened else 1


@dataclass(frozen=True, slots=True)
class Key:
    """What a marker's key sets: a field of the script, from a text that `convert` reads, or refuses with a ValueError."""

    field: str
    convert: Callable[[str], object]


def _not_negative(value: str) -> float:
    number = float(value)
    if not 0 <= number < float("inf"):
        raise ValueError("must be 0 or more")
    return number


def _positive(value: str) -> float:
    number = _not_negative(value)
    if number == 0:
        raise ValueError("must be more than 0")
    return number


def _count(value: str) -> int:
    number = int(value)
    if number < 0:
        raise ValueError("must be 0 or more")
    return number


def _fault(value: str) -> Fault:
    name, at_sign, after = value.partition("@")
    kind = _one_of(FaultKind)(name)
    if at_sign:
        return Fault(kind, _count(after))
    return Fault(kind, None if kind in BEFORE_RESPONSE or kind is FaultKind.NONE else 0)


def _one_of(kind: type[K]) -> Callable[[str], K]:
    def convert(value: str) -> K:
        if value not in list(kind):
            raise ValueError(f"{value!r} must be one of {', '.join(kind)}")
        return kind(value)

    return convert


def _some(convert: Callable[[str], T]) -> Callable[[str], tuple[T, ...]]:
    return lambda value: _listed(convert)(value) if value else ()


def _listed(convert: Callable[[str], T]) -> Callable[[str], tuple[T, ...]]:
    return lambda value: tuple(convert(part) for part in value.split(","))


KEYS: Mapping[str, Key] = {
    "retrieve_ms": Key("retrieve_ms", _not_negative),
    "grade_ms": Key("grade_ms", _not_negative),
    "ttft_ms": Key("ttft_ms", _not_negative),
    "tps": Key("tps", _positive),
    "tokens": Key("tokens", _count),
    "jitter": Key("jitter", _not_negative),
    "seed": Key("seed", int),
    "draw": Key("draw", str),
    "padding": Key("padding", _count),
    "wider": Key("wider", _count),
    "odds": Key("odds", _listed(_not_negative)),
    "verdict": Key("verdicts", _listed(_one_of(Verdict))),
    "missing": Key("missing", str),
    "conflicts": Key("conflicts", _listed(str)),
    "relevant": Key("relevant", _some(_count)),
    "passages": Key("passages", _listed(_count)),
    "cite": Key("cite", _count),
    "fault": Key("faults", _listed(_fault)),
    "sentence": Key("sentence", _count),
    "verify_ms": Key("verify_ms", _not_negative),
    "unsupported": Key("unsupported", _listed(str)),
    "verifier_fault": Key("verifier_fault", _one_of(GraderFault)),
    "rewrite_ms": Key("rewrite_ms", _not_negative),
    "rewrite": Key("rewrite", str),
    "parts": Key("parts", _listed(str)),
    "alone": Key("alone", str),
    "rewriter_fault": Key("rewriter_fault", _one_of(GraderFault)),
    "grader_fault": Key("grader_faults", _listed(_one_of(GraderFault))),
}
