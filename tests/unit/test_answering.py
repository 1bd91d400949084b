"""Figures of whole answers: what is counted, from what, and the draw of the questions."""

from dataclasses import replace
from math import isnan
from typing import Any

import pytest

from gateway.evaluation.answering import MEASURES, answer_figures, answers_json
from gateway.evaluation.asking import Told, Watcher, drawn, holds, says, unhurried
from gateway.evaluation.questions import Asked
from grading.grade import Grade, Verdict
from retrieval.passage import Passage
from streaming.budget import Limits
from streaming.events import Path
from streaming.facts import Judged, Retrieved

CLEAN = Told(
    "set", "1", "1", answerable=True, path=Path.CLEAN, evidence_first=True, evidence_last=True, says_it=True, found=5
)
RECOVERED = replace(
    CLEAN,
    id="2",
    group="2",
    path=Path.RECOVERED,
    strategies=("broaden",),
    evidence_first=False,
    says_it=False,
    repeats=2,
)
REFUSED = replace(
    CLEAN, id="3", group="3", path=Path.REFUSED, reason="insufficient_evidence", strategies=("gap_query", "broaden"),
    evidence_first=False, evidence_last=False, says_it=None, conflicts=1,
)  # fmt: skip
JUNK = Told("set", "4", "4", answerable=False, path=Path.RECOVERED, strategies=("broaden",), found=5)
HONEST = Told("set", "5", "5", answerable=False, path=Path.REFUSED, reason="insufficient_evidence")
BROKEN = Told("set", "6", "6", answerable=False, path=Path.FAILED, reason="generator_unavailable")
ALL = [CLEAN, RECOVERED, REFUSED, JUNK, HONEST, BROKEN]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("answerable_answered", 2 / 3),
        ("unanswerable_released", 1 / 3),
        ("abstention_on_answerable", 1 / 3),
        ("abstention_on_unanswerable", 1 / 3),
        ("released", 3 / 6),
        ("released_answerable", 2 / 3),
        ("says_the_answer", 1 / 2),
        ("correction_rate", 3 / 6),
        ("recovery_rate", 1 / 2),
        ("wrongly_recovered", 1),
        ("mean_retries", 4 / 6),
        ("evidence_at_first", 1 / 3),
        ("evidence_at_last", 2 / 3),
        ("duplicates", 2 / 20),
        ("conflicts", 1 / 6),
        ("failed", 1 / 6),
    ],
)
def test_each_figure_counts_what_its_name_says(name: str, value: float) -> None:
    assert MEASURES[name](ALL) == pytest.approx(value)
    assert set(MEASURES) == {case[0] for case in test_each_figure_counts_what_its_name_says.pytestmark[0].args[1]}  # type: ignore[attr-defined]


def test_a_figure_of_nothing_is_no_number() -> None:
    assert isnan(MEASURES["unanswerable_released"]([CLEAN]))
    assert answers_json(answer_figures([CLEAN], 0), 0, {})["unanswerable_released"] is None


def test_the_last_correction_answers_for_the_end() -> None:
    (figures,) = answer_figures(ALL, 0)
    broaden = {each.name: each for each in figures.strategies}["broaden"]
    assert (broaden.answerable, broaden.answered, broaden.unanswerable, broaden.released) == (2, 1, 1, 1)
    assert [each.name for each in figures.strategies] == ["broaden"]
    assert figures.refusals == {"generator_unavailable": 1, "insufficient_evidence": 2}


def test_sets_are_apart_and_their_mean_is_on_top() -> None:
    other = replace(REFUSED, origin="other")
    found = answers_json(answer_figures([CLEAN, other], 0), 7, {"grader": "reader"})
    assert found["answerable_answered"] == 0.5
    assert [found["sets"][name]["answerable_answered"] for name in ("set", "other")] == [1, 0]
    assert (found["questions"], found["seed"], found["grader"]) == (2, 7, "reader")


def test_the_same_outcomes_give_the_same_intervals_around_each_figure() -> None:
    many = [replace(one, id=f"{one.id}-{n}", group=f"{one.group}-{n}") for n in range(10) for one in ALL]
    (first,), (again,) = answer_figures(many, 3), answer_figures(many, 3)
    assert first == again
    answered = first.figures["answerable_answered"]
    assert answered.low < answered.value < answered.high


def asked(number: int, answerable: bool | None) -> Asked:
    return Asked(str(number), str(number), f"Question {number}?", (), (), answerable, None)


def test_a_draw_is_half_unanswerable_as_far_as_there_are_and_always_the_same() -> None:
    many = [asked(number, None if number % 10 == 9 else number % 10 > 0) for number in range(100)]
    chosen = drawn(many, 16, 1)
    assert [sum(each.answerable is kind for each in chosen) for kind in (True, False, None)] == [8, 8, 0]
    assert chosen == drawn(many, 16, 1) != drawn(many, 16, 2)
    assert [int(each.id) for each in chosen] == sorted(int(each.id) for each in chosen)
    scarce = drawn(many, 60, 1)
    assert [sum(each.answerable is kind for each in scarce) for kind in (True, False)] == [50, 10]
    assert len(drawn(many, None, 1)) == len(drawn(many, 500, 1)) == 90


@pytest.mark.parametrize(
    ("text", "answers", "said"),
    [
        ("It was founded in 911 by Rollo.", ["911"], True),
        ("It was founded in 1911.", ["911"], False),
        ("He met the King, Charles III, there.", ["King Charles III"], True),
        ("Nothing.", ["yes"], None),
        ("Nothing.", [], None),
        ("Nothing.", ["a very long answer of many words that nobody repeats word by word at all"], None),
    ],
)
def test_an_answer_is_looked_for_word_by_word(text: str, answers: list[str], said: bool | None) -> None:
    assert says(text, answers) is said


def test_a_set_holds_the_evidence_by_the_names_it_was_stored_under() -> None:
    def found(*names: str) -> tuple[Passage, ...]:
        return tuple(Passage(name, name, "", "text", metadata={"source": name}) for name in names)

    assert holds([found("a", "b", "c")], ["a", "c"]) is True
    assert holds([found("a", "b")], ["a", "c"]) is False
    assert holds([], ["a"]) is False
    assert holds([found("a")], []) is None


def test_pictures_show_every_figure() -> None:
    from gateway.evaluation.answers import AnswersReport, table
    from gateway.evaluation.bars import png_bars, terminal_bars

    report: Any = AnswersReport(tuple(answer_figures(ALL, 0)), tuple(ALL), {}, 0)
    drawn_bars = terminal_bars(report.groups())
    assert "answerable, answered" in drawn_bars
    assert "0.667" in drawn_bars
    assert png_bars(report.groups()).startswith(b"\x89PNG")
    assert "insufficient" not in table(report)
    assert "2 of 3" not in table(report)
    assert "1 of 2" in table(report)


def test_what_is_left_out_and_what_disagrees_is_counted() -> None:
    watcher, passage = Watcher(), Passage("a", "a", "", "text")
    watcher.note(Retrieved(1, 1, 0.1, duplicates=2, found=(passage,)))
    watcher.note(Judged(1, Grade(Verdict.PARTIAL, "a date"), 0.1))
    assert (watcher.sets, watcher.repeats, watcher.conflicts) == ([(passage,)], 2, 0)
    watcher.note(Retrieved(2, 1, 0.1, conflicts=3, found=(passage,)))
    watcher.note(Judged(2, Grade(Verdict.PARTIAL, conflicts="8 or 9 metres"), 0.1))
    watcher.note(Judged(2, None, 0.1, "grader_unavailable"))
    assert (len(watcher.sets), watcher.repeats, watcher.conflicts) == (2, 2, 2)


def test_time_decides_no_outcome_and_every_other_bound_stays() -> None:
    limits = Limits(max_retries=2, deadline_s=5.0, grade_timeout_s=1.0, k=7)
    patient = unhurried(limits)
    assert min(patient.deadline_s, patient.grade_timeout_s) >= 60
    assert replace(patient, deadline_s=5.0, grade_timeout_s=1.0) == limits
    assert unhurried(replace(limits, deadline_s=300.0)).deadline_s == 300
