"""A real HTTP server on loopback that answers as the search services do, in a thread of its own."""

import json
import select
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from gateway.providers.search.brave import Brave
from gateway.providers.search.generic import Generic, Paths
from gateway.providers.search.serper import Serper
from gateway.providers.search.service import Service
from gateway.providers.search.tavily import Tavily

KEY = "a-secret-key"
Found = tuple[str, str, str]
"""Title, text and address of one result."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one service speaks: the adapter under test, and the server's side of it, written from the service's own documents."""

    name: str
    service: Callable[[str, str], Service]
    method: str
    query: str
    key_header: str
    key_prefix: str
    refused_status: int
    body: Callable[[str, Sequence[Found]], Any]
    error: Callable[[int], Any]
    query_characters: int | None = None
    query_words: int | None = None


def brave_body(query: str, found: Sequence[Found]) -> Any:
    """Without results the section `web` is missing."""
    results = [
        {
            "type": "search_result",
            "title": title,
            "url": url,
            "is_source_local": False,
            "description": text,
            "page_age": "2026-03-01T00:00:00",
            "profile": {"name": "Example", "url": url},
            "language": "en",
            "family_friendly": True,
        }
        for title, text, url in found
    ]
    web = {"web": {"type": "search", "results": results, "family_friendly": True}} if results else {}
    return {"query": {"original": query, "more_results_available": False}, "type": "search", **web}


def brave_error(status: int) -> Any:
    code = {422: "SUBSCRIPTION_TOKEN_INVALID", 429: "RATE_LIMITED"}.get(status, "INTERNAL")
    error = {"id": "0", "code": code, "detail": f"With {KEY} it went wrong.", "status": status}
    return {"type": "ErrorResponse", "error": error, "time": 1}


def tavily_body(query: str, found: Sequence[Found]) -> Any:
    results = [
        {"title": title, "url": url, "content": text, "score": 0.9 - n / 10, "raw_content": None}
        for n, (title, text, url) in enumerate(found)
    ]
    asked: dict[str, Any] = {"query": query, "follow_up_questions": None, "answer": None, "images": []}
    return {**asked, "results": results, "response_time": 0.9, "request_id": "0"}


def tavily_error(status: int) -> Any:
    return {"detail": {"error": f"Unauthorized: missing or invalid API key {KEY}. ({status})"}}


def serper_body(query: str, found: Sequence[Found]) -> Any:
    organic = [
        {"title": title, "link": url, "snippet": text, "position": n} for n, (title, text, url) in enumerate(found, 1)
    ]
    return {"searchParameters": {"q": query, "type": "search", "engine": "google"}, "organic": organic, "credits": 1}


def serper_error(status: int) -> Any:
    return {"message": f"Unauthorized. {KEY}", "statusCode": status}


def generic_body(query: str, found: Sequence[Found]) -> Any:
    hits = [{"doc": {"name": title, "parts": [text]}, "links": [{"href": url}]} for title, text, url in found]
    return {"status": "ok", "data": {"hits": hits}}


def generic_error(status: int) -> Any:
    return {"error": f"no {KEY}", "status": status}


def generic_service(key: str, url: str) -> Service:
    paths = Paths(("data", "hits"), ("doc", "name"), ("doc", "parts"), ("links", 0, "href"))
    return Generic(url, query="question", count="size", headers={"x-api-key": key}, fixed={"lang": "en"}, paths=paths)


BRAVE = Dialect(
    "brave", Brave, "GET", "q", "x-subscription-token", "", 422, brave_body, brave_error, 400, 50
)  # fmt: skip
TAVILY = Dialect("tavily", Tavily, "POST", "query", "authorization", "Bearer ", 401, tavily_body, tavily_error, 400)
SERPER = Dialect("serper", Serper, "POST", "q", "x-api-key", "", 403, serper_body, serper_error)
GENERIC = Dialect("http", generic_service, "GET", "question", "x-api-key", "", 401, generic_body, generic_error)
DIALECTS = (BRAVE, TAVILY, SERPER, GENERIC)


@dataclass(slots=True)
class SearchApi:
    """What was asked, and how to answer."""

    dialect: Dialect
    url: str = ""
    found: Sequence[Found] = ()
    status: int = 200
    raw: bytes | None = None
    is_silent: bool = False
    drips: bool = False
    queries: list[dict[str, Any]] = field(default_factory=list)
    asked: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def service(self, key: str = KEY) -> Service:
        """The adapter under test, aimed here."""
        return self.dialect.service(key, self.url)

    def answer(self, method: str, key: str | None, asked: dict[str, Any]) -> tuple[int, bytes]:
        """Status and body, as the service would answer."""
        dialect = self.dialect
        if method != dialect.method:
            return 405, json.dumps(dialect.error(405)).encode()
        if key != dialect.key_prefix + KEY:
            return dialect.refused_status, json.dumps(dialect.error(dialect.refused_status)).encode()
        query = asked[dialect.query]
        if len(query) > (dialect.query_characters or len(query)) or len(query.split()) > (dialect.query_words or 10**6):
            return 400, json.dumps(dialect.error(400)).encode()
        if self.raw is not None:
            return self.status, self.raw
        body = dialect.body(query, self.found) if self.status == 200 else dialect.error(self.status)
        return self.status, json.dumps(body).encode()


@contextmanager
def search_api(dialect: Dialect) -> Iterator[SearchApi]:
    """The server, listening; it is stopped, with every handler, at the end."""
    api = SearchApi(dialect)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 5  # of a connection that a client left open

        def do_GET(self) -> None:
            self.tell({name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()})

        def do_POST(self) -> None:
            self.tell(json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def tell(self, asked: dict[str, Any]) -> None:
            api.queries.append(asked)
            api.asked.set()
            if api.is_silent:
                self.wait_for_leaving()
                return
            status, content = api.answer(self.command, self.headers[dialect.key_header], asked)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content) + api.drips))
            self.end_headers()
            self.wfile.write(content)
            if api.drips:
                self.wait_for_leaving()

        def wait_for_leaving(self) -> None:
            """Says nothing more until the client hangs up, or the test is over."""
            self.close_connection = True
            while not api.over.is_set():
                readable, _, _ = select.select([self.connection], [], [], 0.02)
                if readable and not self.connection.recv(1, socket.MSG_PEEK):
                    api.left.set()
                    return

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = False
        request_queue_size = 128

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a client that left while it was answered

    server = Server(("127.0.0.1", 0), Handler)
    api.url = f"http://127.0.0.1:{server.server_address[1]}/search"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield api
    finally:
        api.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
