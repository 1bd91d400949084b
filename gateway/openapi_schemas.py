"""What goes out, as JSON schemas: errors, the events of a stream, the whole bodies. Kept by hand, held to real answers by tests."""

from collections.abc import Mapping
from typing import Any, Final

from grading.grade import Verdict
from streaming.events import Path, Reason

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
WHOLE: Final[Schema] = {"type": "integer"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
NUMBER: Final[Schema] = {"type": "number"}
TRUTH: Final[Schema] = {"type": "boolean"}
MOMENT: Final[Schema] = {"type": "string", "format": "date-time"}


def ref(name: str) -> Schema:
    """The schema of that name, wherever it stands."""
    return {"$ref": f"#/components/schemas/{name}"}


def listed(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def nullable(of: Schema) -> Schema:
    return {"anyOf": [of, {"type": "null"}]}


def one_of(values: type[Path] | type[Verdict] | type[Reason]) -> Schema:
    return {"type": "string", "enum": [str(value) for value in values]}


def closed(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """An object of these properties and no other."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


FAULT: Final = {"type": TEXT, "message": TEXT, "retryable": TRUTH}
SOURCE: Final = closed({"n": WHOLE, "id": TEXT, "title": TEXT, "snippet": TEXT, "score": NUMBER}, {"url": TEXT})
CITATION: Final = closed({"n": WHOLE, "start": COUNT, "end": COUNT}, {"quote": TEXT})
RETRY: Final = closed(
    {
        "attempt": WHOLE,
        "verdict": one_of(Verdict),
        "missing": nullable(TEXT),
        "correction": TEXT,
        "query": TEXT,
    }
)
CLOSEST: Final = closed({"title": TEXT, "snippet": TEXT, "confirmed": TRUTH}, {"url": TEXT})
REFUSAL: Final = closed(
    {
        "reason": one_of(Reason),
        "message": TEXT,
        "missing": nullable(TEXT),
        "searched": listed(TEXT),
        "gap_id": nullable(TEXT),
        "closest": listed(CLOSEST),
    }
)
CLAIM: Final = closed({"start": COUNT, "end": COUNT, "supported": TRUTH, "sources": listed(WHOLE)})
VERIFICATION: Final = closed({"grounded": TRUTH, "claims": listed(CLAIM)})
DONE: Final = {
    "path": one_of(Path),
    "finish_reason": TEXT,
    "attempts": COUNT,
    "usage": {"type": "object", "additionalProperties": {"type": ["integer", "boolean"]}},
    "timings_ms": {"type": "object", "additionalProperties": NUMBER},
}

EVENTS: Final[Mapping[str, Schema]] = {
    "started": closed({"answer_id": TEXT, "trace_id": TEXT, "question": TEXT, "collection": TEXT}),
    "status": closed(
        {
            "attempt": COUNT,
            "stage": {"type": "string", "enum": ["retrieving", "grading", "correcting", "generating", "verifying"]},
        },
        {"detail": TEXT},
    ),
    "retry": RETRY,
    "sources": closed({"attempt": COUNT, "passages": listed(SOURCE)}),
    "token": closed({"text": TEXT}),
    "citation": CITATION,
    "refusal": REFUSAL,
    "verification": VERIFICATION,
    "failed": closed(FAULT),
    "done": closed(DONE),
}
"""The data of each event of the native stream, by the event's name."""

GAP: Final = closed(
    {
        "id": TEXT,
        "question": TEXT,
        "collection": TEXT,
        "count": COUNT,
        "first_at": MOMENT,
        "last_at": MOMENT,
        "reason": TEXT,
        "missing": nullable(TEXT),
        "searched": listed(TEXT),
        "attempts": COUNT,
        "questions": listed(TEXT),
    }
)
DOCUMENT: Final = closed(
    {"id": TEXT, "name": TEXT, "title": TEXT, "url": nullable(TEXT), "passages": COUNT, "ingested_at": MOMENT}
)
MODEL: Final = closed({"id": TEXT, "object": {"const": "model"}, "created": WHOLE, "owned_by": TEXT})
TAKEN: Final = closed(
    {"name": TEXT, "status": {"type": "string", "enum": ["added", "changed", "unchanged", "unreadable"]}},
    {"id": TEXT, "title": nullable(TEXT), "passages": COUNT, "error": closed(FAULT)},
)

BODIES: Final[Mapping[str, Schema]] = {
    "Error": closed(
        {
            "error": closed(
                FAULT, {"fields": listed(closed({"path": TEXT, "message": TEXT})), "answer_id": TEXT, "trace_id": TEXT}
            )
        }
    ),
    "OpenAIError": closed({"error": closed({"message": TEXT, "type": TEXT, "param": nullable(TEXT), "code": TEXT})}),
    "Answer": closed(
        {
            "answer_id": TEXT,
            "trace_id": TEXT,
            **DONE,
            "answer": TEXT,
            "sources": listed(SOURCE),
            "citations": listed(CITATION),
            "retries": listed(RETRY),
            "refusal": nullable(REFUSAL),
        },
        {"verification": VERIFICATION},
    ),
    "StreamEvent": {"type": "object", "properties": {"event": TEXT, "id": TEXT, "data": TEXT}, "required": ["data"]},
    "Completion": {"type": "object", "required": ["id", "object", "created", "model", "choices", "usage", "gateway"]},
    "Models": closed({"object": {"const": "list"}, "data": listed(MODEL)}),
    "Model": MODEL,
    "Taken": closed(
        {
            "collection": TEXT,
            "added": COUNT,
            "changed": COUNT,
            "unchanged": COUNT,
            "unreadable": COUNT,
            "passages": COUNT,
            "documents": listed(TAKEN),
        },
        {"error": closed(FAULT)},  # where nothing could be taken, beside what became of each document
    ),
    "Documents": closed({"documents": listed(DOCUMENT), "next": nullable(TEXT)}),
    "Passage": closed({"id": TEXT, "document_id": TEXT, "title": TEXT, "url": nullable(TEXT), "text": TEXT}),
    "Gaps": closed({"gaps": listed(GAP)}),
    "Healthy": closed({"status": {"const": "ok"}}),
    "Ready": closed(
        {
            "status": {"type": "string", "enum": ["ready", "draining"]},
            "models": {"type": "object", "additionalProperties": TEXT},
            "upstreams": {
                "type": "object",
                "additionalProperties": {"type": "string", "enum": ["closed", "half_open", "open"]},
            },
            "open_answers": COUNT,
        }
    ),
    "Slowest": closed({"answers": listed({"type": "object", "required": ["trace_id", "path", "total_s", "parts"]})}),
}
"""The bodies of responses, by their names in the document."""
