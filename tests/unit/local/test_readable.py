"""What the judges read of a passage: of Markdown what could be quoted, as prose."""

from gateway.providers.local.quotes import quotes
from gateway.providers.local.readable import prose, readable
from retrieval.passage import Passage

TITLE = "Manual › Limits"
TEXT = """## Limits

A body has **at most** 1 MiB, see [the table](#table).

- one reader at most
- `two` writers at least

| setting | default |
|---|---|
| port of the server | 8080 |
"""


def passage(text: str, **metadata: str) -> Passage:
    return Passage("p", "d", TITLE, text, metadata=metadata)


def test_markdown_is_read_as_prose() -> None:
    found = readable(passage(TEXT, kind="markdown"))
    assert found.title == TITLE
    assert found.text.startswith("A body has at most 1 MiB, see the table. one reader at most. `two` writers at least.")
    assert "8080" in found.text
    assert not any(mark in found.text for mark in ("##", "**", "---", "]("))


def test_what_can_be_quoted_is_what_is_read() -> None:
    assert all(each.shown in prose(TEXT, TITLE) for each in quotes(1, TEXT, TITLE))


def test_what_is_no_markdown_is_read_as_it_is() -> None:
    text = "2 ** 3 is 8 | a pipe"
    assert readable(passage(text)).text == readable(passage(text, kind="text")).text == text


def test_a_passage_that_is_code_is_not_lost() -> None:
    assert "make run" in readable(passage("```\nmake run\n```", kind="markdown")).text
