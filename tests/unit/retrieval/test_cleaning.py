"""Text that can be stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.cleaning import storable


@given(st.text(st.characters()))
def test_whatever_comes_in_what_goes_out_can_be_stored(text: str) -> None:
    clean = storable(text)
    clean.encode()
    assert "\x00" not in clean
    assert storable(clean) == clean


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
def test_text_that_can_be_stored_is_left_alone(text: str) -> None:
    assert storable(text) == text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("a\x00b", "ab"),
        ("hi \ud83d", "hi \ufffd"),
        ("\udc00x", "\ufffdx"),
        ("\ud83d\ude00", "😀"),
        ("\x00\ud800", "\ufffd"),
    ],
)
def test_nul_goes_and_lone_surrogates_are_replaced(text: str, clean: str) -> None:
    assert storable(text) == clean
