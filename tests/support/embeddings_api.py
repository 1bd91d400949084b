"""A real HTTP server on loopback that speaks the OpenAI embeddings protocol, in a thread of its own."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.embedders import HashingEmbedder

Body = dict[str, Any]


@dataclass(slots=True)
class EmbeddingsApi:
    """What was asked (bodies, `authorization` headers), and how to misbehave."""

    base_url: str = ""
    bodies: list[Body] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    status: int = 200
    raw: bytes | None = None
    drop: int = 0
    silent: threading.Event = field(default_factory=threading.Event)
    is_silent: bool = False
    scale: float = 3.0
    embedder: HashingEmbedder = field(default_factory=HashingEmbedder)

    def answer(self, body: Body) -> bytes:
        """Vectors of length `scale`, the last text's first, without the first `drop`."""
        if self.raw is not None:
            return self.raw
        vectors = [[each * self.scale for each in self.embedder.vector(text)] for text in body["input"]]
        data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        return json.dumps({"object": "list", "model": body["model"], "data": data[self.drop :][::-1]}).encode()


@contextmanager
def embeddings_api() -> Iterator[EmbeddingsApi]:
    """The server, listening; it is stopped, with every handler, at the end."""
    api = EmbeddingsApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 5  # of a connection that a client left open

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            api.bodies.append(body)
            api.keys.append(self.headers["authorization"])
            if api.is_silent:
                api.silent.wait(10)
                self.close_connection = True
                return
            content = api.answer(body) if self.path == "/v1/embeddings" else b"{}"
            self.send_response(api.status if self.path == "/v1/embeddings" else 404)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = False
        request_queue_size = 128  # of 5, the default, a burst of clients loses some

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a client that left while it was answered

    server = Server(("127.0.0.1", 0), Handler)
    api.base_url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield api
    finally:
        api.silent.set()
        server.shutdown()
        server.server_close()
        thread.join()
