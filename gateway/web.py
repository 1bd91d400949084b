"""The page: the files of gateway/web as responses, compressed once, revalidated by ETag, under a strict content policy.

What the first paint needs is written into the page's own file, so that one answer paints it: `<!-- shell.css is written here -->` becomes
a style element, and the policy lets in exactly those bytes, by their hash.

A handler is plain ASGI and asks nobody for a key: the files are the same for everyone and hold nothing of anyone. What the page
asks for goes through the routes that check it.
"""

import gzip
import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from gateway.problems import RouteNotFound, body_of, send_json, status_of

ROUTES = ("/", "/web/{name:path}")
LATENCY_ROUTE = "/latency"
INDEX = "index.html"
COMPRESSED_FROM_BYTES = 512  # a smaller file fits one packet either way
MEDIA_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
WRITTEN_HERE = re.compile(r"<!-- (?P<name>[\w.]+)(?P<ending>\.css|\.js) is written here -->")
ELEMENTS: Mapping[str, str] = {".css": "style", ".js": "script"}
GUARDS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
CACHING = (b"cache-control", b"no-cache")  # kept, and asked about each time: a new version shows at once


@dataclass(frozen=True, slots=True)
class Variant:
    """One encoding of a file, and the ETag of exactly these bytes."""

    body: bytes
    etag: str
    encoding: str | None = None


@dataclass(frozen=True, slots=True)
class File:
    """A file of the page; `packed` is None where compressing saves nothing."""

    media_type: str
    policy: str
    plain: Variant
    packed: Variant | None

    def for_client(self, accepts: str) -> Variant:
        """The variant for an `Accept-Encoding` header."""
        return self.packed if self.packed is not None and takes_gzip(accepts) else self.plain


class Page:
    """The ASGI application of the page's routes, for GET and HEAD. `index` is the file of a route that names none."""

    def __init__(self, index: str = INDEX) -> None:
        self._index = index

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        name = scope.get("path_params", {}).get("name", self._index)
        found = page_files().get(name)
        if found is None:
            fault = RouteNotFound("there is nothing at this path")
            await send_json(send, status_of(fault), body_of(fault))
            return
        headers = Headers(scope=scope)
        variant = found.for_client(headers.get("accept-encoding", ""))
        if knows(headers.get("if-none-match", ""), variant.etag):
            await send({"type": "http.response.start", "status": 304, "headers": revalidated(found, variant)})
            await send({"type": "http.response.body", "body": b""})
            return
        await send({"type": "http.response.start", "status": 200, "headers": head(found, variant)})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else variant.body})


def revalidated(found: File, variant: Variant) -> list[tuple[bytes, bytes]]:
    """The headers that say of a kept response that it is still the one."""
    policy = (b"content-security-policy", found.policy.encode())
    return [(b"etag", variant.etag.encode()), (b"vary", b"Accept-Encoding"), CACHING, policy, *GUARDS]


def head(found: File, variant: Variant) -> list[tuple[bytes, bytes]]:
    """The headers of a response with this variant, whether its body follows or not."""
    headers = [
        *revalidated(found, variant),
        (b"content-type", found.media_type.encode()),
        (b"content-length", str(len(variant.body)).encode()),
    ]
    if variant.encoding is not None:
        headers.append((b"content-encoding", variant.encoding.encode()))
    return headers


@cache
def page_files() -> Mapping[str, File]:
    """Every file of the page by its path below gateway/web, read, put together and compressed at the first request."""
    raw = {name: entry.read_bytes() for name, entry in walked(files("gateway") / "web")}
    return MappingProxyType({name: file_of(name, raw) for name in raw})


def walked(folder: Traversable, below: str = "") -> Iterator[tuple[str, Traversable]]:
    """The files in `folder` that have a media type of the page, with their paths from it."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from walked(entry, f"{below}{entry.name}/")
        elif ending(entry.name) in MEDIA_TYPES:
            yield f"{below}{entry.name}", entry


def file_of(name: str, raw: Mapping[str, bytes]) -> File:
    """The file `name` of `raw` as it is served."""
    plain, written = raw[name], dict[str, list[str]]()
    if ending(name) == ".html":
        plain, written = put_together(plain.decode(), raw)
    packed = gzip.compress(plain, 9, mtime=0)
    is_worth_it = len(plain) >= COMPRESSED_FROM_BYTES and len(packed) < len(plain)
    digest = hashlib.sha256(plain).hexdigest()[:20]
    return File(
        MEDIA_TYPES[ending(name)],
        content_policy(styles=written.get(".css", ()), scripts=written.get(".js", ())),
        Variant(plain, f'"{digest}"'),
        Variant(packed, f'"{digest}-gzip"', "gzip") if is_worth_it else None,
    )


def put_together(page: str, raw: Mapping[str, bytes]) -> tuple[bytes, dict[str, list[str]]]:
    """A page with the files in it that it names as written there, and those by their ending. KeyError where one is missing."""
    written = dict[str, list[str]]()

    def element(found: re.Match[str]) -> str:
        text, kind = raw[found["name"] + found["ending"]].decode(), ELEMENTS[found["ending"]]
        written.setdefault(found["ending"], []).append(text)
        return f"<{kind}>{text}</{kind}>"

    return WRITTEN_HERE.sub(element, page).encode(), written


def content_policy(*, styles: Iterable[str] = (), scripts: Iterable[str] = ()) -> str:
    """The `Content-Security-Policy` of a file: this server's own files, and of what is written into the page exactly these texts."""
    return "; ".join(
        (
            "default-src 'none'",
            " ".join(("script-src 'self'", *map(source_of, scripts))),
            " ".join(("style-src 'self'", *map(source_of, styles))),
            "img-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",  # no text becomes markup but through the sanitiser
            "trusted-types dompurify",
        )
    )


def source_of(text: str) -> str:
    """A text as a policy names it (CSP level 3, section 6.7.3.3)."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def ending(name: str) -> str:
    """The last ending of a name, with its dot; "" where there is none."""
    return name[name.rfind(".") :] if "." in name else ""


def takes_gzip(accepts: str) -> bool:
    """Whether an `Accept-Encoding` header allows gzip: it is named, or `*` is, and not with the weight 0."""
    weights: dict[str, str] = {}
    for offer in accepts.lower().split(","):
        coding, _, parameter = offer.partition(";")
        weights[coding.strip()] = parameter.partition("q=")[2].strip()
    weight = weights.get("gzip", weights.get("*"))
    return weight is not None and (weight == "" or weight.strip("0.") != "")


def knows(if_none_match: str, etag: str) -> bool:
    """Whether an `If-None-Match` header names `etag`, weakly compared."""
    named = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return etag in named or "*" in named
