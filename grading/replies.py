"""What a model says when it rewrites, verifies or judges passage by passage -> values. Strict: an answer in another form is no answer."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from grading.faults import GraderUnavailable, RewriterUnavailable, VerifierUnavailable
from grading.grade import Grade, Verdict
from grading.parse import objects
from retrieval.faults import GatewayFault

T = TypeVar("T")

MOST_PARTS = 4
LONGEST_QUESTION = 2_000  # characters; what is longer is no question


def query_in(text: str) -> str:
    """The rewritten query; "" where the model knows no better one. Raises RewriterUnavailable."""
    return _read(text, "query", _line, RewriterUnavailable)


def question_in(text: str) -> str:
    """The stand-alone question; "" where there is none. Raises RewriterUnavailable."""
    return _read(text, "question", _line, RewriterUnavailable)


def questions_in(text: str) -> tuple[str, ...]:
    """The sub-questions, none blank or twice, at most MOST_PARTS; () unless there are two. Raises RewriterUnavailable."""
    found = _read(text, "questions", _lines, RewriterUnavailable)
    return found[:MOST_PARTS] if len(found) > 1 else ()


def numbers_in(text: str, most: int) -> tuple[int, ...]:
    """The filters chosen, as numbers from 1 to `most`, each once; others are dropped. Raises RewriterUnavailable."""
    return tuple(n for n in _read(text, "filters", _numbers, RewriterUnavailable) if 1 <= n <= most)


def verdicts_in(text: str, count: int) -> tuple[bool, ...]:
    """Whether sentences 1 to `count` are supported. Raises VerifierUnavailable unless each is judged, once, and no other."""

    def verdicts(value: object) -> tuple[bool, ...]:
        said = {_number(each, "sentence"): each["supported"] for each in _entries(value)}
        if len(said) != len(_entries(value)) or sorted(said) != list(range(1, count + 1)):
            raise ValueError("not one verdict for each sentence")
        if not all(type(each) is bool for each in said.values()):
            raise ValueError("a verdict that is neither true nor false")
        return tuple(said[n] for n in range(1, count + 1))

    return _read(text, "sentences", verdicts, VerifierUnavailable)


def passages_grade_in(text: str, count: int, grader: str) -> Grade:
    """The grade of a set whose `count` passages were judged one by one against the parts of the question.

    Sufficient when every part is stated by some passage, partial when some part is, else insufficient; `missing` are the parts that none
    states, `relevant` the passages that state any. Raises GraderUnavailable unless each passage is judged, once, by parts that exist.
    """

    def grade(value: dict[str, Any]) -> Grade:
        parts = _lines(value["parts"])
        stated = _stated(value["passages"], count, len(parts))
        if not 1 <= len(parts) <= MOST_PARTS:
            raise ValueError("no parts, or too many")
        conflicts = value.get("conflicts")
        if conflicts is not None and not isinstance(conflicts, str):
            raise ValueError("conflicts that are no text")
        covered = {part for states in stated.values() for part in states}
        missing = "; ".join(part for n, part in enumerate(parts, 1) if n not in covered)
        verdict = Verdict.PARTIAL if covered else Verdict.INSUFFICIENT
        relevant = tuple(n for n in range(1, count + 1) if stated[n])
        return Grade(verdict if missing else Verdict.SUFFICIENT, missing or None, relevant, conflicts or None, grader)

    return _only(text, ("parts", "passages"), grade, GraderUnavailable)


def _stated(value: object, count: int, parts: int) -> dict[int, tuple[int, ...]]:
    entries = _entries(value)
    stated = {_number(each, "passage"): _numbers(each["states"]) for each in entries}
    if len(stated) != len(entries) or sorted(stated) != list(range(1, count + 1)):
        raise ValueError("not one judgement for each passage")
    if any(not 1 <= part <= parts for states in stated.values() for part in states):
        raise ValueError("a part that the question does not have")
    return stated


def _read(text: str, key: str, convert: Callable[[Any], T], fault: type[GatewayFault]) -> T:
    return _only(text, (key,), lambda value: convert(value[key]), fault)


def _only(text: str, keys: Sequence[str], convert: Callable[[dict[str, Any]], T], fault: type[GatewayFault]) -> T:
    """The one object with all `keys`, converted. What is wrong with it is wrong with the answer.

    Several that differ are none: one may be what a passage says, repeated (tests/redteam).
    """
    try:
        found = [convert(value) for value in objects(text) if all(key in value for key in keys)]
    except (ValueError, KeyError, TypeError) as error:
        raise fault(f"the model's answer is not in its form: {error}") from error
    if not found:
        raise fault(f"the model's answer holds no {keys[0]} ({len(text)} characters)")
    if any(each != found[0] for each in found):
        raise fault(f"the model's answer says more than one {keys[0]} ({len(text)} characters)")
    return found[0]


def _line(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")
    line = " ".join(value.split())
    if len(line) > LONGEST_QUESTION:
        raise ValueError("too long")
    return line


def _lines(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("no list")
    return tuple(dict.fromkeys(line for line in map(_line, value) if line))


def _numbers(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(n) is int for n in value):
        raise ValueError("no list of numbers")
    return tuple(dict.fromkeys(value))


def _number(entry: dict[str, Any], key: str) -> int:
    number = entry[key]
    if type(number) is not int:
        raise ValueError("no number")
    return number


def _entries(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ValueError("no list of objects")
    return value
