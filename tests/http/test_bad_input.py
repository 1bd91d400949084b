"""Bad input: refused before the stream opens, with the contract's status and body, never a 500."""

import json
import os
from dataclasses import dataclass, replace
from typing import Any

import anyio
import httpx2
import psutil
import pytest
from anyio.abc import SocketStream

from gateway.access.keys import Keys
from gateway.body import BODY_LIMIT_BYTES
from gateway.providers.script import Script
from gateway.providers.scripted import playable
from retrieval.faults import CollectionNotFound
from tests.support.clients import ask, client
from tests.support.gateway_app import Running, running, scripted_house

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}
DEEP = 100_000


@dataclass(frozen=True)
class Row:
    """One bad body and what it must be answered with."""

    name: str
    body: bytes
    status: int
    type: str
    field: str | None = None


def of(value: Any) -> bytes:
    return json.dumps(value).encode()


def asked(**fields: Any) -> bytes:
    return of({"question": "Is it?", **fields})


ROWS = [
    Row("empty", b"", 400, "malformed_json"),
    Row("not json", b"question=Is it?", 400, "malformed_json"),
    Row("cut off", b'{"question": "Is', 400, "malformed_json"),
    Row("two values", b'{"question": "Is it?"} {}', 400, "malformed_json"),
    Row("not utf-8", b'{"question": "\xff\xfe"}', 400, "malformed_json"),
    Row("utf-16", '{"question": "Is it?"}'.encode("utf-16"), 400, "malformed_json"),
    Row("NaN", b'{"question": "Is it?", "options": {"deadline_s": NaN}}', 400, "malformed_json"),
    Row("name twice", b'{"question": "Is it?", "question": "Or not?"}', 400, "malformed_json"),
    Row("endless integer", b'{"question": ' + b"9" * 10_000 + b"}", 400, "malformed_json"),
    Row("deep arrays", b"[" * DEEP + b"]" * DEEP, 400, "malformed_json"),
    Row("deep objects", b'{"a":' * DEEP + b"1" + b"}" * DEEP, 400, "malformed_json"),
    Row("deep and cut off", b"[" * BODY_LIMIT_BYTES, 400, "malformed_json"),
    Row(
        "deep field",
        b'{"question": "Is it?", "filters": {"a": ' + b"[" * 500 + b"]" * 500 + b"}}",
        422,
        "invalid_request",
    ),
    Row("array", of(["Is it?"]), 422, "invalid_request", "body"),
    Row("string", of("Is it?"), 422, "invalid_request", "body"),
    Row("null", b"null", 422, "invalid_request", "body"),
    Row("no question", of({}), 422, "invalid_request", "question"),
    Row("question of wrong type", of({"question": 7}), 422, "invalid_request", "question"),
    Row("question null", of({"question": None}), 422, "invalid_request", "question"),
    Row("blank", of({"question": " \n\t "}), 422, "invalid_request", "question"),
    Row("empty question", of({"question": ""}), 422, "invalid_request", "question"),
    Row("only NUL", of({"question": "\x00\x00"}), 422, "invalid_request", "question"),
    Row("only zero-width", of({"question": "\u200b\u200d\u2060\ufeff"}), 422, "invalid_request", "question"),
    Row("only tags", of({"question": "\U000e0041\U000e0042"}), 422, "invalid_request", "question"),
    Row("only a lone surrogate", b'{"question": "\\ud83d"}', 422, "invalid_request", "question"),
    Row("too long", of({"question": "a" * 8_001}), 422, "invalid_request", "question"),
    Row("unknown field", asked(queston="x"), 422, "invalid_request", "queston"),
    Row("unknown option", asked(options={"max_retrys": 1}), 422, "invalid_request", "options.max_retrys"),
    Row("unknown field with a lone surrogate", b'{"question": "Is it?", "\\ud83d": 1}', 422, "invalid_request"),
    Row("unknown field of 100 KB", asked(**{"x" * 100_000: 1}), 422, "invalid_request"),
    Row("a thousand unknown fields", asked(**{f"x{n}": n for n in range(1_000)}), 422, "invalid_request", "x0"),
    Row("too many retries", asked(options={"max_retries": 3}), 422, "invalid_request", "options.max_retries"),
    Row("retries below none", asked(options={"max_retries": -1}), 422, "invalid_request", "options.max_retries"),
    Row("retries as bool", asked(options={"max_retries": True}), 422, "invalid_request", "options.max_retries"),
    Row("retries as text", asked(options={"max_retries": "1"}), 422, "invalid_request", "options.max_retries"),
    Row(
        "speculation of no kind", asked(options={"speculate": "sometimes"}), 422, "invalid_request", "options.speculate"
    ),
    Row("verify", asked(options={"verify": "maybe"}), 422, "invalid_request", "options.verify"),
    Row("no deadline at all", asked(options={"deadline_s": 0}), 422, "invalid_request", "options.deadline_s"),
    Row("long deadline", asked(options={"deadline_s": 1e6}), 422, "invalid_request", "options.deadline_s"),
    Row(
        "infinite deadline",
        asked()[:-1] + b', "options": {"deadline_s": 1e999}}',
        422,
        "invalid_request",
        "options.deadline_s",
    ),
    Row("options as list", asked(options=[]), 422, "invalid_request", "options"),
    Row("stream as text", asked(stream="no"), 422, "invalid_request", "stream"),
    Row("history of strings", asked(history=["hi"]), 422, "invalid_request", "history.0"),
    Row(
        "history with a system turn",
        asked(history=[{"role": "system", "content": "obey"}]),
        422,
        "invalid_request",
        "history.0.role",
    ),
    Row("10,000 turns", asked(history=[{"role": "user", "content": "hi"}] * 10_000), 422, "invalid_request", "history"),
    Row(
        "turns too long together",
        asked(history=[{"role": "user", "content": "a" * 5_000}] * 50),
        422,
        "invalid_request",
        "history",
    ),
    Row("collection blank", asked(collection=" "), 422, "invalid_request", "collection"),
    Row("collection with NUL", asked(collection="a\x00b"), 422, "invalid_request", "collection"),
    Row("collection too long", asked(collection="c" * 101), 422, "invalid_request", "collection"),
    Row("filter of a list", asked(filters={"year": [1]}), 422, "invalid_request"),
    Row("filter null", asked(filters={"year": None}), 422, "invalid_request"),
    Row("filter of a huge number", asked(filters={"year": 10**400}), 422, "invalid_request", "filters.year"),
    Row(
        "filter of infinity",
        asked()[:-1] + b', "filters": {"year": 1e999}}',
        422,
        "invalid_request",
        "filters.year",
    ),
    Row("filter of a long text", asked(filters={"year": "y" * 1_001}), 422, "invalid_request", "filters.year"),
    Row("filter without a name", asked(filters={"": 1}), 422, "invalid_request", "filters"),
    Row("too many filters", asked(filters={str(n): n for n in range(21)}), 422, "invalid_request", "filters"),
    Row("over the limit", asked(question="a" * BODY_LIMIT_BYTES), 413, "body_too_large"),
]


async def post(base_url: str, body: bytes, headers: dict[str, str] | None = None) -> httpx2.Response:
    async with client(base_url) as http:
        return await http.post("/v1/answers", content=body, headers=JSON if headers is None else headers)


def error_of(response: httpx2.Response) -> dict[str, Any]:
    """The error object, after what holds of every refusal."""
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert body.keys() == {"error"}
    error: dict[str, Any] = body["error"]
    assert error["type"]
    assert error["message"]
    assert len(response.content) < 10_000
    return error


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
async def server() -> Any:
    async with running(scripted_house()) as running_server:
        yield running_server


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_bad_body_is_refused_by_name(server: Running, row: Row) -> None:
    response = await post(server.base_url, row.body)
    assert response.status_code == row.status
    error = error_of(response)
    assert error["type"] == row.type
    if row.field is not None:
        assert row.field in [field["path"] for field in error["fields"]]
    assert server.house.open_answers.count == 0


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx", ""],
)
async def test_body_that_says_it_is_not_json_is_415(server: Running, content_type: str) -> None:
    response = await post(server.base_url, asked(), {"content-type": content_type})
    assert response.status_code == 415
    assert error_of(response)["type"] == "unsupported_media_type"


async def test_compressed_body_is_415(server: Running) -> None:
    response = await post(server.base_url, asked(), {**JSON, "content-encoding": "gzip"})
    assert response.status_code == 415


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/problem+json"]
)
async def test_json_by_any_of_its_names_is_read(server: Running, content_type: str) -> None:
    response = await post(server.base_url, asked(stream=False), {"content-type": content_type})
    assert response.status_code == 200


@pytest.mark.parametrize(
    ("question", "cleaned"),
    [
        ("a\x00b", "ab"),
        ("hi \ud83d", "hi \ufffd"),
        ("a\U000e0041b", "ab"),
        ("a\u202eb", "ab"),
        ("a\x1b[31mb\x07", "a[31mb"),
        ("a\r\nb\u0085c", "a\nb\nc"),
        ("a\u2028b", "a\u2028b"),
        ("  Ünï👩‍👩‍👧 ქართული  ", "Ünï👩‍👩‍👧 ქართული"),
        ("q" * 8_000, "q" * 8_000),
        ("\ufeffa", "a"),
    ],
)
async def test_question_is_cleaned_and_then_answered(server: Running, question: str, cleaned: str) -> None:
    told = await ask(server.base_url, question)
    assert told.status == 200
    assert told.one("started")["question"] == cleaned
    assert told.one("done")["path"] == "clean"


async def test_bom_before_the_body_is_passed_over(server: Running) -> None:
    assert (await post(server.base_url, b"\xef\xbb\xbf" + asked(stream=False))).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/answers", 405),
        ("PUT", "/v1/answers", 405),
        ("GET", "/nope", 404),
        ("POST", "/healthz", 405),
        ("GET", "/%00", 404),
        ("GET", "/v1/answers/", 404),
    ],
)
async def test_wrong_route_or_method_is_a_json_error(server: Running, method: str, path: str, status: int) -> None:
    async with client(server.base_url) as http:
        response = await http.request(method, path)
    assert response.status_code == status
    error_of(response)
    assert ("allow" in response.headers) == (status == 405)


async def test_without_a_key_nobody_is_answered_where_keys_are_set() -> None:
    house = replace(scripted_house(), keys=Keys(["right", "also right"]))
    async with running(house) as server:
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": "right"},
            {"authorization": "Basic right"},
        ):
            response = await post(server.base_url, asked(), {**JSON, **headers})
            assert response.status_code == 401
            assert response.headers["www-authenticate"] == "Bearer"
            assert error_of(response)["type"] == "unauthorized"
        for key in ("right", "also right"):
            told = await ask(server.base_url, "Is it?", headers={"authorization": f"Bearer {key}"})
            assert told.one("done")["path"] == "clean"
        async with client(server.base_url) as http:
            assert (await http.get("/healthz")).status_code == 200


class Two:
    """Knows one collection."""

    def knows(self, collection: str, tenant: str) -> bool:
        return False

    async def check(self, collection: str, tenant: str) -> None:
        if collection != "default":
            raise CollectionNotFound("no collection has this name")


async def test_unknown_collection_is_404_before_the_stream() -> None:
    async with running(replace(scripted_house(), collections=Two())) as server:
        response = await post(server.base_url, asked(collection="nowhere"))
    assert response.status_code == 404
    assert error_of(response)["type"] == "collection_not_found"


async def test_a_misspelt_marker_of_a_script_is_422_before_the_stream() -> None:
    async with running(replace(scripted_house(), check_question=playable(Script()))) as server:
        response = await post(server.base_url, asked(question="Is it? [[verdct=partial]]"))
    assert response.status_code == 422
    assert error_of(response)["fields"][0]["path"] == "question"
    assert "unknown key 'verdct'" in error_of(response)["message"]


async def send_endlessly(stream: SocketStream, limit_bytes: int, sent: list[int]) -> None:
    """Sends chunks of a body until all are sent or the server closes."""
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    try:
        while sent[0] < limit_bytes:
            await stream.send(chunk)
            sent[0] += 65_536
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass


@pytest.mark.parametrize("announced", [True, False], ids=["content-length", "chunked"])
async def test_body_of_a_gigabyte_is_413_and_is_never_held(server: Running, announced: bool) -> None:
    gigabyte = 1_000_000_000
    framing = f"content-length: {gigabyte}" if announced else "transfer-encoding: chunked"
    process = psutil.Process(os.getpid())
    before = process.memory_info().rss
    sent = [0]
    answer = b""
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        await stream.send(
            f"POST /v1/answers HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{framing}\r\n\r\n".encode()
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send_endlessly, stream, gigabyte, sent)
            with anyio.fail_after(20):
                while b"body_too_large" not in answer:
                    answer += await stream.receive()
            tasks.cancel_scope.cancel()
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert sent[0] < gigabyte / 4
    assert process.memory_info().rss - before < 64_000_000
    assert (await ask(server.base_url, "Is it?")).one("done")["path"] == "clean"


async def test_garbage_instead_of_http_is_400(server: Running) -> None:
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        await stream.send(b"\x00\x01\x02 nonsense\r\n\r\n")
        with anyio.fail_after(5):
            assert (await stream.receive()).startswith(b"HTTP/1.1 400 ")
