"""A question as it comes over HTTP: checked strictly, cleaned once, turned into what the race understands."""

import math
import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from gateway.cleaning import clean, is_blank
from gateway.problems import Field as BadField
from gateway.problems import InvalidRequest
from grading.ports import Grader
from retrieval.passage import Scalar
from streaming.budget import MAX_RETRIES
from streaming.ports import Generator, Turn

QUESTION_LIMIT = 8_000  # characters, after cleaning
TURNS_LIMIT = 50
HISTORY_LIMIT = 100_000  # characters, all turns together
COLLECTION_LIMIT = 100
FILTERS_LIMIT = 20
FILTER_NAME_LIMIT = 100
FILTER_VALUE_LIMIT = 1_000
DEADLINE_LIMIT_S = 300.0
DEADLINE_LEAST_S = 0.1
FIELDS_SHOWN = 20
PATH_SHOWN = 120
INT_LIMIT = 2**53  # integers beyond it differ between JSON readers

STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

_KIND = re.compile(r"str|int|float|bool|list\[.*\]")  # of a union, as pydantic names them in a path
KINDS_FROM = 2  # the first two parts of a path are names of the body, or of a filter


class TurnBody(BaseModel):
    model_config = STRICT
    role: Literal["user", "assistant"]
    content: str


class OptionsBody(BaseModel):
    model_config = STRICT
    speculate: Literal["never", "always", "adaptive"] | None = None
    max_retries: Annotated[int, Field(ge=0, le=MAX_RETRIES)] | None = None
    verify: Literal["off", "annotate", "gate"] | None = None
    deadline_s: Annotated[float, Field(ge=DEADLINE_LEAST_S, le=DEADLINE_LIMIT_S)] | None = None
    resumable: bool = False


class AnswerBody(BaseModel):
    """The body of `POST /v1/answers`."""

    model_config = STRICT
    question: str
    history: Annotated[list[TurnBody], Field(max_length=TURNS_LIMIT)] = []
    collection: Annotated[str, Field(min_length=1, max_length=COLLECTION_LIMIT)] = "default"
    filters: Annotated[dict[str, str | int | float | bool], Field(max_length=FILTERS_LIMIT)] = {}
    stream: bool = True
    options: OptionsBody = OptionsBody()


@dataclass(frozen=True, slots=True)
class Options:
    """What one request, or the profile that it names, may choose; None keeps the server's setting."""

    speculate: Literal["never", "always", "adaptive"] | None = None
    max_retries: int | None = None
    deadline_s: float | None = None
    verify: Literal["off", "annotate", "gate"] | None = None
    output_tokens: int | None = None
    generator: Generator | None = None
    grader: Grader | None = None


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """A question, cleaned and within every bound; a resumable one is answered on when its client leaves."""

    question: str
    history: tuple[Turn, ...]
    collection: str
    filters: dict[str, Scalar]
    stream: bool
    options: Options
    is_resumable: bool = False


def answer_request(value: object) -> AnswerRequest:
    """The request that the JSON `value` says. Raises InvalidRequest, naming each field that is wrong, never its content."""
    try:
        body = AnswerBody.model_validate(value)
    except ValidationError as error:
        raise InvalidRequest("the request is not valid", bad_fields(error)) from None
    return AnswerRequest(
        question=clean_question(body.question),
        history=clean_history(body.history),
        collection=clean_collection(body.collection),
        filters=clean_filters(body.filters),
        stream=body.stream,
        options=Options(body.options.speculate, body.options.max_retries, body.options.deadline_s, body.options.verify),
        is_resumable=body.options.resumable,
    )


def clean_question(text: str) -> str:
    """The question without what cannot be seen. Raises InvalidRequest when nothing or too much is left."""
    question = clean(text).strip()
    if is_blank(question):
        raise invalid("question", "must not be blank")
    if len(question) > QUESTION_LIMIT:
        raise invalid("question", f"has {len(question)} characters; at most {QUESTION_LIMIT} are read")
    return question


def clean_history(turns: list[TurnBody]) -> tuple[Turn, ...]:
    """The turns in order, cleaned, blank ones left out. Raises InvalidRequest when they are too long together."""
    cleaned = tuple(Turn(turn.role, clean(turn.content).strip()) for turn in turns)
    size = sum(len(turn.content) for turn in cleaned)
    if size > HISTORY_LIMIT:
        raise invalid("history", f"has {size} characters in all; at most {HISTORY_LIMIT} are read")
    return tuple(turn for turn in cleaned if not is_blank(turn.content))


def clean_collection(name: str) -> str:
    """The collection's name. Raises InvalidRequest for one that is too long or that cleaning would change: no collection has it."""
    if len(name) > COLLECTION_LIMIT:
        raise invalid("collection", f"has {len(name)} characters; at most {COLLECTION_LIMIT} are read")
    if clean(name).strip() != name or "\n" in name or "\t" in name or is_blank(name):
        raise invalid("collection", "holds characters that no collection's name has")
    return name


def clean_filters(filters: dict[str, str | int | float | bool]) -> dict[str, Scalar]:
    """The filters, names and values cleaned. Raises InvalidRequest for names, texts or numbers out of bounds."""
    cleaned: dict[str, Scalar] = {}
    for name, value in filters.items():
        if is_blank(name) or len(name) > FILTER_NAME_LIMIT:
            raise invalid("filters", f"must have names of 1 to {FILTER_NAME_LIMIT} visible characters")
        cleaned[clean(name)] = clean_value(f"filters.{shown(clean(name))}", value)
    return cleaned


def clean_value(path: str, value: Scalar) -> Scalar:
    """One filter's value. Raises InvalidRequest naming `path`."""
    if isinstance(value, str):
        text = clean(value)
        if len(text) > FILTER_VALUE_LIMIT:
            raise invalid(path, f"has more than {FILTER_VALUE_LIMIT} characters")
        return text
    if abs(value) > INT_LIMIT or not math.isfinite(value):
        raise invalid(path, "is a number out of bounds")
    return value


def invalid(path: str, message: str) -> InvalidRequest:
    """The fault of one field."""
    return InvalidRequest(f"{path} {message}", (BadField(path, message),))


def bad_fields(error: ValidationError) -> tuple[BadField, ...]:
    """What pydantic found, as field paths and reasons: at most the first twenty, nothing of the values."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return tuple(BadField(path_of(detail), reason_of(detail)) for detail in details[:FIELDS_SHOWN])


def reason_of(detail: ErrorDetails) -> str:
    """What is wrong, without the name of a class of ours."""
    return "Input should be an object" if detail["type"] == "model_type" else detail["msg"]


def path_of(detail: ErrorDetails) -> str:
    """Where in the body, as `history.3.content`; the body itself is `body`.

    Where a value may be of several kinds, pydantic adds which of them it tried: that is not in the body.
    """
    loc = detail["loc"]
    path = ".".join(str(part) for at, part in enumerate(loc) if at < KINDS_FROM or not _KIND.fullmatch(str(part)))
    return shown(clean(path)) or "body"


def shown(text: str) -> str:
    """`text`, cut to what an error message shows of a name that a client chose."""
    return text if len(text) <= PATH_SHOWN else text[:PATH_SHOWN] + "..."
