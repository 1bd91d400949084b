"""The budget: how many tokens a draft may have, and when an answer may try again."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.budget import MAX_RETRIES, Limits
from streaming.ledger import Ledger
from tests.support.fakes import passages


def spent(input_tokens: int = 0, output_tokens: int = 0) -> Ledger:
    ledger = Ledger()
    entry = ledger.open()
    entry.input_tokens, entry.output_tokens = input_tokens, output_tokens
    return ledger


def test_a_draft_may_have_what_is_left_and_never_more_than_one_draft_has() -> None:
    limits = Limits(output_tokens=100, total_output_tokens=250)
    assert [limits.draft_tokens(spent(output_tokens=n), ()) for n in (0, 150, 200, 250, 300)] == [100, 100, 50, 0, 0]


def test_a_draft_whose_passages_do_not_fit_what_is_left_has_none() -> None:
    long = tuple(replace(p, title="", text="x" * 400) for p in passages(2))  # about 200 tokens
    limits = Limits(total_input_tokens=300)
    assert [limits.draft_tokens(spent(n), long) for n in (0, 100, 101)] == [1024, 1024, 0]


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(1, 5_000), st.integers(1, 20_000))
def test_no_draft_takes_the_total_past_its_limit(said: int, used: int, one: int, total: int) -> None:
    limits = Limits(output_tokens=one, total_output_tokens=total)
    allowed = limits.draft_tokens(spent(used, said), passages(3))
    assert 0 <= allowed <= one
    assert said + allowed <= max(total, said)


@pytest.mark.parametrize("retries", range(MAX_RETRIES + 1))
def test_so_many_attempts_follow_the_first_and_no_more(retries: int) -> None:
    limits = Limits(max_retries=retries)
    assert [limits.allows_retry_after(n) for n in range(1, 5)] == [n <= retries for n in range(1, 5)]


@pytest.mark.parametrize("retries", [-1, MAX_RETRIES + 1])
def test_more_retries_than_there_are_is_an_error(retries: int) -> None:
    with pytest.raises(ValueError, match="max_retries"):
        Limits(max_retries=retries)
