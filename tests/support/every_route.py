"""A request for every route of the gateway, as bytes, for clients that leave."""

import json
import re
from collections.abc import Callable, Mapping
from functools import partial

from starlette.applications import Starlette
from starlette.routing import Route

from gateway.web import ROUTES as PAGES

SCRIPT = "[[grade_ms=20 ttft_ms=20 tps=200 tokens=60]]"

Made = Callable[[int], bytes]  # by a number that makes it unlike the others


def every_way(app: Starlette, model: str, answer_id: str) -> list[tuple[str, Made]]:
    """Every way to ask every route of `app`, by its name. Raises AssertionError for a route that nothing here asks."""
    known = dict(requests(model, answer_id))
    for method, path in routes_of(app) - known.keys():
        assert method in {"GET", "DELETE"}, f"a request for {method} {path} is missing in this file"
        ask = got if method == "GET" else deleted
        known[method, path] = (partial(same, ask(re.sub(r"\{[^}]*\}", "0" * 24, path))),)
    assert known.keys() == routes_of(app)
    return [(f"{method} {path}", way) for (method, path), ways in sorted(known.items()) for way in ways]


def routes_of(app: Starlette) -> set[tuple[str, str]]:
    """Method and path of everything that `app` answers; the page's files count as one."""
    return {
        (method, "/" if route.path in PAGES else route.path)
        for route in app.routes
        if isinstance(route, Route)
        for method in (route.methods or ())
        if method != "HEAD"
    }


def requests(model: str, answer_id: str) -> Mapping[tuple[str, str], tuple[Made, ...]]:
    """Ways to ask each route, by method and path. The answer is a kept one."""

    def question(number: int) -> str:
        verdict = ("sufficient", "partial,sufficient", "insufficient")[number % 3]
        return f"Is it {number}? [[verdict={verdict}]] {SCRIPT}"

    def native(number: int, **fields: object) -> bytes:
        return posted("/v1/answers", {"question": question(number), **fields})

    chat = [{"role": "user"}]
    return {
        ("POST", "/v1/answers"): (
            native,
            lambda n: native(n, stream=False),
            lambda n: native(n, options={"resumable": True}),
            lambda n: posted("/v1/answers", {"question": question(n)}, f"idempotency-key: {n // 2}"),
        ),
        ("POST", "/v1/chat/completions"): tuple(
            lambda n, stream=stream: posted(
                "/v1/chat/completions",
                {"model": model, "stream": stream, "messages": [each | {"content": question(n)} for each in chat]},
            )
            for stream in (True, False)
        ),
        ("POST", "/api/chat"): (
            lambda n: posted(
                "/api/chat",
                {
                    "id": "c",
                    "trigger": "submit-message",
                    "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": question(n)}]}],
                },
            ),
        ),
        ("GET", "/v1/answers/{id}/events"): (
            lambda _: got(f"/v1/answers/{answer_id}/events"),
            lambda n: got(f"/v1/answers/{answer_id}/events", f"last-event-id: {answer_id}.{n % 5}"),
        ),
        ("POST", "/v1/documents"): (
            lambda n: posted("/v1/documents", {"title": f"Tea {n % 7}", "text": f"Tea number {n}. " * 50}),
            lambda n: uploaded(n),
            lambda n: uploaded(n, "accept: text/event-stream"),
        ),
        ("GET", "/v1/models/{model:path}"): (lambda _: got(f"/v1/models/{model}"),),
    }


def same(request: bytes, number: int) -> bytes:
    """`request`, whatever its number."""
    return request


def posted(path: str, value: object, *headers: str) -> bytes:
    return with_body(path, json.dumps(value).encode(), "content-type: application/json", *headers)


def uploaded(number: int, *headers: str) -> bytes:
    """A long document and one that cannot be read."""
    text = "\n\n".join(f"Part {part} of text {number} is about tea." for part in range(400))
    parts = ((f"a{number % 7}.md", text), (f"b{number % 7}.pdf", "%PDF"))
    body = "".join(
        f'--b\r\ncontent-disposition: form-data; name="file"; filename="{name}"\r\n\r\n{content}\r\n'
        for name, content in parts
    )
    return with_body(
        "/v1/documents", f"{body}--b--\r\n".encode(), "content-type: multipart/form-data; boundary=b", *headers
    )


def with_body(path: str, body: bytes, *headers: str) -> bytes:
    lines = (f"POST {path} HTTP/1.1", "host: localhost", f"content-length: {len(body)}", *headers)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def deleted(path: str) -> bytes:
    return f"DELETE {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


def got(path: str, *headers: str) -> bytes:
    return "\r\n".join((f"GET {path} HTTP/1.1", "host: localhost", *headers)).encode() + b"\r\n\r\n"
