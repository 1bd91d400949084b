"""Whatever bytes come as a document or an upload: a document with text in it, or a fault that names it; found cases are kept."""

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.providers.claude.faults import seconds
from gateway.unknown_settings import unknown
from grading.faults import GraderUnavailable
from grading.grade import consistent
from grading.parse import parse_grade
from retrieval.chunk import Chunking, chunk
from retrieval.cleaning import storable
from retrieval.documents import parse_document
from retrieval.faults import DocumentUnreadable
from tests.support.pdf import pdf

few = settings(max_examples=60, deadline=None)
KINDS = ("text", "markdown", "html", "pdf")
MARKUP = st.lists(
    st.sampled_from(
        [
            *(
                "<p>",
                "</p>",
                "<h1>",
                "</h1",
                "<!--",
                "-->",
                "<![CDATA[",
                "<script>",
                "</table>",
                "&#x110000;",
                "&",
                "<svg/>",
            ),
            *(
                "# ",
                "\n\n",
                "> ",
                "- ",
                "```",
                "~~~",
                "| a | b |\n|--",
                "[x](",
                "![](",
                "---\ntitle: ",
                "<",
                "*_",
                "\\",
            ),
            *("\x00", "\ud83d", "\u2028", "\ufeff", "\u202e", "\U000e0041", "a", "word ", "\t", "\r", "{", "}"),
        ]
    ),
    max_size=60,
).map("".join)
SHEET = pdf("Salt is added last.")


def mutated(data: st.DataObject) -> bytes:
    """A PDF with some bytes changed, cut or doubled."""
    body = bytearray(SHEET)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(body) - 1))
        match data.draw(st.sampled_from(["set", "cut", "double"])):
            case "set":
                body[at] = data.draw(st.integers(0, 255))
            case "cut":
                del body[at : at + data.draw(st.integers(1, 40))]
            case _:
                body[at:at] = body[at : at + data.draw(st.integers(1, 40))]
        if not body:
            break
    return bytes(body)


def read(kind: str, body: bytes) -> None:
    try:
        document = parse_document("a name", body, kind)
    except DocumentUnreadable:
        return
    assert document.text.strip()
    assert document.title
    storable(document.text).encode()
    assert all(0 <= heading.start <= len(document.text) for heading in document.headings)
    for each in chunk(document.text, document.headings, Chunking()):
        assert document.text[each.start : each.end] == each.text


@few
@given(kind=st.sampled_from(KINDS), body=st.binary(max_size=400))
@example("text", b"\xff\xfe\x00")
@example("html", b"<?xml version='1.0' encoding='utf-7'?><p>+ADw-")
@example("pdf", b"%PDF-1.7\n1 0 obj<</Type/Catalog/Pages 1 0 R>>endobj\ntrailer<</Root 1 0 R>>")
def test_any_bytes_are_a_document_or_unreadable(kind: str, body: bytes) -> None:
    read(kind, body)


@few
@given(kind=st.sampled_from(["text", "markdown", "html"]), said=MARKUP)
@example("html", "<![CDATA[")
@example("html", "<p>Well<![](")
@example("markdown", "---\ntitle: ")
def test_any_markup_is_a_document_or_unreadable(kind: str, said: str) -> None:
    read(kind, said.encode("utf-8", "surrogatepass"))


@few
@given(st.data())
def test_a_damaged_pdf_is_a_document_or_unreadable(data: st.DataObject) -> None:
    read("pdf", mutated(data))


GRADE = st.lists(
    st.sampled_from(
        [
            *(
                '{"verdict": "sufficient"',
                '"relevant": [1, 2]',
                '"relevant": [1e999]',
                '"missing": null',
                '"missing": ""',
            ),
            *(
                '"conflicts": "a"',
                '"verdict": "partial"',
                "}",
                "{",
                ",",
                "[",
                "]",
                "```json\n",
                "```",
                "\ufeff",
                "NaN",
                "null",
            ),
            *("true", "1", '"relevant": [true]', '"relevant": [-1]', '"\\ud83d"', "\x00", "So: ", "[" * 2000),
        ]
    ),
    max_size=12,
).map("".join)


@few
@given(GRADE | st.text(st.characters(), max_size=60))
@example('{"verdict": "sufficient", "relevant": [1e999], "missing": null, "conflicts": null}')
def test_a_grade_is_read_or_nobody_graded(said: str) -> None:
    try:
        grade = parse_grade(said, "a model")
    except GraderUnavailable:
        return
    try:
        settled = consistent(grade, 3)
    except GraderUnavailable:
        return
    assert all(1 <= number <= 3 for number in settled.relevant)


@few
@given(st.none() | st.text(st.characters(max_codepoint=255), max_size=30) | st.floats().map(str))
@example("nan")
@example("1e999")
@example("-1")
@example("Wed, 21 Oct 2026 07:28:00 GMT")
def test_a_retry_after_is_some_seconds_or_nothing(written: str | None) -> None:
    wait_s = seconds(written)
    assert wait_s is None or (math.isfinite(wait_s) and wait_s >= 0)


@few
@given(
    st.dictionaries(st.text(st.characters(), max_size=30).map(lambda name: f"GATEWAY_{name}"), st.text(), max_size=4)
)
@example({"GATEWAY_PORT_": "x"})
def test_a_slip_of_the_pen_is_a_sentence_without_its_value(environ: dict[str, str]) -> None:
    for sentence in unknown(environ, "GATEWAY_", ["GATEWAY_PORT", "GATEWAY_HOST"]):
        assert "no setting has this name" in sentence


@pytest.mark.parametrize("depth", [3_000])
@pytest.mark.parametrize("one", ["<div>", "> ", "- ", "[", "*", "<b>"])
def test_what_is_nested_deeply_is_read_or_unreadable(one: str, depth: int) -> None:
    for kind in ("markdown", "html"):
        read(kind, (one * depth + "word").encode())
