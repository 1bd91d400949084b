"""A model's words -> a grade. Strict: what is not clearly a verdict is no verdict, and never a bad grade."""

import json
import re
from collections.abc import Iterator
from typing import Any

from grading.faults import GraderUnavailable
from grading.grade import Grade, Verdict

BYTE_ORDER_MARK = "\ufeff"
BRACES_LIMIT = 100  # objects looked for in prose; each look may read to the end
FENCE = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)


def parse_grade(text: str, grader: str = "") -> Grade:
    """The grade that `text` says: as plain JSON, else in a fenced block or as a balanced object with a verdict, in prose.

    Raises GraderUnavailable when there is none, when one of its fields is absent, repeated or of the wrong kind, or when there are several
    that differ: one of them may be what a passage says, repeated (tests/redteam).
    """
    grades = [_grade(value, grader) for value in objects(text) if "verdict" in value]
    if not grades:
        raise GraderUnavailable(f"the grader's answer holds no verdict ({len(text)} characters)")
    if any(grade != grades[0] for grade in grades):
        raise GraderUnavailable(f"the grader's answer holds verdicts that differ ({len(text)} characters)")
    return grades[0]


def objects(said: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a model's words, the likeliest first; where the whole is one object, that one alone."""
    text = said.replace(BYTE_ORDER_MARK, "").strip()
    whole = _object(text)
    if whole is not None:
        yield whole
        return
    for fenced in FENCE.findall(text):
        found = _object(fenced.strip())
        if found is not None:
            yield found
    yield from _balanced(text)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _balanced(text: str) -> Iterator[dict[str, Any]]:
    start = text.find("{")
    for _ in range(BRACES_LIMIT):
        if start < 0:
            return
        try:
            value, end = DECODER.raw_decode(text, start)
            yield value
        except (ValueError, RecursionError):
            end = start + 1
        start = text.find("{", end)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a repeated key")
    return value


DECODER = json.JSONDecoder(object_pairs_hook=_once)


def _grade(value: dict[str, Any], grader: str) -> Grade:
    return Grade(
        verdict=_verdict(value["verdict"]),
        missing=_words(value, "missing"),
        relevant=_numbers(value),
        conflicts=_words(value, "conflicts"),
        grader=grader,
    )


def _verdict(value: object) -> Verdict:
    if isinstance(value, str) and value in Verdict.__members__.values():
        return Verdict(value)
    raise GraderUnavailable("the grader's verdict is none of sufficient, partial, insufficient")


def _words(value: dict[str, Any], field: str) -> str | None:
    words = value.get(field)
    if words is None or isinstance(words, str):
        return words
    raise GraderUnavailable(f"the grader's {field!r} is not text")


def _numbers(value: dict[str, Any]) -> tuple[int, ...]:
    numbers = value.get("relevant")
    if isinstance(numbers, list) and all(type(n) is int for n in numbers):
        return tuple(numbers)
    raise GraderUnavailable("the grader's 'relevant' is not a list of passage numbers")
