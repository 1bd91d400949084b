"""An upload: what a request brings to be ingested, as files in multipart/form-data or as one text in JSON."""

import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Annotated, BinaryIO
from urllib.parse import urlsplit

import anyio
from anyio import to_thread
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from gateway.body import ClientGone, parse, read_json
from gateway.cleaning import clean, is_blank
from gateway.problems import BodyTooLarge, BodyTooSlow, InvalidRequest, MalformedJson, WrongContentType
from gateway.problems import Field as BadField
from gateway.request import (
    COLLECTION_LIMIT,
    FIELDS_SHOWN,
    FILTER_NAME_LIMIT,
    FILTERS_LIMIT,
    STRICT,
    bad_fields,
    clean_collection,
    clean_value,
    invalid,
    shown,
)
from gateway.uploads.multipart import Multipart, Part, boundary_of
from retrieval.passage import Scalar
from retrieval.raw import KINDS, SIZE_LIMIT_BYTES, Raw, kind_of, too_large

UPLOAD_BYTES = 67_108_864  # 64 MiB: two documents of the largest size, or a folder of notes
UPLOAD_LIMIT_S = 300.0  # for the whole body: 64 MiB over 2 Mbit/s
SILENCE_LIMIT_S = 30.0  # between two pieces of it
BLOCK_BYTES = 262_144  # parsed and written at once, on a worker thread; the most of a body that is in memory
NAME_LIMIT = 500  # characters of a document's name, title or address
MULTIPART = "multipart/form-data"
KIND_OF_TYPE = {
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "text/plain": "text",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
}
FIELDS = ("collection", "metadata", "title", "url")


KEPT_NAMES = ("source", "kind", "section", "external")  # of metadata: said by what read the document
Metadata = Annotated[dict[str, str | int | float | bool], Field(max_length=FILTERS_LIMIT)]
METADATA: TypeAdapter[dict[str, str | int | float | bool]] = TypeAdapter(
    Metadata, config=ConfigDict(strict=True, allow_inf_nan=False)
)


class DocumentBody(BaseModel):
    """The JSON body of `POST /v1/documents`: one text."""

    model_config = STRICT
    title: Annotated[str, Field(min_length=1, max_length=NAME_LIMIT)]
    text: str
    url: Annotated[str, Field(min_length=1, max_length=NAME_LIMIT)] | None = None
    metadata: Metadata = {}
    collection: Annotated[str, Field(min_length=1, max_length=COLLECTION_LIMIT)] = "default"


@dataclass(frozen=True, slots=True)
class Incoming:
    """A document that came: `name` is its identity. `load` blocks (worker thread) and raises DocumentUnreadable, as does what it loads."""

    name: str
    load: Callable[[], Raw]


@dataclass(frozen=True, slots=True)
class Upload:
    """What came, in order, and for which collection."""

    collection: str
    documents: tuple[Incoming, ...]


@dataclass(frozen=True, slots=True)
class Beside:
    """What was said of all files of an upload."""

    collection: str = "default"
    title: str | None = None
    url: str | None = None
    metadata: Mapping[str, Scalar] = field(default_factory=dict)


@asynccontextmanager
async def uploaded(scope: Scope, receive: Receive, limit_bytes: int) -> AsyncIterator[Upload]:
    """The upload in the request's body, complete; its files are on disk until the block ends, then gone.

    Raises WrongContentType, BodyTooLarge, BodyTooSlow, MalformedMultipart, MalformedJson, InvalidRequest, or ClientGone.
    At most `limit_bytes` are read and kept on disk, BLOCK_BYTES and a chunk in memory.
    """
    headers = Headers(scope=scope)
    content_type = headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != MULTIPART:
        yield text_upload(await read_json(scope, receive))
        return
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise WrongContentType("a compressed body is not accepted")
    boundary = boundary_of(content_type)
    check_announced(headers.get("content-length"), limit_bytes)
    with tempfile.TemporaryFile(prefix="gateway-upload-") as file:
        multipart = Multipart(boundary, file, SIZE_LIMIT_BYTES)
        await read_into(multipart, receive, limit_bytes)
        yield file_upload(multipart, file)


async def read_into(multipart: Multipart, receive: Receive, limit_bytes: int) -> None:
    """Reads the body and hands it over in blocks, each on a worker thread. Raises as `uploaded`."""
    block, read_bytes, is_last = bytearray(), 0, False
    with anyio.move_on_after(UPLOAD_LIMIT_S):
        while not is_last:
            piece, is_last = await next_piece(receive)
            read_bytes += len(piece)
            check_size(read_bytes, limit_bytes)
            block += piece
            if len(block) >= BLOCK_BYTES or is_last:
                await to_thread.run_sync(multipart.write, bytes(block))
                block.clear()
        multipart.finish()
        return
    raise BodyTooSlow(f"the upload did not arrive within {UPLOAD_LIMIT_S:g} s")


async def next_piece(receive: Receive) -> tuple[bytes, bool]:
    """The next piece of the body, and whether it is the last. Raises BodyTooSlow, ClientGone."""
    message = None
    with anyio.move_on_after(SILENCE_LIMIT_S):
        message = await receive()
    if message is None:
        raise BodyTooSlow(f"nothing of the upload arrived for {SILENCE_LIMIT_S:g} s")
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message.get("body", b""), not message.get("more_body", False)


def check_announced(content_length: str | None, limit_bytes: int) -> None:
    """Raises BodyTooLarge when the body announces more than the limit."""
    if content_length is not None and content_length.isascii() and content_length.isdigit():
        check_size(int(content_length[:20]), limit_bytes)


def check_size(size_bytes: int, limit_bytes: int) -> None:
    """Raises BodyTooLarge for more than the limit."""
    if size_bytes > limit_bytes:
        raise BodyTooLarge(f"the upload is larger than {limit_bytes} bytes")


def text_upload(value: object) -> Upload:
    """The one text that the JSON `value` holds: known by its address, or else by its title. Raises InvalidRequest."""
    try:
        body = DocumentBody.model_validate(value)
    except ValidationError as error:
        raise InvalidRequest("the request is not valid", bad_fields(error)) from None
    title = clean_name("title", body.title)
    url = None if body.url is None else clean_url(body.url)
    raw = Raw(
        name=url or title,
        data=body.text.encode("utf-8", "replace"),
        kind="markdown",
        title=title,
        url=url,
        metadata=clean_metadata(body.metadata),
    )
    return Upload(clean_collection(body.collection), (Incoming(raw.name, lambda: raw),))


def file_upload(multipart: Multipart, file: BinaryIO) -> Upload:
    """The files of a body that was parsed into `file`. Raises InvalidRequest."""
    if not multipart.files:
        raise invalid("file", "is missing: send each file as a part that has a filename")
    if multipart.twice:
        raise invalid(shown(clean(multipart.twice[0])), "is given twice")
    beside = beside_of(multipart.fields)
    if len(multipart.files) > 1 and (beside.title or beside.url):
        raise invalid("title" if beside.title else "url", "is of one document; this upload has several")
    documents = tuple(incoming(part, file, beside) for part in multipart.files)
    names = [one.name for one in documents]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise invalid("file", f"{shown(twice)} is uploaded twice")
    return Upload(beside.collection, documents)


def incoming(part: Part, file: BinaryIO, beside: Beside) -> Incoming:
    """One file as it will be loaded. Raises InvalidRequest for a name that cannot be one."""
    name = file_name(part.filename)

    def load() -> Raw:
        if part.is_too_large:
            raise too_large(name)
        kind = kind_said(name, part.content_type)
        file.seek(part.start)
        return Raw(name, file.read(part.size), kind, beside.title, beside.url, beside.metadata)

    return Incoming(name, load)


def kind_said(name: str, content_type: str) -> str | None:
    """None where `name`'s ending says the kind, else what the part's type says. Raises DocumentKindUnknown when neither does."""
    if PurePosixPath(name).suffix.lower() in KINDS:
        return None
    return KIND_OF_TYPE.get(content_type.partition(";")[0].strip().lower()) or kind_of(name)


def file_name(filename: str) -> str:
    """The file's name as it is kept: the path that a folder's drop gives it, cleaned. Raises InvalidRequest."""
    name = "/".join(part for part in clean(filename).replace("\\", "/").split("/") if part not in {"", ".", ".."})
    return clean_name("file", name)


def clean_name(path: str, text: str) -> str:
    """A name on one line. Raises InvalidRequest when nothing or too much is left."""
    name = " ".join(clean(text).split())
    if is_blank(name):
        raise invalid(path, "must have a name that can be seen")
    if len(name) > NAME_LIMIT:
        raise invalid(path, f"has more than {NAME_LIMIT} characters")
    return name


def clean_url(text: str) -> str:
    """A web address, as sources show it to people. Raises InvalidRequest: a page would make a link of anything else, too."""
    url = clean(text).strip()
    if not url.startswith(("http://", "https://")) or any(character.isspace() for character in url):
        raise invalid("url", "must begin with http:// or https:// and hold no space")
    if not host_of(url):
        raise invalid("url", "must name a host")
    return clean_name("url", url)


def host_of(url: str) -> str:
    """The host that a web address names; "" where it names none, or is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # brackets that hold no address
        return ""


def clean_metadata(metadata: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The metadata, names and values cleaned. Raises InvalidRequest for what is out of bounds."""
    cleaned: dict[str, Scalar] = {}
    for name, value in metadata.items():
        if is_blank(name) or len(name) > FILTER_NAME_LIMIT:
            raise invalid("metadata", f"must have names of 1 to {FILTER_NAME_LIMIT} visible characters")
        if name in KEPT_NAMES:
            raise invalid(f"metadata.{name}", "is a name that the gateway gives itself")
        cleaned[clean(name)] = clean_value(f"metadata.{shown(clean(name))}", value)
    return cleaned


def beside_of(fields: Mapping[str, str]) -> Beside:
    """What the fields beside the files say. Raises InvalidRequest, naming what is wrong."""
    unknown = [BadField(shown(clean(name)), "is no field here") for name in fields if name not in FIELDS]
    if unknown:
        raise InvalidRequest("the request is not valid", tuple(unknown[:FIELDS_SHOWN]))
    given = {name: value for name, value in fields.items() if value}
    collection = given.get("collection", "default")
    if len(collection) > COLLECTION_LIMIT:
        raise invalid("collection", f"has more than {COLLECTION_LIMIT} characters")
    return Beside(
        clean_collection(collection),
        clean_name("title", given["title"]) if "title" in given else None,
        clean_url(given["url"]) if "url" in given else None,
        metadata_field(given["metadata"]) if "metadata" in given else {},
    )


def metadata_field(text: str) -> dict[str, Scalar]:
    """The JSON object in the field `metadata`. Raises InvalidRequest."""
    try:
        return clean_metadata(METADATA.validate_python(parse(text.encode("utf-8", "replace"))))
    except (MalformedJson, ValidationError):
        raise invalid(
            "metadata", f"must be a JSON object of at most {FILTERS_LIMIT} texts, numbers or booleans"
        ) from None
