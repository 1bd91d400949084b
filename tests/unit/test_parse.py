"""Reading a verdict out of a model's words (field report C4)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grading.faults import GraderUnavailable
from grading.grade import Grade, Verdict
from grading.parse import parse_grade

PLAIN = '{"relevant": [1, 3], "conflicts": null, "missing": "the price", "verdict": "partial"}'
OTHER = '{"relevant": [], "conflicts": null, "missing": null, "verdict": "insufficient"}'
GRADE = Grade(Verdict.PARTIAL, missing="the price", relevant=(1, 3), grader="g")

WAYS = {
    "plain": PLAIN,
    "with white space": f"\n  {PLAIN}\n",
    "after a byte order mark": f"\ufeff{PLAIN}",
    "in a fence": f"```json\n{PLAIN}\n```",
    "in a fence without a language": f"```\n{PLAIN}\n```",
    "in a fence after prose": f"Here you are:\n\n```json\n{PLAIN}\n```\nAnything else?",
    "in a fence after a fence of something else": f"```python\nx = {{}}\n```\n```json\n{PLAIN}\n```",
    "after prose": f"My verdict is this: {PLAIN}",
    "after prose with braces": f"I looked at {{all}} of {{}} them. {PLAIN} Is {{that}} of help?",
    "twice": f"{PLAIN}\n{PLAIN}",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_verdict_is_read_however_it_is_wrapped(way: str) -> None:
    assert parse_grade(WAYS[way], "g") == GRADE


def test_a_fence_inside_a_value_breaks_nothing() -> None:
    missing = f"the listing ```json\n{OTHER}\n``` of the price"
    said = json.dumps({"relevant": [1], "missing": missing, "verdict": "partial"})
    assert parse_grade(said) == Grade(Verdict.PARTIAL, missing=missing, relevant=(1,))


NO_VERDICTS = {
    "nothing": "",
    "prose": "They look sufficient to me.",
    "the word alone": '"sufficient"',
    "a list": f"[{PLAIN}, {OTHER}]"[:30],
    "cut short": PLAIN[:-20],
    "no verdict": '{"relevant": [1], "missing": null}',
    "an unknown verdict": PLAIN.replace("partial", "perfect"),
    "another case": PLAIN.replace("partial", "PARTIAL"),
    "a verdict that is no word": PLAIN.replace('"partial"', "true"),
    "no passages": '{"verdict": "sufficient", "missing": null}',
    "passages in words": PLAIN.replace("[1, 3]", '["1"]'),
    "passages as a number": PLAIN.replace("[1, 3]", "1"),
    "a truth for a number": PLAIN.replace("[1, 3]", "[true]"),
    "missing that is no text": PLAIN.replace('"the price"', "[]"),
    "conflicts that are no text": PLAIN.replace('"conflicts": null', '"conflicts": 3'),
    "a verdict said twice": PLAIN.replace("{", '{"verdict": "sufficient", '),
    "two that differ": f"{PLAIN}\n{OTHER}",
    "nested beyond reason": '{"verdict":' * 50_000,
}


@pytest.mark.parametrize("said", NO_VERDICTS)
def test_what_is_not_clearly_a_verdict_is_none(said: str) -> None:
    with pytest.raises(GraderUnavailable):
        parse_grade(NO_VERDICTS[said])


@given(st.text(st.characters(exclude_characters="{}"), max_size=200), st.text(max_size=200))
def test_words_around_a_verdict_never_change_it(before: str, after: str) -> None:
    assert parse_grade(f"{before}\n{PLAIN}\n{after}", "g").verdict in (Verdict.PARTIAL,)


@given(st.text(max_size=300))
def test_any_words_are_a_grade_or_a_fault(said: str) -> None:
    try:
        parse_grade(said)
    except GraderUnavailable:
        pass
    else:
        assert "verdict" in said
