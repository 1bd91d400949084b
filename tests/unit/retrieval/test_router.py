"""The router, on made questions."""

import pytest

from retrieval.ports import SearchMode
from retrieval.router import DEFAULT_MODE, Need, marks, route


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("What does ORA-00942 mean?", ("ORA-00942",)),
        ("How do I fix error CWWKF0011I at start", ("CWWKF0011I",)),
        ("Is 2.14.1 compatible with v3?", ("2.14.1", "v3")),
        ("What is max_retries and --max-retries?", ("max_retries", "--max-retries")),
        ("Who calls parseDocument() here?", ("parseDocument()",)),
        ("Why a NullPointerException?", ("NullPointerException",)),
        ("Where is /etc/hosts.d/local read", ("/etc/hosts.d/local",)),
        ("What does `SELECT 1` return", ("SELECT 1",)),
        ("ticket AB-1 and AB-1 again", ("AB-1",)),
        ("0xDEADBEEF", ("0xDEADBEEF",)),
        ("ER_DUP_ENTRY on insert", ("ER_DUP_ENTRY",)),
        ("123e4567-e89b-12d3-a456-426614174000", ("123e4567-e89b-12d3-a456-426614174000",)),
    ],
)
def test_what_must_match_letter_by_letter_is_seen(question: str, found: tuple[str, ...]) -> None:
    assert marks(question) == found
    assert route(question).need is Need.EXACT


@pytest.mark.parametrize(
    "question",
    [
        "How long is annual leave?",
        "What is the population of New York?",
        "Which NASA rover landed in 2021?",
        "Why is self-service e-mail so slow - really?",
        "Did COVID-19 change the tax code?",
        "Was it in the U.S. or the UK?",
        "Is 3.5 % a good rate?",
    ],
)
def test_plain_questions_have_no_marks(question: str) -> None:
    assert marks(question) in ((), ("COVID-19",))
    assert route(question).mode in (DEFAULT_MODE, SearchMode.HYBRID)


def test_a_code_alone_is_searched_for_by_words() -> None:
    assert route("ORA-00942").mode is SearchMode.LEXICAL
    assert route("ORA-00942?").mode is SearchMode.LEXICAL
    assert route("what does ORA-00942 mean").mode is SearchMode.HYBRID


def test_several_parts_are_searched_for_with_a_second_hop() -> None:
    assert route("What is tea and who drinks it?", parts=2) == route("x", parts=2)
    assert (route("What is tea?", parts=2).need, route("x", parts=2).mode) == (Need.PARTS, SearchMode.HOPS)
    assert route("What is tea?", default=SearchMode.DENSE).mode is SearchMode.DENSE


def test_an_empty_question_is_routed_too() -> None:
    assert route("").need is Need.MEANING
