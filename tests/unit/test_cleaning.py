"""Cleaning at the edge: what goes, what stays, and that nothing can make it fail."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cleaning import clean, is_blank

ANYTHING = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)

TABLE = [
    ("a\x00b", "ab"),
    ("a\ud83db\udc00", "a\ufffdb\ufffd"),
    ("a\tb\nc", "a\tb\nc"),
    ("a\r\nb\rc\u0085d", "a\nb\nc\nd"),
    ("\x1b[31mred\x07\x7f\x9b", "[31mred"),
    ("a\U000e0001\U000e0041\U000e007fb", "ab"),
    ("a\u202eb\u2066c\u2069", "abc"),
    ("a\u200b\u200b\u200bb\ufeffc\u2060", "abc"),
    ("a\u200d\u200d\u200d\u200c\u200cb", "a\u200db"),
    ("a\ufe0f\ufe0e\ufe0fb\U000e0100\U000e01efc", "a\ufe0fbc"),
    ("می\u200cخواهم", "می\u200cخواهم"),
    ("👩‍👩‍👧 ❤️ 🇩🇪", "👩‍👩‍👧 ❤️ 🇩🇪"),
    ("क्\u200dष", "क्\u200dष"),
    ("a\u2028b\u2029c", "a\u2028b\u2029c"),
    ("\ufffea", "\ufffea"),
]


@pytest.mark.parametrize(("text", "cleaned"), TABLE)
def test_hidden_characters_go_and_writing_stays(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@given(ANYTHING)
def test_clean_text_can_be_stored_and_sent_and_is_clean(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode("utf-8")
    assert "\x00" not in cleaned
    assert clean(cleaned) == cleaned
    assert len(cleaned) <= len(text)


@given(st.text(st.characters(categories=["L", "N", "P", "Zs"]), max_size=200))
def test_ordinary_text_is_left_as_it_is(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    "text", ["", " ", "\n\t\u3000", "\u200d", "\ufffd", "\ufffd \ufffd", "\u3164", "\u2800", "\u0301", "\u00ad"]
)
def test_text_that_nobody_sees_is_blank(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", ["a", "?", " 7 ", "ก", "€", "👍", "\u200da"])
def test_text_that_somebody_sees_is_not_blank(text: str) -> None:
    assert not is_blank(text)


@given(ANYTHING)
def test_whatever_json_can_hold_is_cleaned_without_failing(text: str) -> None:
    assert isinstance(clean(json.loads(json.dumps(text))), str)
