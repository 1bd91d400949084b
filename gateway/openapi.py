"""`GET /openapi.json`: every route that programs ask, its body, its parameters and what comes back, as an OpenAPI document.

Bodies of requests are those that the routes read by; the rest is kept by hand and held to the routes and to real answers by tests.
"""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from gateway import gap_groups, gap_routes
from gateway.chat import models_route
from gateway.chat.completions import ChatBody, ChatCompletions
from gateway.chat.ui_chat import UiChat, UiChatBody
from gateway.keeping import resume
from gateway.keeping.idempotency import KEY_LIMIT
from gateway.native_form import NativeForm
from gateway.observing import metrics_route
from gateway.openapi_schemas import BODIES, EVENTS, TEXT, Schema, ref
from gateway.problems import send_json
from gateway.request import COLLECTION_LIMIT, AnswerBody
from gateway.uploads import passages
from gateway.uploads import routes as document_routes
from gateway.uploads.upload import DocumentBody

ROUTE: Final = "/openapi.json"
REQUESTS: Final[Mapping[str, type[BaseModel]]] = {
    "AnswerRequest": AnswerBody,
    "ChatRequest": ChatBody,
    "UiChatRequest": UiChatBody,
    "DocumentRequest": DocumentBody,
}
JSON, STREAM, FILES = "application/json", "text/event-stream", "multipart/form-data"
COLLECTION: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": COLLECTION_LIMIT}
CHAT_FAULTS: Final = ("OpenAIError", "Error")  # a path that is not even one of the route's is answered before it
WHAT_A_STREAM_IS: Final = (
    "Server-sent events, each a `StreamEvent`; in its data is JSON of the schema `event.<name>`. `done` is always last."
)


class OpenApi:
    """The ASGI application of the route."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await send_json(send, 200, document())


def document() -> Schema:
    """The whole document, of OpenAPI 3.1."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Optimistic streaming gateway",
            "version": version("optimistic-gateway"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths(),
        "components": {
            "schemas": schemas(),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def schemas() -> Schema:
    """Every schema by its name; what a request's body is made of has that body's name in front."""
    found: Schema = {}
    for name, body in REQUESTS.items():
        schema = body.model_json_schema(ref_template=f"#/components/schemas/{name}.{{model}}")
        found |= {f"{name}.{inner}": part for inner, part in schema.pop("$defs", {}).items()}
        found[name] = schema
    return found | dict(BODIES) | {f"event.{name}": schema for name, schema in EVENTS.items()}


def paths() -> Schema:
    answer_id = in_path("id", "The id of a kept answer.")
    last = {"name": "Last-Event-ID", "in": "header", "schema": TEXT, "description": "The last event that arrived."}
    key = {
        "name": "Idempotency-Key",
        "in": "header",
        "schema": {"type": "string", "minLength": 1, "maxLength": KEY_LIMIT},
    }
    return {
        NativeForm.path: {
            "post": operation(
                "Ask", whole("Answer", STREAM) | nothing(), body=taking("AnswerRequest"), parameters=(last, key)
            )
        },
        resume.ROUTE: {
            "get": operation("Read on", streamed() | nothing(), parameters=(answer_id, last)),
        },
        resume.ONE_ROUTE: {"delete": operation("Stop a kept answer", nothing(), parameters=(answer_id,))},
        ChatCompletions.path: {
            "post": operation(
                "Ask, as OpenAI's clients do",
                whole("Completion", STREAM),
                body=taking("ChatRequest"),
                faults=CHAT_FAULTS,
            )
        },
        UiChat.path: {
            "post": operation(
                "Ask, as the AI SDK does", streamed("Its UI message stream."), body=taking("UiChatRequest")
            )
        },
        models_route.ROUTE: {"get": operation("List the models", whole("Models"), faults=CHAT_FAULTS)},
        plain(models_route.ONE_ROUTE): {
            "get": operation(
                "One model",
                whole("Model"),
                parameters=(in_path("model", "A name out of the list."),),
                faults=CHAT_FAULTS,
            )
        },
        document_routes.ROUTE: {
            "get": operation(
                "List documents, newest first",
                whole("Documents"),
                parameters=(
                    in_query("after", TEXT),
                    in_query("collection", COLLECTION),
                    in_query("limit", numbers(document_routes.LIMIT_MOST)),
                ),
            ),
            "post": operation(
                "Take documents in",
                whole("Taken", STREAM),
                body=taking("DocumentRequest", files=True),
                faults=("Error", "Taken"),
            ),
        },
        document_routes.ONE_ROUTE: {
            "delete": operation("Remove a document", nothing(), parameters=(in_path("id", "The id of a document."),))
        },
        plain(passages.ROUTE): {
            "get": operation("A passage, whole", whole("Passage"), parameters=(in_path("id", "The id of a passage."),))
        },
        gap_routes.ROUTE: {
            "get": operation(
                "What was asked and not covered",
                whole("Gaps"),
                parameters=(in_query("collection", COLLECTION), in_query("limit", numbers(gap_groups.LIMIT_MOST))),
            )
        },
        "/healthz": {"get": operation("The loop is alive", whole("Healthy"), is_open=True)},
        "/readyz": {
            "get": operation(
                "Questions may be sent", whole("Ready") | {"503": said("Draining.", "Ready")}, is_open=True
            )
        },
        metrics_route.ROUTE: {
            "get": operation(
                "Metrics",
                {
                    "200": {
                        "description": "Prometheus text.",
                        "content": {"text/plain": {"schema": TEXT}, "application/openmetrics-text": {"schema": TEXT}},
                    }
                },
                is_open=True,
            )
        },
        metrics_route.SLOW_ROUTE: {"get": operation("The slowest answers", whole("Slowest"), is_open=True)},
        ROUTE: {
            "get": operation("This document", {"200": {"description": "It.", "content": {JSON: {}}}}, is_open=True)
        },
    }


def operation(
    summary: str,
    responses: Schema,
    *,
    body: Schema | None = None,
    parameters: Sequence[Schema] = (),
    faults: Sequence[str] = ("Error",),
    is_open: bool = False,
) -> Schema:
    """One way to ask a route; every other status than those of `responses` has a body of `faults`."""
    wrong = said("What is wrong.", faults[0])
    if len(faults) > 1:
        wrong["content"][JSON]["schema"] = {"anyOf": [ref(name) for name in faults]}
    made: Schema = {"summary": summary, "responses": responses | {"default": wrong}}
    if parameters:
        made["parameters"] = list(parameters)
    if body is not None:
        made["requestBody"] = body
    if is_open:
        made["security"] = []
    return made


def said(description: str, name: str) -> Schema:
    """A response whose body is the schema `name`."""
    return {"description": description, "content": {JSON: {"schema": ref(name)}}}


def whole(name: str, *besides: str) -> Schema:
    """200 with the schema `name`, or with one of the media types besides."""
    response = said(WHAT_A_STREAM_IS if besides else "Done.", name)
    response["content"] |= {media_type: {"schema": ref("StreamEvent")} for media_type in besides}
    return {"200": response}


def streamed(description: str = WHAT_A_STREAM_IS) -> Schema:
    return {"200": {"description": description, "content": {STREAM: {"schema": ref("StreamEvent")}}}}


def nothing() -> Schema:
    return {"204": {"description": "There is nothing to send."}}


def taking(name: str, *, files: bool = False) -> Schema:
    content: dict[str, Any] = {JSON: {"schema": ref(name)}}
    if files:
        a_file = {"type": "string", "contentMediaType": "application/octet-stream"}
        content[FILES] = {
            "schema": {
                "type": "object",
                "properties": {"file": {"type": "array", "items": a_file, "minItems": 1}, "collection": COLLECTION},
                "required": ["file"],
            }
        }
    return {"required": True, "content": content}


def in_path(name: str, description: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": TEXT, "description": description}


def in_query(name: str, schema: Schema) -> Schema:
    return {"name": name, "in": "query", "schema": schema}


def numbers(most: int) -> Schema:
    return {"type": "integer", "minimum": 1, "maximum": most}


def plain(route: str) -> str:
    """A route's path without Starlette's converters, as OpenAPI writes it."""
    return route.replace(":path}", "}")
