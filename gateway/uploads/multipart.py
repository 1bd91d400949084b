"""Multipart: the body of an upload, taken block by block -> its fields, and its files as places in one file on disk."""

from dataclasses import dataclass, field
from typing import BinaryIO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from gateway.problems import BodyTooLarge, MalformedMultipart, WrongContentType

FILES_LIMIT = 500  # of one upload: a folder dropped on the page
FIELDS_LIMIT = 20
FIELD_LIMIT_BYTES = 65_536  # of all fields together; they are held in memory


@dataclass(frozen=True, slots=True)
class Part:
    """An uploaded file: `size` bytes from `start` in the file on disk. One that was too large has only its name."""

    filename: str
    content_type: str
    start: int
    size: int
    is_too_large: bool = False


@dataclass(slots=True)
class _Open:
    """The part that is being read."""

    headers: dict[bytes, bytes] = field(default_factory=dict)
    name: str = ""
    filename: str | None = None
    start: int = 0
    size: int = 0
    is_too_large: bool = False
    value: bytearray = field(default_factory=bytearray)


class Multipart:
    """Takes the blocks of one body. Memory is bounded by the fields' limit, disk by what is written to `file`.

    Blocks, so it is used from a worker thread, by one at a time.
    """

    def __init__(self, boundary: bytes, file: BinaryIO, file_limit_bytes: int) -> None:
        """Files are written to `file`, each up to `file_limit_bytes`; of a larger one no more is kept than its name."""
        self.fields: dict[str, str] = {}
        self.files: list[Part] = []
        self.twice: list[str] = []  # fields that came again
        self._file, self._file_limit_bytes = file, file_limit_bytes
        self._fields_bytes = self._written = self._parts = 0
        self._is_complete = False
        self._header, self._header_value = bytearray(), bytearray()
        self._part = _Open()
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": self._name_header,
                "on_header_value": self._value_header,
                "on_header_end": self._end_header,
                "on_headers_finished": self._open,
                "on_part_data": self._take,
                "on_part_end": self._close,
                "on_end": self._end,
            },
        )

    def write(self, block: bytes) -> None:
        """Takes the next block. Raises MalformedMultipart or BodyTooLarge."""
        try:
            self._parser.write(block)
        except FormParserError as error:
            raise MalformedMultipart("the body is not multipart/form-data as its header announces it") from error

    def finish(self) -> None:
        """Called after the last block. Raises MalformedMultipart when the body broke off."""
        if not self._is_complete:
            raise MalformedMultipart("the body ends before its last boundary")

    def _begin(self) -> None:
        self._part = _Open(start=self._written)

    def _name_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _value_header(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _end_header(self) -> None:
        self._part.headers[bytes(self._header).lower()] = bytes(self._header_value)
        self._header.clear()
        self._header_value.clear()

    def _open(self) -> None:
        disposition = parameters_of(self._part.headers.get(b"content-disposition", b""))
        self._part.name = disposition.get("name", "")
        self._part.filename = disposition.get("filename")
        self._parts += 1  # fields of one name are one field, and each of them takes its time
        too_many = self._parts > FILES_LIMIT + FIELDS_LIMIT
        if too_many or len(self.files) >= FILES_LIMIT or len(self.fields) >= FIELDS_LIMIT:
            raise BodyTooLarge(f"an upload has at most {FILES_LIMIT} files and {FIELDS_LIMIT} fields")

    def _take(self, data: bytes, start: int, end: int) -> None:
        part = self._part
        if part.filename is None:
            self._fields_bytes += end - start
            if self._fields_bytes > FIELD_LIMIT_BYTES:
                raise BodyTooLarge(
                    f"an upload's fields have at most {FIELD_LIMIT_BYTES} bytes together, beside its files"
                )
            part.value += data[start:end]
            return
        part.size += end - start
        if part.size > self._file_limit_bytes:
            part.is_too_large = True
        else:
            self._file.write(data[start:end])

    def _close(self) -> None:
        part = self._part
        if part.filename is None:
            self.twice += [part.name] if part.name in self.fields else []
            self.fields[part.name] = part.value.decode("utf-8", "replace")
            return
        if part.is_too_large:
            self._file.seek(part.start)
            self._file.truncate()
            self.files.append(Part(part.filename, "", part.start, 0, is_too_large=True))
            return
        self._written += part.size
        content_type = part.headers.get(b"content-type", b"").decode("latin-1")
        self.files.append(Part(part.filename, content_type, part.start, part.size))

    def _end(self) -> None:
        self._is_complete = True


def boundary_of(content_type: str) -> bytes:
    """The boundary that the Content-Type of a body names. Raises WrongContentType where there is none."""
    _, parameters = parse_options_header(content_type)
    boundary = parameters.get(b"boundary", b"")
    if not boundary or len(boundary) > 70:  # RFC 2046, 5.1.1
        raise WrongContentType("multipart/form-data needs a boundary of 1 to 70 characters")
    return boundary


def parameters_of(disposition: bytes) -> dict[str, str]:
    """The parameters of a Content-Disposition, in UTF-8 as browsers and RFC 7578 write them."""
    _, parameters = parse_options_header(disposition)
    return {name.decode("latin-1"): value.decode("utf-8", "replace") for name, value in parameters.items()}
