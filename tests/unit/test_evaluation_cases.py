"""Labelled files as cases: what is read, what is refused, what belongs together; the memory of measures; answers and their claims."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.evaluation.answer_measuring import ClaimMemory, measure_into
from gateway.evaluation.answered import read_answers
from gateway.evaluation.cases import Case, read_cases
from gateway.evaluation.grounding import (
    Valued,
    best_threshold,
    check_enough,
    fitted,
    grounding_figures,
    out_of_fold,
    valued,
    verified,
)
from gateway.evaluation.judging import examples, freely, judged_out_of_fold, seen, signals_for
from gateway.evaluation.measuring import Memory, MemoryUnusable, measured
from gateway.evaluation.rows import LabelsUnreadable
from grading.calibrate import TooFewCases
from grading.grade import Verdict
from grading.score import FREE_SIGNALS
from grading.signals import ALL_SIGNALS, EVIDENCE_SIGNALS, Margins, Measured
from grading.support import CLAIM_SIGNALS, ClaimMeasured, Source, SupportModel, claim_values, claims
from retrieval.passage import Passage

pytestmark = pytest.mark.anyio

MARGINS = Margins(1.0, -1.0, -1.0, 1.0, 2.0, 0.5)


def row(number: int, **changes: Any) -> dict[str, Any]:
    plain = {
        "id": f"c{number}",
        "question_id": f"q{number}",
        "question": "How deep?",
        "passages": [{"id": f"p{number}", "text": f"{number} centimetres.", "title": "Tulips"}],
        "verdict": "sufficient",
    }
    return {**plain, **changes}


def written(folder: Path, rows: Sequence[dict[str, Any]], name: str = "sufficiency.jsonl") -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text("\n".join(json.dumps(each) for each in rows) + "\n\n", encoding="utf-8")
    return file


def test_a_folder_means_its_file_and_names_the_set(tmp_path: Path) -> None:
    written(tmp_path / "garden", [row(1), row(2, verdict="partial")])
    cases = read_cases([tmp_path / "garden"])
    assert [(case.id, case.origin, case.verdict) for case in cases] == [
        ("c1", "garden", Verdict.SUFFICIENT),
        ("c2", "garden", Verdict.PARTIAL),
    ]
    assert cases[0].passages == (Passage("p1", "p1", "Tulips", "1 centimetres."),)
    assert read_cases([written(tmp_path / "x", [row(1)], "mine.jsonl")])[0].origin == "mine"


def test_the_published_rewrite_is_asked_else_one_made_from_the_history(tmp_path: Path) -> None:
    history = [{"role": "user", "content": "Tell me about tulips."}, {"role": "assistant", "content": "They are red."}]
    rows = [row(1, history=history, standalone_question="How deep do tulips go?"), row(2, history=history)]
    given, made = read_cases([written(tmp_path, rows)])
    assert given.question == "How deep do tulips go?"
    assert "tulips" in made.question.lower()


def test_cases_that_share_a_question_or_a_passage_are_one_group(tmp_path: Path) -> None:
    shared = [{"id": "p1", "text": "a"}, {"id": "p9", "text": "b"}]
    rows = [row(1), row(2), row(3, passages=shared), row(4, question_id="q2"), row(5, passages=[])]
    groups = [case.group for case in read_cases([written(tmp_path, rows)])]
    assert groups[0] == groups[2]
    assert groups[1] == groups[3]
    assert len(set(groups)) == 3


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", ":1: not JSON"),
        ("[]", ":1: not an object"),
        ('{"question": "q"}', ":1: `passages` is missing"),
        (
            json.dumps(row(1, verdict="maybe")),
            ':1: `verdict` is "maybe"; it must be sufficient, partial or insufficient',
        ),
        (json.dumps(row(1, verdict=["partial"])), ':1: `verdict` is ["partial"]; it must be'),
        (json.dumps(row(1, passages=[{"id": "p", "text": "x"}, {"id": "q"}])), ":1: `passages[1].text` is missing"),
        (json.dumps(row(1, passages=["x"])), ':1: `passages[0]` is "x"; it must be an object'),
        (json.dumps(row(1, passages={})), ":1: `passages` is {}; it must be a list"),
        (json.dumps(row(1, question=None)), ":1: `question` is null; it must be a text"),
        (json.dumps(row(1, history=[{"role": "user"}])), ":1: `history[0].content` is missing"),
        ("", "no labelled case"),
    ],
)
def test_what_is_no_labelled_case_is_refused_with_its_place(tmp_path: Path, line: str, why: str) -> None:
    file = tmp_path / "labels.jsonl"
    file.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(LabelsUnreadable) as caught:
        read_cases([file])
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"supported": "no"}, ':1: `supported` is "no"; it must be true or false'),
        ({"answer": 3.5, "unsupported_spans": "all"}, ':1: `unsupported_spans` is "all"; it must be a list or null'),
        (
            {"unsupported_spans": [[0, 3], [4]]},
            ":1: `unsupported_spans[1]` is [4]; it must be an object of start and end",
        ),
    ],
)
def test_what_is_no_judged_answer_is_refused_with_its_field(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    file = written(tmp_path, [{**answered(0, False, None), **changes}], "grounding.jsonl")
    with pytest.raises(LabelsUnreadable) as caught:
        read_answers([file])
    assert str(caught.value).startswith(f"{file}{why}")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabelsUnreadable, match=r"nowhere\.jsonl"):
        read_cases([tmp_path / "nowhere.jsonl"])


async def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    cases = read_cases([written(tmp_path, [row(1), row(2), row(3, passages=[])])])
    asked: list[str] = []

    async def measure(question: str, passages: tuple[Passage, ...]) -> Measured:
        asked.append(passages[0].id)
        return Measured(MARGINS, (1.0, None), (0.5,), (("deep", 0.9),), (0.3,), ((2, MARGINS),))

    steps: list[tuple[int, int]] = []
    memory = tmp_path / "memory.jsonl"
    first = await measured(cases, measure, Memory(memory), lambda done, total: steps.append((done, total)))
    with memory.open("a") as lines:
        lines.write('{"key": "half a li')
    second = await measured(cases, measure, Memory(memory))
    more = read_cases([written(tmp_path / "more", [row(4)])])
    await measured(more, measure, Memory(memory))
    assert Memory(memory).get(more[0]) is not None
    assert sorted(asked) == ["p1", "p2", "p4"]
    assert first == second
    assert first[2] is None
    assert steps == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (json.dumps(row(1)).encode() + b"\n", "line 1 is something else"),
        (b'{"key": "1"}\nnotes, with no line end', "line 2 is something else"),
        (b"\xff\xfe", "no cache of measures"),
    ],
)
@pytest.mark.parametrize("kind", [Memory, ClaimMemory])
def test_a_file_that_is_no_memory_is_left_as_it_was(
    tmp_path: Path, kind: type[Memory | ClaimMemory], content: bytes, why: str
) -> None:
    file = tmp_path / "labels.jsonl"
    file.write_bytes(content)
    with pytest.raises(MemoryUnusable, match=why):
        kind(file)
    assert file.read_bytes() == content


def labelled(count: int, origin: str = "a") -> list[Case]:
    return [
        Case(
            f"c{n}", origin, f"{origin}{n}", "tulip bulbs", (Passage("p", "p", "", "tulip bulbs" if n % 2 else "sheds"),),
            Verdict.SUFFICIENT if n % 2 else Verdict.INSUFFICIENT,
        )
        for n in range(count)
    ]  # fmt: skip


def test_cases_are_judged_by_models_that_did_not_see_them() -> None:
    found = freely(labelled(60))
    judged = judged_out_of_fold(found, FREE_SIGNALS, 0.5)
    assert all((each.p > 0.5) == (each.label == "sufficient") for each in judged)
    assert [each.verdict for each in judged[:2]] == ["insufficient", "sufficient"]


def test_an_empty_set_is_insufficient_and_teaches_nothing() -> None:
    cases = [*labelled(20), Case("e", "a", "e", "q", (), Verdict.INSUFFICIENT)]
    found = freely(cases)
    assert len(examples(found, FREE_SIGNALS)) == 20
    assert judged_out_of_fold(found, FREE_SIGNALS, 0.5)[-1].p == 0.0
    assert seen(cases, [None] * 21)[0].measured is None


def test_what_kind_of_set_it_is_is_weighed_only_where_there_are_several() -> None:
    assert signals_for(labelled(1200), "calibrated") == EVIDENCE_SIGNALS
    assert signals_for([*labelled(600), *labelled(600, "b")], "calibrated") == ALL_SIGNALS
    assert signals_for([*labelled(60), *labelled(60, "b")], "calibrated") == EVIDENCE_SIGNALS
    assert signals_for(labelled(1200), "score") == FREE_SIGNALS


ANSWER = "Here is how:\n1. Dig a hole. 2. Put the bulb in.\nOk.\nWater it for 9 weeks."


def test_claims_are_sentences_with_content_and_cover_the_answer_in_order() -> None:
    texts = [ANSWER[part.start : part.end] for part in claims(ANSWER)]
    assert texts[0] == "Here is how:"
    assert texts[-1] == "Ok.\nWater it for 9 weeks."
    assert "1. Dig a hole." in texts
    assert claims("Yes.")[0].end == 4
    assert len(claims("A short claim here. " * 50)) == 20
    assert claims("A short claim here. " * 50)[-1].end == len(("A short claim here. " * 50).rstrip())


def test_a_claim_with_a_number_or_a_name_of_its_own_shows() -> None:
    source = Source("How long?", ["Water the bulb for 3 weeks, says Ilse Hahn."])
    told = ClaimMeasured(MARGINS, (("water", 0.9), ("weeks", 0.5)))

    def value(claim: str, name: str) -> float:
        return claim_values(claim, 0, 1, source, told)[CLAIM_SIGNALS.index(name)]

    assert value("Water it for 3 weeks.", "numbers_new") == 0
    assert value("Water it for 9 weeks.", "numbers_new") == 1
    assert value("1. Water it for 3 weeks.", "numbers_new") == 0  # the number of a list item claims nothing
    assert value("It was said by Otto.", "names_new") == 1
    assert value("It was said by Ilse.", "names_new") == 0
    assert value("Water the bulb for 3 weeks.", "triples") == 1
    assert value("Water it.", "late_far") == pytest.approx(0.5)
    assert value("The passages do not mention it.", "about_the_passages") == 1


def answered(number: int, supported: bool, spans: list[dict[str, int]] | None) -> dict[str, Any]:
    good, bad = "Water the bulb for three weeks.", "The moon is made of old cheese."
    answer = f"{good} {good if supported else bad}"
    return {
        "id": f"a{number}", "question_id": f"q{number // 2}", "question": "How long?", "answer": answer, "supported": supported,
        "passages": [{"id": f"p{number}", "text": "Water the bulb for three weeks. Then it flowers."}], "unsupported_spans": spans,
    }  # fmt: skip


async def measured_answers(tmp_path: Path, count: int = 60) -> list[Valued]:
    rows = [
        answered(n, bool(n % 3), [] if n % 3 else [{"start": 32, "end": 63}])
        for n in range(count)
    ]  # fmt: skip
    cases = read_answers([written(tmp_path, rows, "grounding.jsonl")])

    async def measure(texts: Sequence[str], passages: tuple[Passage, ...]) -> list[ClaimMeasured]:
        return [
            ClaimMeasured(Margins(0, 0, 0, 0, 3.0 if "bulb" in text else -3.0, 0), (("water", 0.9),)) for text in texts
        ]

    memory = ClaimMemory(tmp_path / "claims.jsonl")
    await measure_into(memory, cases, measure)
    again = ClaimMemory(tmp_path / "claims.jsonl")
    found = [(case, again.get(case)) for case in cases]
    return [valued(case, known) for case, known in found if known is not None]


async def test_labels_of_claims_follow_the_spans(tmp_path: Path) -> None:
    rows = [
        answered(0, False, [{"start": 40, "end": 50}]),
        answered(1, False, None),
        answered(2, True, None),
        {**answered(3, False, None), "answer": "The moon is made of old cheese."},
    ]
    cases = read_answers([written(tmp_path, rows, "grounding.jsonl")])
    assert [case.labels() for case in cases] == [[True, False], [None, None], [True, True], [False]]


async def test_unsupported_answers_are_told_by_their_claims_out_of_fold(tmp_path: Path) -> None:
    found = await measured_answers(tmp_path)
    assert len(found) == 60
    (figures,) = grounding_figures(out_of_fold(found), seed=0)
    assert (figures.answers, figures.unsupported) == (60, 20)
    assert figures.figures["f1_unsupported"].value == 1.0
    assert figures.as_json()["auc"] == 1.0


def test_too_few_answers_are_counted_as_they_are_before_anything_is_measured(tmp_path: Path) -> None:
    rows = [answered(n, bool(n % 3), [] if n % 3 else [{"start": 32, "end": 63}]) for n in range(9)]
    cases = read_answers([written(tmp_path, rows, "grounding.jsonl")])
    with pytest.raises(TooFewCases) as caught:
        check_enough(cases[:3], in_folds=False)
    assert str(caught.value).startswith(
        "3 judged answers are too few to fit on: 2 supported (questions: 2), 1 unsupported (questions: 1, "
    )
    check_enough(cases, in_folds=False)
    unmarked = [replace(case, spans=None) for case in cases]
    with pytest.raises(TooFewCases, match="part known: 0"):
        check_enough(unmarked, in_folds=True)


async def test_a_model_of_support_is_read_back_as_it_was(tmp_path: Path) -> None:
    found = await measured_answers(tmp_path)
    model = fitted(found)
    assert model.answer.was_fitted_on([found[7].case.id])
    assert not model.answer.was_fitted_on(["another"])
    again = SupportModel.from_json(model.to_json())
    assert again == model
    assert [verified(again, each) for each in found] == [verified(model, each) for each in found]


def test_the_threshold_of_the_best_f1_parts_the_two_kinds() -> None:
    assert best_threshold([(0.1, False), (0.2, False), (0.6, True), (0.9, True)]) == pytest.approx(0.4)
    assert best_threshold([(0.1, False), (0.2, True), (0.3, False), (0.9, True)]) == pytest.approx(0.6)
