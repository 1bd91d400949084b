"""Documents: bytes -> title, text, headings."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.documents import Document, parse_document, read_document
from retrieval.faults import DocumentUnreadable
from retrieval.raw import SIZE_LIMIT_BYTES
from tests.support.pdf import encrypted, pdf

MARKDOWN = """---
title: "All about tea"
tags: [a]
---
# Tea

Green *tea* is [steeped](https://example.org) at `80` degrees,
not hotter.

## Steps

1. Boil
2. Wait
   - a minute

| kind | heat |
|---|---|
| green | 80 |

```sh
boil --water
```

<div>Raw <b>words</b></div>

![A cup](cup.png)
"""

HTML = """<!doctype html><html><head><title>All  about
tea</title><style>p {color: red}</style><script>alert("script")</script></head>
<body><nav><a href="/">Home of navigation</a></nav><h1>Tea</h1><p>Green <b>tea</b> is
steeped at&nbsp;80 degrees.</p><h2>Steps</h2><ul><li>Boil</li><li>Wait</li></ul><table><tr><th>kind</th><th>heat</th></tr>
<tr><td>green</td><td>80</td></tr></table><pre>line one
line two</pre><!-- a comment --><script>more()</script></body></html>"""


def headings_of(document: Document) -> list[tuple[int, str]]:
    for heading in document.headings:
        assert document.text.startswith(heading.words, heading.start)
    return [(heading.level, heading.words) for heading in document.headings]


def test_markdown_becomes_plain_text_with_headings() -> None:
    document = parse_document("tea.md", MARKDOWN.encode())
    assert (document.title, document.kind) == ("All about tea", "markdown")
    assert headings_of(document) == [(1, "Tea"), (2, "Steps")]
    assert "Green tea is steeped at 80 degrees, not hotter." in document.text
    assert "1. Boil\n2. Wait\n- a minute" in document.text
    assert "kind | heat\ngreen | 80" in document.text
    assert "boil --water" in document.text
    assert "Raw words" in document.text
    assert not set("*`<") & set(document.text)


@pytest.mark.parametrize(
    ("blank", "becomes"),
    [(" " * 60_000, " "), ("\t" * 200, " "), (" \n" * 9_000, "\n\n"), ("\u2003" * 300, " "), (" " * 99, " " * 99)],
)
def test_a_long_blank_is_cut_short(blank: str, becomes: str) -> None:
    """It counts for no token: a passage held 60,000 of them, and each pattern that looks for blanks took seconds over it."""
    assert parse_document("a.txt", f"Tea{blank}is hot.".encode()).text == f"Tea{becomes}is hot."


def test_markdown_without_front_matter_is_titled_by_its_first_heading() -> None:
    assert parse_document("x.md", b"# Tea\n\nHot.").title == "Tea"


def test_a_document_without_a_title_is_called_by_its_file() -> None:
    assert parse_document("notes/today.txt", b"Hot.").title == "today"


def test_html_becomes_plain_text_without_scripts_styles_and_navigation() -> None:
    document = parse_document("tea.html", HTML.encode())
    assert (document.title, document.kind) == ("All about tea", "html")
    assert headings_of(document) == [(1, "Tea"), (2, "Steps")]
    assert "Green tea is steeped at\xa080 degrees." in document.text
    assert "- Boil\n- Wait" in document.text
    assert "kind | heat\ngreen | 80" in document.text
    assert "line one\nline two" in document.text
    for unwanted in ("navigation", "script", "color", "comment", "more()"):
        assert unwanted not in document.text


@pytest.mark.parametrize("reference", ["&#0;", "&#xd800;", "&#xdfff;", "&#x110000;"])
def test_a_reference_to_no_character_costs_html_that_character_alone(reference: str) -> None:
    text = parse_document("x.html", f"<p>Hot {reference} tea".encode()).text
    assert text.replace("\ufffd", "").split() == ["Hot", "tea"]


def test_html_that_cannot_be_decoded_is_refused() -> None:
    with pytest.raises(DocumentUnreadable, match="cannot be decoded"):
        parse_document("x.html", b'<meta charset="utf-16"><p>\x81\x8d\x8f\x90\x9d \xff\xfe\x00')


def test_html_without_a_body_is_read_all_the_same() -> None:
    assert parse_document("x.htm", b"<p>one<p>two &amp; three").text == "one\n\ntwo & three"


def test_pdf_becomes_text_page_by_page() -> None:
    document = parse_document("tea.pdf", pdf("Tea is hot.", "Milk is not.", title="All about tea"))
    assert (document.title, document.kind) == ("All about tea", "pdf")
    assert document.text.split() == ["Tea", "is", "hot.", "Milk", "is", "not."]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_is_decoded_by_its_mark(encoding: str) -> None:
    assert parse_document("x.txt", "Grüner Tee\r\nist heiß\x00".encode(encoding)).text == "Grüner Tee\nist heiß"


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.md", b"", "empty"),
        ("a.txt", b" \n\t", "empty"),
        ("a.txt", b"\x00\x00", "no text"),
        ("a.txt", b"\xff\xfe\xfa\xd8", "not UTF-8"),
        ("a.txt", b"caf\xe9 au lait", "not UTF-8"),
        ("a.html", b"<script>x</script>", "no text"),
        ("a.pdf", b"%PDF-1.4 nonsense", "corrupt"),
        ("a.pdf", b"no pdf at all", "corrupt"),
        ("a.pdf", pdf("Tea")[:200], "corrupt"),
        ("a.pdf", pdf(""), "no text"),
        ("a.pdf", encrypted(pdf("Tea"), "secret"), "encrypted"),
        ("a.docx", b"PK", "not Markdown"),
        ("README", b"text", "not Markdown"),
        ("a.txt", b"x" * (SIZE_LIMIT_BYTES + 1), "larger than 32 MiB"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value,
)
def test_what_cannot_be_read_is_named_with_the_reason(
    name: str, data: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(DocumentUnreadable, match=why) as caught:
        parse_document(name, data)
    assert str(caught.value).startswith(f"{name}: ")
    assert caplog.records == []  # said once, in these words alone


def test_an_owner_password_alone_hides_nothing() -> None:
    assert "Tea" in parse_document("a.pdf", encrypted(pdf("Tea"), "")).text


@pytest.mark.parametrize("ending", ["md", "html"])
def test_nesting_too_deep_to_follow_is_named(ending: str) -> None:
    nested = {"md": "> " * 20_000 + "deep", "html": "<div>" * 20_000 + "deep"}[ending]
    with pytest.raises(DocumentUnreadable, match=rf"^a\.{ending}: (nested too deeply|holds no text)$"):
        parse_document(f"a.{ending}", nested.encode())


@pytest.mark.parametrize("ending", ["md", "html", "txt", "pdf"])
@given(data=st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "ignore")))
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_a_document_or_a_named_fault(ending: str, data: bytes) -> None:
    with suppress(DocumentUnreadable):
        document = parse_document(f"a.{ending}", data)
        document.text.encode()
        assert document.text.strip()
        assert "\x00" not in document.text + document.title
        headings_of(document)


def test_a_file_is_read_and_a_pipe_a_folder_and_a_missing_file_are_not(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Tea")
    assert read_document(tmp_path / "a.txt").text == "Tea"
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "folder.txt").mkdir()
    for name in ("pipe.txt", "folder.txt", "missing.txt"):
        with pytest.raises(DocumentUnreadable, match=name):
            read_document(tmp_path / name)
