"""What a passage says stays inside its envelope: in what graders, verifiers and rewriters are told, and in the writer's request."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.providers.claude.request import messages
from grading.ports import Claim
from grading.prompts import (
    INVISIBLE,
    LINE_BREAKING,
    grader_message,
    rewrite_message,
    standalone_message,
    verifier_message,
    visible,
)
from retrieval.passage import Passage
from streaming.ports import Prompt, Turn
from tests.support.redteam import ASKED, GARDEN, POISONS, Poison, added_to, hidden_in

every_poison = pytest.mark.parametrize("poison", POISONS, ids=str)


def poisoned(poison: Poison) -> tuple[Passage, ...]:
    """The garden with the poison as a passage, inside a passage, and as the title of one."""
    found = hidden_in(added_to(GARDEN, poison), poison, 1)
    return (replace(found[0], title=poison.text), *found[1:])


def lines(message: str) -> list[Any]:
    """The objects of a message, one a line, as any reader of lines splits them."""
    assert not LINE_BREAKING.search(message)
    assert not INVISIBLE.search(message)
    assert message.splitlines() == message.split("\n")
    return [json.loads(line) for line in message.splitlines()]


@every_poison
def test_grader_is_told_one_object_for_each_passage_and_no_other(poison: Poison) -> None:
    found = poisoned(poison)
    question, *told = lines(grader_message(ASKED, found))
    assert question == {"question": ASKED}
    assert told == [
        {"passage": n, "title": visible(one.title), "text": visible(one.text)} for n, one in enumerate(found, 1)
    ]


@every_poison
def test_question_that_is_poison_is_one_object_too(poison: Poison) -> None:
    assert lines(rewrite_message(poison.text, poison.text)) == [
        {"question": visible(poison.text)},
        {"missing": visible(poison.text)},
    ]
    told = lines(standalone_message(ASKED, [("user", poison.text), ("assistant", poison.text)]))
    assert [list(one) for one in told] == [["turn", "role", "text"], ["turn", "role", "text"], ["question"]]


@every_poison
def test_verifier_is_told_each_passage_and_sentence_once_under_its_own_number(poison: Poison) -> None:
    found = poisoned(poison)
    _, *told = lines(verifier_message(ASKED, [Claim(poison.text, found), Claim("It is deep.", found[:1])]))
    assert [one["passage"] for one in told if "passage" in one] == list(range(1, len(found) + 1))
    assert [(one["sentence"], one["passages"]) for one in told if "sentence" in one] == [
        (1, list(range(1, len(found) + 1))),
        (2, [1]),
    ]


@every_poison
def test_writer_is_sent_passages_as_search_results_alone_and_the_question_last(poison: Poison) -> None:
    found = poisoned(poison)
    (turn,) = messages(Prompt(ASKED, tuple(enumerate(found, 1))))
    assert turn["role"] == "user"
    content: Any = turn["content"]
    *results, question = content
    assert question == {"type": "text", "text": ASKED}
    assert [one["type"] for one in results] == ["search_result"] * len(found)
    assert ["".join(part["text"] for part in one["content"]) for one in results] == [visible(p.text) for p in found]
    assert all(one["citations"] == {"enabled": True} for one in results)
    assert not INVISIBLE.search(json.dumps(content, ensure_ascii=False))


@every_poison
def test_writer_is_sent_earlier_turns_as_turns_whatever_they_say(poison: Poison) -> None:
    history = (Turn("user", "What is it?"), Turn("assistant", poison.text), Turn("user", poison.text))
    told = messages(Prompt(ASKED, ((1, GARDEN[1]),), history))
    assert [one["role"] for one in told] == ["user", "assistant", "user", "user"]
    assert all(isinstance(one["content"], str) for one in told[:-1])


def test_the_set_is_as_large_and_as_mixed_as_it_is_said_to_be() -> None:
    assert len(POISONS) >= 60
    assert len({poison.text for poison in POISONS}) == len(POISONS) == len({str(poison) for poison in POISONS})
    kinds = {poison.kind for poison in POISONS}
    assert all(sum(one.kind == kind for one in POISONS) >= 4 for kind in kinds)
    assert len(kinds) == 7
