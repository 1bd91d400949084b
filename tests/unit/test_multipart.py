"""Multipart bodies: however they are cut into blocks, the same files and fields; bounded."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.problems import BodyTooLarge, MalformedMultipart, WrongContentType
from gateway.uploads.multipart import FIELDS_LIMIT, FILES_LIMIT, Multipart, Part, boundary_of

BODY = (
    b'--b\r\ncontent-disposition: form-data; name="title"\r\n\r\nA t\xc3\xaftle\r\n'
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a \\"b\\" \xc3\xa9.txt"\r\nContent-Type: text/plain\r\n\r\n'
    b"line\r\n--not the boundary\r\n\r\n--b\r\n"
    b'content-disposition: form-data; name="x"; filename="empty"\r\n\r\n\r\n'
    b'--b\r\ncontent-disposition: form-data; name="x"; filename="big"\r\n\r\n' + b"x" * 100 + b"\r\n"
    b'--b\r\ncontent-disposition: form-data; name="x"; filename="last"\r\n\r\nend\r\n--b--\r\n'
)


@given(st.lists(st.integers(1, 40), min_size=1))
def test_the_blocks_of_a_body_do_not_matter(sizes: list[int]) -> None:
    file = io.BytesIO()
    multipart, at, turn = Multipart(b"b", file, 60), 0, 0
    while at < len(BODY):
        size = sizes[turn % len(sizes)]
        multipart.write(BODY[at : at + size])
        at, turn = at + size, turn + 1
    multipart.finish()
    assert multipart.fields == {"title": "A tïtle"}
    text = b"line\r\n--not the boundary\r\n"
    assert multipart.files == [
        Part('a "b" é.txt', "text/plain", 0, len(text)),
        Part("empty", "", len(text), 0),
        Part("big", "", len(text), 0, is_too_large=True),
        Part("last", "", len(text), 3),
    ]
    assert file.getvalue() == text + b"end"


@pytest.mark.parametrize("length", [0, 1, 30, len(BODY) - 9])
def test_a_body_that_breaks_off_is_malformed(length: int) -> None:
    multipart = Multipart(b"b", io.BytesIO(), 60)
    multipart.write(BODY[:length])
    with pytest.raises(MalformedMultipart):
        multipart.finish()


@pytest.mark.parametrize(
    "content_type", ["multipart/form-data", "multipart/form-data; boundary=", "a; boundary=" + "b" * 71]
)
def test_a_boundary_is_needed(content_type: str) -> None:
    with pytest.raises(WrongContentType):
        boundary_of(content_type)


@pytest.mark.parametrize("name", ["x", "title"])
def test_parts_are_counted_also_where_they_all_have_one_name(name: str) -> None:
    part = f'--b\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n\r\n'.encode()
    multipart = Multipart(b"b", io.BytesIO(), 60)
    with pytest.raises(BodyTooLarge):
        multipart.write(part * (FIELDS_LIMIT + FILES_LIMIT + 2))
