"""Documents over HTTP: real sockets, a real database. What is taken is stored whole, what is not is named."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import httpx2
import pytest

from gateway.access.keys import Keys
from gateway.uploads.documents import StoredDocuments
from gateway.uploads.multipart import FIELD_LIMIT_BYTES, FILES_LIMIT
from gateway.uploads.routes import AT_ONCE, DocumentsRoute
from retrieval.pool import Pool, open_pool
from retrieval.ports import Query, SearchMode, Vector
from retrieval.postgres import PostgresRetriever
from retrieval.raw import SIZE_LIMIT_BYTES
from retrieval.store import PassageStore
from tests.support.clients import EventSource, client  # type: ignore[attr-defined]  # its import needs a name
from tests.support.embedders import HashingEmbedder
from tests.support.gateway_app import Running, Spans, eventually, running, scripted_house
from tests.support.leftovers import assert_nothing_is_left
from tests.support.pdf import encrypted, pdf
from tests.support.postgres import emptied

pytestmark = pytest.mark.anyio

File = tuple[str, bytes] | tuple[str, bytes, str]


class Gated(HashingEmbedder):
    """Embeds when it is let: `open` lets it, `asked` says that it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.asked = anyio.Event(), anyio.Event()
        self.open.set()

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        self.asked.set()
        await self.open.wait()
        return await super().embed_passages(texts)


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    async with open_pool(emptied(database_url), size=4) as pool:
        yield pool


@pytest.fixture
def embedder() -> Gated:
    return Gated()


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
async def server(pool: Pool, embedder: Gated, spans: Spans) -> AsyncIterator[Running]:
    documents = StoredDocuments(PassageStore(pool), embedder)
    house = replace(scripted_house(processors=[spans]), documents=documents, upload_bytes=2 * SIZE_LIMIT_BYTES)
    async with running(house) as server:
        yield server


@pytest.fixture(scope="module")
async def bare() -> AsyncIterator[Running]:
    """A server without documents: for what is refused before it comes to them."""
    async with running(scripted_house()) as server:
        yield server


async def upload(
    server: Running, *files: File, headers: dict[str, str] | None = None, **fields: str
) -> httpx2.Response:
    async with client(server.base_url) as http:
        parts = [("file", file) for file in files]
        return await http.post("/v1/documents", files=parts, data=fields, headers=headers or {})


async def post(server: Running, **body: Any) -> httpx2.Response:
    async with client(server.base_url) as http:
        return await http.post("/v1/documents", json=body)


async def listed(server: Running, query: str = "") -> list[dict[str, Any]]:
    async with client(server.base_url) as http:
        response = await http.get(f"/v1/documents?{query}")
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["documents"]
    return found


async def found(pool: Pool, text: str, **query: Any) -> list[str]:
    passages = await PostgresRetriever(pool, HashingEmbedder()).retrieve(Query(text, k=20, **query))
    return [passage.text for passage in passages]


def error(response: httpx2.Response, status: int, type_: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    said: dict[str, Any] = response.json()["error"]
    assert said["type"] == type_
    return said


async def test_files_are_taken_found_listed_and_removed(server: Running, pool: Pool) -> None:
    response = await upload(
        server,
        ("tea.md", b"# Tea\n\nGreen tea is steeped at eighty degrees."),
        ("deep/er/coffee.html", b"<title>Coffee</title><p>Coffee is brewed at ninety-three degrees.</p>"),
        ("salt.pdf", pdf("Salt is added last.")),
    )
    assert response.status_code == 200
    body = response.json()
    documents = body.pop("documents")
    assert body == {
        "collection": "default",
        "added": 3,
        "changed": 0,
        "unchanged": 0,
        "unreadable": 0,
        "passages": 3,
    }
    assert [one["name"] for one in documents] == ["tea.md", "deep/er/coffee.html", "salt.pdf"]
    assert [one["title"] for one in documents] == ["Tea", "Coffee", "salt"]
    assert "Green tea is steeped at eighty degrees." in (await found(pool, "steeped eighty degrees"))[0]
    assert {one["name"] for one in await listed(server)} == {"tea.md", "deep/er/coffee.html", "salt.pdf"}

    async with client(server.base_url) as http:
        gone = await http.delete(f"/v1/documents/{documents[0]['id']}")
        assert (gone.status_code, gone.content) == (204, b"")
        error(await http.delete(f"/v1/documents/{documents[0]['id']}"), 404, "document_not_found")
    assert not any("tea" in text for text in await found(pool, "green tea"))
    assert {one["name"] for one in await listed(server)} == {"deep/er/coffee.html", "salt.pdf"}


async def test_a_text_in_json_is_taken_with_its_address_and_metadata(server: Running, pool: Pool) -> None:
    text = {"title": "Tea", "text": "Green tea is hot.", "url": "https://tea.example/a", "metadata": {"year": 2026}}
    response = await post(server, **text, collection="drinks")
    assert response.status_code == 200
    assert (response.json()["collection"], response.json()["added"]) == ("drinks", 1)
    (document,) = await listed(server, "collection=drinks")
    assert (document["name"], document["title"], document["url"]) == (text["url"], "Tea", text["url"])
    assert await found(pool, "tea", collection="drinks", filters={"year": 2026}) == ["Green tea is hot."]
    assert await found(pool, "tea", collection="drinks", filters={"year": 2025}) == []


async def test_what_has_not_changed_is_skipped_and_what_has_keeps_its_id(server: Running, pool: Pool) -> None:
    first = (await upload(server, ("bread.txt", b"Bread is baked for forty minutes."))).json()
    again = (await upload(server, ("bread.txt", b"Bread is baked for forty minutes."))).json()
    assert (again["unchanged"], again["passages"]) == (1, 0)
    changed = (await upload(server, ("bread.txt", b"Bread is baked for fifty minutes."))).json()
    assert changed["changed"] == 1
    assert changed["documents"][0]["id"] == first["documents"][0]["id"]
    assert await found(pool, "bread") == ["Bread is baked for fifty minutes."]
    titled = (await upload(server, ("bread.txt", b"Bread is baked for fifty minutes."), title="On bread")).json()
    assert titled["changed"] == 1
    assert (await listed(server))[0]["title"] == "On bread"


async def test_what_cannot_be_read_is_named_and_the_rest_is_taken(server: Running) -> None:
    response = await upload(
        server,
        ("broken.pdf", b"%PDF-1.7 nothing follows"),
        ("empty.md", b""),
        ("good.txt", b"Tea is hot."),
        ("locked.pdf", encrypted(pdf("Tea"), "secret")),
        ("noise.txt", b"caf\xe9"),
        ("picture.png", b"\x89PNG", "image/png"),
    )
    assert response.status_code == 200
    body = response.json()
    assert (body["added"], body["unreadable"]) == (1, 5)
    told = {one["name"]: one.get("error", {}).get("message") for one in body["documents"]}
    assert told == {
        "broken.pdf": "broken.pdf: corrupt PDF",
        "empty.md": "empty.md: empty",
        "good.txt": None,
        "locked.pdf": "locked.pdf: encrypted, and the password is not known",
        "noise.txt": "noise.txt: not UTF-8 text (byte 3)",
        "picture.png": "picture.png: not Markdown, text, HTML or PDF",
    }
    assert [one["name"] for one in await listed(server)] == ["good.txt"]


@pytest.mark.parametrize(
    ("file", "status", "type_"),
    [
        (("broken.pdf", b"%PDF-1.7"), 422, "document_unreadable"),
        (("empty.md", b""), 422, "document_unreadable"),
        (("a.png", b"\x89PNG", "image/png"), 415, "unsupported_document"),
        (("big.txt", b"x " * (SIZE_LIMIT_BYTES // 2 + 1)), 413, "document_too_large"),
    ],
)
async def test_an_upload_of_which_nothing_can_be_read_has_the_status_of_why(
    server: Running, file: File, status: int, type_: str
) -> None:
    response = await upload(server, file)
    assert error(response, status, type_)["message"].startswith(file[0])
    assert response.json()["documents"][0]["error"]["type"] == type_
    assert await listed(server) == []


async def test_a_file_without_an_ending_is_read_by_its_type(server: Running) -> None:
    response = await upload(server, ("README", b"# Tea\n\nHot.", "text/markdown; charset=utf-8"))
    assert response.json()["documents"][0]["title"] == "Tea"


@pytest.mark.parametrize(
    ("fields", "files", "path"),
    [
        ({"colection": "x"}, 1, "colection"),
        ({"collection": "a\x07"}, 1, "collection"),
        ({"metadata": "[1]"}, 1, "metadata"),
        ({"metadata": '{"a": [1]}'}, 1, "metadata"),
        ({"metadata": "{"}, 1, "metadata"),
        ({"metadata": '{"source": "x"}'}, 1, "metadata.source"),
        ({"url": "javascript:alert(1)"}, 1, "url"),
        ({"title": "T"}, 2, "title"),
        ({"url": "https://a.example/"}, 2, "url"),
        ({}, 0, "file"),
    ],
)
async def test_a_wrong_field_of_an_upload_is_named(
    bare: Running, fields: dict[str, str], files: int, path: str
) -> None:
    parts: list[Any] = [("file", (f"{n}.txt", b"Tea")) for n in range(files)] or [("title", (None, "x"))]
    async with client(bare.base_url) as http:
        response = await http.post("/v1/documents", files=parts, data=fields if files else {})
    assert [field["path"] for field in error(response, 422, "invalid_request")["fields"]] == [path]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"text": "x"}, "title"),
        ({"title": "x"}, "text"),
        ({"title": " ", "text": "x"}, "title"),
        ({"title": "x", "text": "x", "more": 1}, "more"),
        ({"title": "x", "text": "x", "metadata": {"a": None}}, "metadata.a"),
        ({"title": "x", "text": "x", "url": "ftp://a"}, "url"),
        ({"title": "x", "text": "x", "url": "https://"}, "url"),
        ({"title": "x", "text": "x", "url": "https:///path"}, "url"),
        ({"title": "x", "text": "x", "url": "https://:80/"}, "url"),
        ({"title": "x", "text": "x", "url": "https://[no address]/"}, "url"),
        ({"title": "x", "text": "x", "url": "https://[v]/"}, "url"),
        ({"title": "x", "text": "x", "collection": ""}, "collection"),
    ],
)
async def test_a_wrong_field_of_a_text_is_named(bare: Running, body: dict[str, Any], path: str) -> None:
    response = await post(bare, **body)
    assert path in [field["path"] for field in error(response, 422, "invalid_request")["fields"]]


async def raw_post(server: Running, content: bytes, content_type: str) -> httpx2.Response:
    async with client(server.base_url) as http:
        return await http.post("/v1/documents", content=content, headers={"content-type": content_type})


@pytest.mark.parametrize("body", [{"files": [("file", ("a.txt", b"Tea"))]}, {"json": {"title": "Tea", "text": "Tea."}}])
async def test_a_collection_beside_the_body_is_not_passed_over(bare: Running, body: dict[str, Any]) -> None:
    """The documents would be in `default`, where whoever asked does not look for them."""
    async with client(bare.base_url) as http:
        response = await http.post("/v1/documents?collection=handbook", **body)
    assert [field["path"] for field in error(response, 422, "invalid_request")["fields"]] == ["collection"]


async def test_half_a_character_in_a_field_is_named(bare: Running) -> None:
    response = await raw_post(bare, rb'{"title": "half \ud800", "text": "x"}', "application/json")
    assert [field["path"] for field in error(response, 422, "invalid_request")["fields"]] == ["title"]


async def test_a_body_that_is_not_what_it_says_is_refused(server: Running) -> None:
    multipart = "multipart/form-data; boundary=b"
    cut = b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\nTea'
    error(await raw_post(server, b"Tea", "text/plain"), 415, "unsupported_media_type")
    error(await raw_post(server, b"Tea", "multipart/form-data"), 415, "unsupported_media_type")
    error(await raw_post(server, b"{", "application/json"), 400, "malformed_json")
    error(await raw_post(server, b"no boundary", multipart), 400, "malformed_multipart")
    error(await raw_post(server, b"", multipart), 400, "malformed_multipart")
    error(await raw_post(server, cut, multipart), 400, "malformed_multipart")
    error(await raw_post(server, b"--b\r\n" + b"x" * 100_000, multipart), 400, "malformed_multipart")
    async with client(server.base_url) as http:
        error(await http.get("/v1/documents"), 404, "collection_not_found")


async def test_floods_of_files_and_of_fields_are_refused(server: Running) -> None:
    files = [("file", (f"{n}.txt", b"x")) for n in range(FILES_LIMIT + 1)]
    async with client(server.base_url) as http:
        error(await http.post("/v1/documents", files=files), 413, "body_too_large")
        fields = {"title": "x" * (FIELD_LIMIT_BYTES + 1)}
        error(await http.post("/v1/documents", files=files[:1], data=fields), 413, "body_too_large")
        many = {f"f{n}": "x" for n in range(30)}
        error(await http.post("/v1/documents", files=files[:1], data=many), 413, "body_too_large")
    twice = [("file", ("a.txt", b"x")), ("file", ("a.txt", b"y"))]
    async with client(server.base_url) as http:
        error(await http.post("/v1/documents", files=twice), 422, "invalid_request")


async def test_an_upload_larger_than_the_limit_is_refused_before_and_while_it_is_read(pool: Pool) -> None:
    house = replace(
        scripted_house(), documents=StoredDocuments(PassageStore(pool), HashingEmbedder()), upload_bytes=1_048_576
    )

    async def chunks() -> AsyncIterator[bytes]:
        yield b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        for _ in range(40):
            yield b"x" * 65_536

    async with running(house) as server, client(server.base_url) as http:
        headers = {"content-type": "multipart/form-data; boundary=b"}
        announced = await http.post("/v1/documents", content=b"x" * 1_048_577, headers=headers)
        error(announced, 413, "body_too_large")
        error(await http.post("/v1/documents", content=chunks(), headers=headers), 413, "body_too_large")


async def test_progress_is_told_as_events(server: Running) -> None:
    long = "\n\n".join(f"Sentence {n} is about tea number {n}. " * 20 for n in range(60))
    parts = [("file", ("long.txt", long.encode())), ("file", ("bad.pdf", b"%PDF"))]
    async with (
        client(server.base_url) as http,
        http.stream("POST", "/v1/documents", files=parts, headers={"accept": "text/event-stream"}) as response,
    ):
        assert response.status_code == 200
        events = [(event.event, json.loads(event.data)) async for event in EventSource(response).aiter_sse()]
    assert [name for name, _ in events][-1] == "done"
    assert [name for name, _ in events].count("done") == 1
    progress = [data for name, data in events if name == "progress"]
    assert progress[0] == {"name": "long.txt", "done": 0, "total": 2, "passages": {"done": 0, "total": 0}}
    embedded = [data["passages"]["done"] for data in progress if data["name"] == "long.txt"]
    assert embedded == sorted(embedded)
    assert len(set(embedded)) > 2
    documents = {data["name"]: data["status"] for name, data in events if name == "document"}
    assert documents == {"long.txt": "added", "bad.pdf": "unreadable"}
    assert (events[-1][1]["added"], events[-1][1]["unreadable"]) == (1, 1)


@pytest.mark.parametrize("accept", ["text/event-stream", "application/json"])
async def test_a_client_that_leaves_cancels_the_ingest_and_nothing_is_half_stored(
    server: Running, embedder: Gated, spans: Spans, pool: Pool, accept: str
) -> None:
    await upload(server, ("tea.txt", b"Old tea."))
    embedder.open, embedder.asked = anyio.Event(), anyio.Event()
    async with client(server.base_url) as http, anyio.create_task_group() as tasks:

        async def send() -> None:
            parts = [("file", ("tea.txt", b"New tea.")), ("file", ("more.txt", b"More."))]
            await http.post("/v1/documents", files=parts, headers={"accept": accept})

        tasks.start_soon(send)
        with anyio.fail_after(10):
            await embedder.asked.wait()
        tasks.cancel_scope.cancel()
    await assert_nothing_is_left(server, spans)
    embedder.open.set()
    assert await found(pool, "tea") == ["Old tea."]
    assert [one["name"] for one in await listed(server)] == ["tea.txt"]


async def test_a_server_that_stops_ends_an_ingest_and_says_so(server: Running, embedder: Gated, spans: Spans) -> None:
    embedder.open, embedder.asked = anyio.Event(), anyio.Event()
    answers: list[httpx2.Response] = []
    async with anyio.create_task_group() as tasks:

        async def send() -> None:
            answers.append(await upload(server, ("tea.txt", b"Tea.")))

        tasks.start_soon(send)
        with anyio.fail_after(10):
            await embedder.asked.wait()
        server.server.stop()
    error(answers[0], 503, "shutting_down")
    await eventually(lambda: not spans.open)


async def test_a_fault_of_the_embedder_ends_the_upload_and_what_was_taken_stays(pool: Pool) -> None:
    class Failing(HashingEmbedder):
        async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
            if "second" in texts[0]:
                raise RuntimeError("out of order")
            return await super().embed_passages(texts)

    house = replace(scripted_house(), documents=StoredDocuments(PassageStore(pool), Failing()))
    async with running(house) as server:
        response = await upload(server, ("a.txt", b"The first."), ("b.txt", b"The second."), ("c.txt", b"The third."))
        error(response, 502, "embedding_failed")
        assert [one["name"] for one in response.json()["documents"]] == ["a.txt"]
        assert [one["name"] for one in await listed(server)] == ["a.txt"]


async def test_the_list_is_paged_newest_first(server: Running) -> None:
    for n in range(5):
        await upload(server, (f"{n}.txt", b"Tea."))
    names, query = [], "limit=2"
    async with client(server.base_url) as http:
        for _ in range(3):
            page = (await http.get(f"/v1/documents?{query}")).json()
            names.append([one["name"] for one in page["documents"]])
            query = f"limit=2&after={page['next']}"
    assert names == [["4.txt", "3.txt"], ["2.txt", "1.txt"], ["0.txt"]]
    assert page["next"] is None


@pytest.mark.parametrize(
    ("query", "field"), [("limit=0", "limit"), ("after=x", "after"), ("after=%00", "after"), ("of=x", "of")]
)
async def test_a_wrong_parameter_of_the_list_is_named(bare: Running, query: str, field: str) -> None:
    async with client(bare.base_url) as http:
        response = await http.get(f"/v1/documents?{query}")
    assert [one["path"] for one in error(response, 422, "invalid_request")["fields"]] == [field]


async def test_an_unknown_collection_is_404_and_a_method_that_is_none_405(server: Running) -> None:
    async with client(server.base_url) as http:
        error(await http.get("/v1/documents?collection=none"), 404, "collection_not_found")
        error(await http.put("/v1/documents"), 405, "method_not_allowed")
        error(await http.get("/v1/documents/doc_1"), 405, "method_not_allowed")


async def test_without_a_key_no_document_is_taken_listed_or_removed() -> None:
    async with running(replace(scripted_house(), keys=Keys(["right"]))) as server, client(server.base_url) as http:
        for method, path in (("POST", ""), ("GET", ""), ("DELETE", "/doc_1")):
            error(await http.request(method, f"/v1/documents{path}"), 401, "unauthorized")


async def test_a_gateway_without_a_database_says_that_it_keeps_no_documents(bare: Running) -> None:
    async with client(bare.base_url) as http:
        error(await http.post("/v1/documents", json={"title": "a", "text": "b"}), 503, "database_missing")
        error(await http.get("/v1/documents"), 404, "collection_not_found")
        error(await http.delete("/v1/documents/x"), 404, "document_not_found")


async def test_a_search_meanwhile_sees_the_old_document_or_the_new_one_and_never_both(
    server: Running, pool: Pool
) -> None:
    def version(n: int) -> bytes:
        return "\n\n".join(f"# Part {part}\n\nVersion{n} of part {part} says tea." for part in range(8)).encode()

    await upload(server, ("tea.md", version(0)))
    seen: set[str] = set()
    done = anyio.Event()

    async def hammer() -> None:
        while not done.is_set():
            for mode in (SearchMode.DENSE, SearchMode.HYBRID):
                texts = await found(pool, "version part says tea", mode=mode)
                assert len(texts) == 8
                (one,) = {word for text in texts for word in text.split() if word.startswith("Version")}
                seen.add(one)

    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(hammer)
        for n in range(1, 9):
            assert (await upload(server, ("tea.md", version(n)))).json()["changed"] == 1
        done.set()
    assert len(seen) > 1


async def test_an_upload_that_waits_in_vain_behind_slow_ones_is_told_so(
    server: Running, embedder: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DocumentsRoute, "turn_limit_s", 0.2)
    embedder.open = anyio.Event()
    async with anyio.create_task_group() as tasks:
        for number in range(AT_ONCE):
            tasks.start_soon(partial(post, server, title=f"slow {number}", text="It takes its time."))
        await eventually(lambda: server.house.open_answers.count == AT_ONCE)
        await embedder.asked.wait()
        refused = await post(server, title="late", text="It comes last.")
        assert error(refused, 503, "too_many_uploads")["retryable"] is True
        assert int(refused.headers["retry-after"]) > 0
        embedder.open.set()
    assert (await post(server, title="late", text="It comes last.")).status_code == 200
