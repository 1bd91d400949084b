"""/openapi.json against the application: every route is in it, and no other; what it says of bodies is what is read and sent."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest

from gateway import gap_routes
from gateway.app import application
from gateway.gap_groups import GapGroup
from gateway.openapi import REQUESTS, document, plain
from gateway.openapi_schemas import BODIES, EVENTS
from gateway.problems import STATUS, InvalidRequest, body_of
from gateway.problems import Field as BadField
from gateway.uploads import passages, progress
from gateway.uploads.documents import Finished
from gateway.uploads.routes import listing
from retrieval.faults import DocumentUnreadable
from retrieval.store import StoredDocument, StoredPassage
from streaming import events
from tests.support.clients import ask, client
from tests.support.every_route import routes_of
from tests.support.gateway_app import running, scripted_house

DOCUMENT = document()
PAGES = {("GET", "/"), ("GET", "/latency")}  # for people
QUESTIONS = (
    "Is it?",
    "Is it? [[verdict=partial,sufficient]]",
    "Is it? [[verdict=insufficient]]",
    "Is it? [[fault=server_error@8 grade_ms=1 ttft_ms=150]]",
)


def validator(name: str) -> jsonschema.Draft202012Validator:
    """Of the schema `name`, which may refer to others of the document."""
    return jsonschema.Draft202012Validator({**DOCUMENT, "$ref": f"#/components/schemas/{name}"})


def test_every_route_is_described_and_no_other_is() -> None:
    described = {(method.upper(), path) for path, operations in DOCUMENT["paths"].items() for method in operations}
    served = {(method, plain(path)) for method, path in routes_of(application(scripted_house()))}
    assert described == served - PAGES


def test_references_lead_somewhere_and_schemas_are_schemas() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(DOCUMENT)))
    assert named <= schemas.keys()
    assert set(REQUESTS) | set(BODIES) <= named
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_parameters_of_a_path_are_those_that_it_names() -> None:
    for path, operations in DOCUMENT["paths"].items():
        for operation in operations.values():
            named = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"]
            assert named == re.findall(r"\{(\w+)\}", path)


def test_every_event_has_a_schema() -> None:
    names = {"started", "status", "retry", "sources", "token", "citation", "refusal", "verification", "failed", "done"}
    assert EVENTS.keys() == names
    assert len(events.Event.__args__) == len(names)


@pytest.mark.parametrize("kind", STATUS, ids=lambda kind: kind.__name__)
def test_every_fault_is_an_error_as_described(kind: Any) -> None:
    fault = kind("no", 1) if kind.__name__ == "RateExceeded" else kind("no")
    validator("Error").validate(body_of(fault))


def test_fault_with_fields_is_an_error_as_described() -> None:
    validator("Error").validate(body_of(InvalidRequest("no", (BadField("a", "b"),))))


def test_bodies_that_need_a_database_are_as_described() -> None:
    at = datetime(2026, 11, 30, 12, tzinfo=UTC)
    for url in (None, "https://example.org"):
        one = listing(StoredDocument("d1", "a.md", "A", url, 3, at))
        validator("Documents").validate({"documents": [one], "next": None})
        validator("Passage").validate(passages.said(StoredPassage("p1", "d1", "A", url, "It is.", "default")))
    group = GapGroup("g1", "why?", "default", 2, at, at, "insufficient_evidence", None, ("default",), 2, ("why?",))
    validator("Gaps").validate({"gaps": [gap_routes.said(group)]})
    taken = (
        Finished("a.md", "added", "d1", "A", 3),
        Finished("c.md", "unchanged", "d2"),
        Finished("b.md", "unreadable", fault=DocumentUnreadable("no")),
    )
    validator("Taken").validate(progress.whole("default", taken, None))
    validator("Taken").validate(progress.whole("default", taken[2:], DocumentUnreadable("no")))
    assert not validator("Taken").is_valid({"collection": "default"})


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_a_server_sends_is_as_described(anyio_backend: str) -> None:
    seen = set()
    async with running(scripted_house()) as server, client(server.base_url) as http:
        for question in QUESTIONS:
            for verify in ("off", "annotate"):
                told = await ask(server.base_url, question, options={"verify": verify})
                for event in told.events:
                    seen.add(event.event)
                    validator(f"event.{event.event}").validate(json.loads(event.data))
                whole = await http.post(
                    "/v1/answers", json={"question": question, "stream": False, "options": {"verify": verify}}
                )
                validator("Answer" if whole.status_code == 200 else "Error").validate(whole.json())
        chat = {"model": "gateway", "messages": [{"role": "user", "content": "Is it?"}]}
        for path, name in (
            ("/healthz", "Healthy"),
            ("/readyz", "Ready"),
            ("/v1/models", "Models"),
            ("/v1/models/gateway", "Model"),
            ("/v1/models/none", "OpenAIError"),
            ("/latency/slowest", "Slowest"),
            ("/v1/passages/none", "Error"),
            ("/v1/gaps", "Gaps"),
            ("/v1/documents?limit=x", "Error"),
        ):
            validator(name).validate((await http.get(path)).json())
        validator("Completion").validate((await http.post("/v1/chat/completions", json=chat)).json())
        validator("OpenAIError").validate((await http.post("/v1/chat/completions", json={})).json())
        assert (await http.get("/openapi.json")).json() == DOCUMENT
    assert seen == EVENTS.keys()
